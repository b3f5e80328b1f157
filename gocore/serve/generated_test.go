package serve

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite

// TestGeneratedTable keeps dynamo.mocker.args.parse_args in step with table.go.
func TestGeneratedTable(t *testing.T) {
	fieldtable.Keep(t, "../../python/dynamo/_core/live_options_generated.json", encodeTable(t))
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
		Row: fieldtable.Of(o.Field), Group: o.group, Flag: "--" + strings.ReplaceAll(o.Name, "_", "-"), Help: o.text,
		StandIn: o.standIn, Off: o.off,
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

// TestGeneratedPage keeps docs/reference/mocker.md in step with table.go.
func TestGeneratedPage(t *testing.T) {
	fieldtable.Keep(t, "../../docs/reference/mocker.md", encodePage())
}

func encodePage() string {
	var out strings.Builder
	out.WriteString("# Options of live workers\n\n<!-- Code generated from gocore/serve/table.go by go generate " +
		"./gocore/serve. DO NOT EDIT. -->\n\n" +
		"These are the options of\n`python -m dynamo.mocker`. An option that sets an engine argument has the default " +
		"of that.\n")
	group := ""
	for _, o := range options {
		if o.group != group {
			group = o.group
			fmt.Fprintf(&out, "\n## %s\n\n| option | value | default | engine argument | meaning "+
				"|\n|---|---|---|---|---|\n",
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
