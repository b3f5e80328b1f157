package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestPythonTable$|^TestReferencePage$ -rewrite

var rewrite = flag.Bool("rewrite", false, "write the copy of the options that the Python command line reads")

const pythonTable = "../../../python/dynamo/_core/live_options.json"

// TestPythonTable keeps dynamo.mocker.args.parse_args in step with options.go.
func TestPythonTable(t *testing.T) {
	want := encodeTable(t)
	if *rewrite {
		if err := os.WriteFile(pythonTable, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pythonTable)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatal("live_options.json is stale: run go generate ./gocore/live/serve")
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
		row.ArgDefault = standardBandwidthGBs
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
	var rows, args []string
	for _, o := range options {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(rowOf(o)); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, "    "+strings.TrimSpace(line.String()))
		if o.engineArg != "" && !strings.Contains(o.engineArg, ".") {
			args = append(args, fmt.Sprintf("    %q: %q", o.Name, o.engineArg))
		}
	}
	return "{\n  \"fields\": [\n" + strings.Join(rows, ",\n") + "\n  ],\n  \"engine_args\": {\n" + strings.Join(args, ",\n") + "\n  }\n}\n"
}

// TestReferencePage keeps docs/reference/mocker.md in step with table.go.
func TestReferencePage(t *testing.T) {
	const page = "../../../docs/reference/mocker.md"
	want := encodePage()
	if *rewrite {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatal("docs/reference/mocker.md is stale: run go generate ./gocore/live/serve")
	}
}

func encodePage() string {
	var out strings.Builder
	out.WriteString("# Options of live workers\n\nGenerated from gocore/live/serve/table.go by `go generate ./gocore/live/serve`. " +
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
