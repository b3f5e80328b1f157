package serve

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestPythonTable$|^TestReferencePage$ -rewrite

var rewrite = flag.Bool("rewrite", false, "write the copy of the options that the Python command line reads")

// TestPythonTable keeps dynamo.mocker.args.parse_args in step with table.go.
func TestPythonTable(t *testing.T) {
	keep(t, "../../python/dynamo/_core/live_options.json", encodeTable(t))
}

// keep fails if a generated file is stale.
func keep(t *testing.T, path, want string) {
	t.Helper()
	if err := fieldtable.Keep(path, want, "./gocore/serve", *rewrite); err != nil {
		t.Fatal(err)
	}
}

// optionRow is an option as Python reads it.
type optionRow struct {
	fieldtable.Row
	Group   string `json:"group"`
	Flag    string `json:"flag"`
	Metavar string `json:"metavar,omitempty"`
	Help    string `json:"help"`
	StandIn string `json:"stand_in,omitempty"`
	Off     bool   `json:"off,omitempty"`
}

func rowOf(o option) optionRow {
	row := optionRow{
		Row: fieldtable.Of(o.Field), Group: o.group, Flag: "--" + strings.ReplaceAll(o.Name, "_", "-"), Help: o.text, StandIn: o.standIn, Off: o.off,
	}
	if o.Name == "kv_transfer_bandwidth" {
		row.ArgDefault = engineargs.StandardBandwidthGBs
	}
	switch row.Type {
	case "bool":
	case "uint":
		row.Metavar = "N"
	case "float":
		row.Metavar = "X"
	default:
		row.Metavar = "TEXT"
	}
	if o.Name == "stagger_delay" {
		row.Metavar = "X"
	}
	return row
}

// encodeTable writes the options, and which engine arguments they set: those have the defaults.
func encodeTable(t *testing.T) string {
	var rows []optionRow
	var args []string
	for _, o := range options {
		rows = append(rows, rowOf(o))
		if o.engineArg != "" && !strings.Contains(o.engineArg, ".") {
			args = append(args, fmt.Sprintf("    %q: %q", o.Name, o.engineArg))
		}
	}
	fields, err := fieldtable.List(rows, "  ")
	if err != nil {
		t.Fatal(err)
	}
	return "{\n  \"fields\": " + fields + ",\n  \"engine_args\": {\n" + strings.Join(args, ",\n") + "\n  }\n}\n"
}

// TestReferencePage keeps docs/reference/mocker.md in step with table.go.
func TestReferencePage(t *testing.T) {
	keep(t, "../../docs/reference/mocker.md", encodePage())
}

func encodePage() string {
	var out strings.Builder
	out.WriteString("# Options of live workers\n\nGenerated from gocore/serve/table.go by `go generate ./gocore/serve`. " +
		"These are the options of\n`python -m dynamo.mocker`. An option that sets an engine argument has the default of that.\n")
	group := ""
	for _, o := range options {
		if o.group != group {
			group = o.group
			fmt.Fprintf(&out, "\n## %s\n\n| option | value | default | engine argument | meaning |\n|---|---|---|---|---|\n",
				strings.ToUpper(group[:1])+group[1:])
		}
		row := rowOf(o)
		byDefault, argument := o.standIn, ""
		if row.ArgDefault != nil && row.ArgDefault != "" {
			byDefault = fmt.Sprint(row.ArgDefault)
		}
		if o.engineArg != "" {
			argument = "`" + o.engineArg + "`"
		}
		value := row.Want
		if row.Type == "any" {
			value = "a number"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", row.Flag, value, byDefault, argument, o.text)
	}
	return out.String()
}
