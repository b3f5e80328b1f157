package engineargs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"dynosim/gocore/strictjson"
)

//go:generate go test . -run ^TestPythonTable$ -rewrite

var rewrite = flag.Bool("rewrite", false, "write the copy of the field table that the Python classes read")

const pythonTable = "../../python/dynamo/_core/engine_args.json"

// TestPythonTable keeps the Python classes in step with fields.go.
func TestPythonTable(t *testing.T) {
	want := encodeTable(t)
	if *rewrite {
		if err := os.WriteFile(pythonTable, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pythonTable)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("engine_args.json is stale: run go generate ./gocore/engineargs")
	}
}

// pythonField is one field as engine_args.json has it. Want is the rule in words, as error messages quote it.
type pythonField struct {
	Name         string   `json:"name"`
	Type         string   `json:"type"`
	Default      any      `json:"default"`
	Nullable     bool     `json:"nullable"`
	Required     bool     `json:"required,omitempty"`
	Min          any      `json:"min"`
	Max          any      `json:"max"`
	MaxExclusive bool     `json:"max_exclusive,omitempty"`
	Choices      []string `json:"choices"`
	AnyCase      bool     `json:"any_case,omitempty"` // only in JSON text: the constructor wants lower case
	ArgDefault   any      `json:"arg_default"`
	Want         string   `json:"want"`
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

func newPythonField(f strictjson.Field) pythonField {
	p := pythonField{
		Name: f.Name, Default: f.Default, ArgDefault: f.Default,
		Nullable: !f.NotNull, Required: f.Required, Want: f.Type.Want(),
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
			p.Max, p.MaxExclusive = float(t.Max), t.MaxOpen
		}
		if f.Default != nil {
			p.Default = float(f.Default.(float64))
			p.ArgDefault = p.Default
		}
	case strictjson.Bool:
		p.Type = "bool"
	case strictjson.Text:
		p.Type = "string"
	case strictjson.Enum:
		p.Type, p.Choices, p.AnyCase = "enum", t.Choices, t.FoldCase
	case strictjson.Nested:
		p.Type = "object"
	default:
		p.Type = "any"
	}
	if f.Name == "num_gpu_blocks" {
		p.ArgDefault = nil // the constructor's None, which stands for the default
	}
	return p
}

// encodeTable writes one field per line, so that a change shows as a small diff.
func encodeTable(t *testing.T) []byte {
	var nested, sizes []string
	for _, f := range table {
		if inner, ok := f.Type.(strictjson.Nested); ok {
			nested = append(nested, fmt.Sprintf("    %q: %s", f.Name, encodeFields(t, "    ", inner.Fields)))
		}
	}
	for i, size := range blockSizeDefaults {
		sizes = append(sizes, fmt.Sprintf("%q: %d", EngineType(i), size))
	}
	return fmt.Appendf(nil, "{\n  \"fields\": %s,\n  \"block_size_default\": {%s},\n  \"nested\": {\n%s\n  }\n}\n",
		encodeFields(t, "  ", schema().Fields), strings.Join(sizes, ", "), strings.Join(nested, ",\n"))
}

func encodeFields(t *testing.T, indent string, fields []strictjson.Field) string {
	lines := make([]string, len(fields))
	for i, f := range fields {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(newPythonField(f)); err != nil {
			t.Fatal(err)
		}
		lines[i] = indent + "  " + strings.TrimSpace(out.String())
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n" + indent + "]"
}
