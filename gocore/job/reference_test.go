package job

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
)

// TestGeneratedPage keeps docs/reference/replay.md in step with table.go.
func TestGeneratedPage(t *testing.T) {
	var out strings.Builder
	out.WriteString(`# Options of a replay

<!-- Code generated from gocore/job/table.go by go generate ./gocore/job. DO NOT EDIT. -->

An option of ` + "`python -m dynamo.replay`" +
		` stands beside the parameter of the Python functions, which is also its key in a
` + "`--config`" + ` file. Without further words it works in every run: with a trace and with a synthetic workload, ` +
		`offline (in
virtual time) and online (in real time).
`)
	for _, group := range []string{"", workloadGroup, deploymentGroup, faultGroup, runGroup, loadModelGroup, outputGroup} {
		title := group
		if group == "" {
			title = "input"
		}
		fmt.Fprintf(&out, "\n## %s\n\n| option | parameter | value | default | works with | meaning |\n"+
			"|---|---|---|---|---|---|\n",
			strings.ToUpper(title[:1])+title[1:])
		for _, o := range options {
			if o.group == group && (o.help != "" || o.doc != "") {
				out.WriteString(referenceRow(o))
			}
		}
	}
	fieldtable.Keep(t, "../../docs/reference/replay.md", out.String())
}

func referenceRow(o option) string {
	row := rowOf(o)
	flag, parameter, byDefault := "", "", ""
	if row.Help != "" {
		flag = "`" + row.Flag + "`"
	}
	if o.doc != "" {
		parameter = "`" + o.Name + "`"
	}
	if row.Default != nil {
		byDefault = fmt.Sprintf("`%v`", row.Default)
	}
	meaning := strings.ReplaceAll(o.doc, "``", "`")
	if meaning == "" {
		meaning = o.help
	}
	if o.feature != "" {
		meaning = strings.TrimSuffix(meaning, " Not built yet: refused.") +
			" Not built yet: any other value than the default is refused."
	}
	value := row.Want
	if row.Type == "any" {
		value = map[taken]string{takesLengths: "an integer, or a distribution as text",
			takesObjectOrPath: "an object or a path"}[o.takes]
	}
	if named, known := map[taken]string{
		takesPath: "a path", takesPaths: "paths", takesEngineArgs: "an object, see MockEngineArgs",
		takesRouterConfig: "an object, see KvRouterConfig", takesAICConfig: "an object, see AicPerfConfig",
	}[o.takes]; known {
		value = named
	}
	meaning = strings.ReplaceAll(meaning, "|", "\\|")
	return "| " + strings.Join([]string{flag, parameter, value, byDefault, worksWith(o), meaning}, " | ") + " |\n"
}

// worksWith says which runs an option is for, "" for all.
func worksWith(o option) string {
	var only []string
	switch o.kind {
	case kindTrace:
		only = append(only, "a trace")
	case kindSynthetic:
		only = append(only, "a synthetic workload")
	}
	return strings.Join(only, ", ")
}
