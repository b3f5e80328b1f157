package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
	"dynosim/gocore/strictjson"
)

//go:generate go test . -run ^TestGenerated -rewrite

// optionRow is an option as Python reads it.
type optionRow struct {
	fieldtable.Row
	Kind       string `json:"kind,omitempty"`
	Takes      taken  `json:"takes,omitempty"`
	Parameter  bool   `json:"parameter,omitempty"` // of the Python functions
	Positional bool   `json:"positional,omitempty"`
	Instead    string `json:"instead,omitempty"`
	Flag       string `json:"flag,omitempty"`
	Group      string `json:"group,omitempty"`
	Metavar    string `json:"metavar,omitempty"`
	Help       string `json:"help,omitempty"`
	Strict     bool   `json:"strict,omitempty"`
	Reads      bool   `json:"reads,omitempty"`
	Writes     bool   `json:"writes,omitempty"`
}

func rowOf(o option) optionRow {
	r := optionRow{
		Row: fieldtable.Of(o.Field), Kind: o.kind, Takes: o.takes, Parameter: o.doc != "", Positional: o.positional,
		Instead: o.instead,
		Flag:    o.flag, Group: o.group, Metavar: o.metavar, Help: o.help, Strict: o.strict, Reads: o.reads,
		Writes: o.writes,
	}
	if r.Help == "" {
		return r
	}
	if r.Flag == "" {
		r.Flag = "--" + strings.ReplaceAll(o.Name, "_", "-")
	}
	if r.Metavar == "" {
		r.Metavar = map[string]string{"uint": "N", "float": "X"}[r.Type]
	}
	if r.Metavar == "" {
		r.Metavar = "TEXT"
	}
	return r
}

// TestGeneratedTable keeps the Python shell in step with table.go.
func TestGeneratedTable(t *testing.T) {
	var lines []string
	for _, o := range options {
		if o.help == "" && o.doc == "" {
			continue
		}
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(rowOf(o)); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, "    "+strings.TrimSpace(line.String()))
	}
	fieldtable.Keep(t, "../../python/dynamo/_core/run_options_generated.json",
		"{\n  \"fields\": [\n"+strings.Join(lines, ",\n")+"\n  ]\n}\n")
}

const apiModule = "../../python/dynamo/replay/api.py"

// What stands around the generated part of the module.
const (
	generatedBegin = "# Code generated from gocore/job/table.go by go generate ./gocore/job. DO NOT EDIT.\n\n"
	generatedEnd   = "# End of what is generated\n"
)

// TestGeneratedFunctions keeps the signatures and docstrings of the Python functions in step with table.go.
func TestGeneratedFunctions(t *testing.T) {
	text, err := os.ReadFile(apiModule)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), generatedBegin)
	_, after, ends := strings.Cut(rest, generatedEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the lines around its generated part", apiModule)
	}
	fieldtable.Keep(t, apiModule, before+generatedBegin+pythonFunctions()+generatedEnd+after)
}

// mockerParameters are those of run_mocker_trace_replay, whose order matters: arguments may be positional.
var mockerParameters = []string{
	"trace_files", "extra_engine_args", "router_config", "num_workers", "replay_concurrency", "router_mode",
	"arrival_speedup_ratio", "trace_block_size", "trace_format", "trace_shared_prefix_ratio", "trace_num_prefix_groups",
	"model_name", "sla_ttft_ms", "sla_itl_ms", "sla_e2e_ms",
}

func pythonFunctions() string {
	var out strings.Builder
	for _, o := range options {
		if enum, ok := o.Type.(strictjson.Enum); ok && o.doc != "" {
			out.WriteString(fieldtable.Literal(fieldtable.Camel(o.Name), enum.Choices))
		}
	}
	out.WriteString("\n\n@newer.words\ndef run_trace_replay(\n" + parameters(kindTrace) +
		traceDoc(documented(kindTrace)) + call(kindTrace, names(kindTrace)))
	shared := slices.DeleteFunc(documented(""), func(o option) bool { return o.kind != "" })
	own := slices.DeleteFunc(documented(kindSynthetic), func(o option) bool { return o.kind == "" })
	out.WriteString("\n\n@newer.words\ndef run_synthetic_trace_replay(\n" + parameters(kindSynthetic) +
		syntheticDoc(shared, own) + call(kindSynthetic, names(kindSynthetic)))
	out.WriteString("\n\n@newer.words\ndef run_mocker_trace_replay(\n")
	for _, name := range mockerParameters {
		out.WriteString(parameter(options[slices.IndexFunc(options, func(o option) bool { return o.Name == name })]))
	}
	out.WriteString(mockerDoc + call(kindTrace, mockerParameters) + "\n\n")
	return out.String()
}

// documented returns the parameters of the Python function of a kind of run, of both for "".
func documented(kind string) []option {
	return slices.DeleteFunc(slices.Clone(options), func(o option) bool {
		return o.doc == "" || kind != "" && o.kind != "" && o.kind != kind
	})
}

func parameters(kind string) string {
	var positional, named string
	for _, o := range documented(kind) {
		if o.positional {
			positional += parameter(o)
		} else {
			named += parameter(o)
		}
	}
	return positional + "    *,\n" + named + "    on_progress: OnProgress | None = None,\n"
}

// names lists the parameters of the Python function of a kind of run.
func names(kind string) (all []string) {
	for _, o := range documented(kind) {
		all = append(all, o.Name)
	}
	return append(all, "on_progress")
}

// call passes parameters on by their names, so that people and tools can follow them.
func call(kind string, parameters []string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "    return _replay(\n        %q,\n", kind)
	for _, name := range parameters {
		fmt.Fprintf(&out, "        %s=%s,\n", name, name)
	}
	out.WriteString("    )\n")
	return out.String()
}

func parameter(o option) string {
	if o.positional && o.instead == "" {
		return fmt.Sprintf("    %s: %s,\n", o.Name, hint(o))
	}
	return fmt.Sprintf("    %s: %s | None = None,\n", o.Name, hint(o))
}

// hint returns the Python type of a parameter.
func hint(o option) string {
	if known, ok := map[taken]string{
		takesPath: "Path", takesPaths: "Path | Sequence[Path] | Workload", takesLengths: "int | str",
		takesEngineArgs:   "EngineArgs",
		takesRouterConfig: "RouterConfig", takesAICConfig: "AicConfig", takesObjectOrPath: "Mapping[str, Any] | Path",
		takesPlanner: "Planner", takesAutoscaler: "Autoscaler", takesFaults: "Faults",
		takesTelemetry: "TelemetryOptions", takesRouter: "Router | Sequence[Router] | str",
		takesTimingModel: "TimingModel | str", takesPolicy: "SchedulerPolicy | str",
	}[o.takes]; ok {
		return known
	}
	switch o.Type.(type) {
	case strictjson.Integer:
		return "int"
	case strictjson.Number:
		return "float"
	case strictjson.Bool:
		return "bool"
	case strictjson.Enum:
		return fieldtable.Camel(o.Name)
	default:
		return "str"
	}
}

func describeParameters(parameters []option) string {
	var out strings.Builder
	for _, o := range parameters {
		out.WriteString(fieldtable.Wrap(o.Name+": "+o.doc, "        ", "            "))
	}
	return out.String()
}

func traceDoc(parameters []option) string {
	return `) -> Report:
    """Replays a request trace through simulated workers, in virtual time.

    Every keyword may be None, which means its default.

    Args:
` + describeParameters(parameters) + fieldtable.Wrap("on_progress: "+progressDoc, "        ", "            ") + `
    Returns:
        The report: a dict of metrics whose ` + "``requests``" + ` attribute holds the per-request columns.

    Raises:
        TypeError: An argument has the wrong Python type.
        ValueError: An argument, an engine argument or the trace breaks a rule. Nothing has run.
        FileNotFoundError: A trace file is missing.
        RuntimeError: The run failed after it began, or every request was rejected (its files are there).
        OSError: The per-request file could not be written after the run.
        UserWarning: Only where warnings are turned into errors (` + "``python -W error``" +
		`): the run has ended and its
            per-request file is written, but the report is lost. Filter UserWarning to keep it.
    """
`
}

const progressDoc = "Called about twenty times a second during the run and once at its end, in the calling thread, " +
	"with a ``Progress``: " +
	"``phase``, ``simulated_ms``, and requests ``done`` of ``total``. An exception that it raises stops the run."

func syntheticDoc(shared, own []option) string {
	names := make([]string, len(shared))
	for i, o := range shared {
		names[i] = o.Name
	}
	return ") -> Report:\n" + `    """Generates requests of one shape and replays them through simulated workers, ` +
		`in virtual time.

` + fieldtable.Wrap("Every keyword may be None, which means its default. Those not described here "+
		"are as in ``run_trace_replay``: "+
		strings.Join(names, ", ")+" and on_progress.", "    ", "    ") + `
    Args:
` + describeParameters(own) + `
    Returns and raises as ` + "``run_trace_replay``" + `.
    """
`
}

const mockerDoc = ") -> Report:\n    \"\"\"``run_trace_replay`` as ``dynamo.mocker`` has it: offline, with one pool, " +
	"arguments also by position.\n\n" +
	"    Args, result and exceptions: see ``run_trace_replay``.\n    \"\"\"\n"
