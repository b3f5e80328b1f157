package router

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"dynosim/gocore/strictjson"
)

//go:generate go test . -run ^TestPythonTable$ -rewrite-table

var rewriteTable = flag.Bool("rewrite-table", false, "write the copy of the field table that the Python class reads")

const pythonTable = "../../python/dynamo/_core/router_config.json"

// TestPythonTable keeps the Python class in step with fields.go.
func TestPythonTable(t *testing.T) {
	want := encodeTable(t)
	if *rewriteTable {
		if err := os.WriteFile(pythonTable, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pythonTable)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("router_config.json is stale: run go generate ./gocore/router")
	}
}

// pythonField is one field as router_config.json has it, with the keys of engine_args.json. Want is the
// rule in words, as error messages quote it.
type pythonField struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Default    any      `json:"default"`
	Nullable   bool     `json:"nullable"`
	Min        any      `json:"min"`
	Max        any      `json:"max"`
	Choices    []string `json:"choices"`
	ArgDefault any      `json:"arg_default"`
	Want       string   `json:"want"`
}

// float keeps its decimal point, so that Python reads a float back.
type float float64

func (f float) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(f), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}

func newPythonField(f field) pythonField {
	p := pythonField{Name: f.Name, Default: f.Default, Nullable: !f.NotNull, Want: f.Type.Want()}
	if f.Name == "overlap_score_credit" {
		p.Want += moreWeight
	}
	switch t := f.Type.(type) {
	case strictjson.Integer:
		p.Type, p.Min = "uint", t.Min
		if t.Max != 0 {
			p.Max = t.Max
		}
	case strictjson.Number:
		p.Type, p.Min = "float", float(t.Min)
		if t.Max != 0 {
			p.Max = float(t.Max)
		}
		if f.Default != nil {
			p.Default = float(f.Default.(float64))
		}
	case strictjson.Bool:
		p.Type = "bool"
	case strictjson.Text:
		p.Type = "string"
	case strictjson.Enum:
		p.Type, p.Choices = "enum", t.Choices
	}
	p.ArgDefault = p.Default
	return p
}

// encodeTable writes one field per line, so that a change shows as a small diff.
func encodeTable(t *testing.T) []byte {
	lines := make([]string, len(table))
	for i, f := range table {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(newPythonField(f)); err != nil {
			t.Fatal(err)
		}
		lines[i] = "    " + strings.TrimSpace(out.String())
	}
	return []byte("{\n  \"fields\": [\n" + strings.Join(lines, ",\n") + "\n  ]\n}\n")
}
