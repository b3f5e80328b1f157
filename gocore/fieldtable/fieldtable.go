// Package fieldtable writes the tables from which Python's argument classes check their fields: a copy of what Go knows,
// because those classes must not load the Go extension. Only tests use it, which keep the copies up to date.
package fieldtable

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"dynosim/gocore/strictjson"
)

// Row is one field. Want is the rule in words, as error messages quote it; ArgDefault is the default of the constructor.
type Row struct {
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

// Of is the row of a field.
func Of(f strictjson.Field) Row {
	r := Row{Name: f.Name, Default: f.Default, Nullable: !f.NotNull, Required: f.Required, Want: f.Type.Want()}
	switch t := f.Type.(type) {
	case strictjson.Integer:
		r.Type, r.Min = "uint", t.Min
		if t.Max != 0 {
			r.Max = t.Max
		}
	case strictjson.Number:
		r.Type, r.Min = "float", float(t.Min)
		if t.Max != 0 {
			r.Max, r.MaxExclusive = float(t.Max), t.MaxOpen
		}
		if f.Default != nil {
			r.Default = float(f.Default.(float64))
		}
	case strictjson.Bool:
		r.Type = "bool"
	case strictjson.Text:
		r.Type = "string"
	case strictjson.Enum:
		r.Type, r.Choices, r.AnyCase = "enum", t.Choices, t.FoldCase
	case strictjson.Nested:
		r.Type = "object"
	default:
		r.Type = "any"
	}
	r.ArgDefault = r.Default
	return r
}

// List writes rows as a JSON array whose brackets are indented so far, one line each, so that a change shows as a small
// difference. edit may change a row before.
func List(fields []strictjson.Field, indent string, edit func(*Row)) (string, error) {
	lines := make([]string, len(fields))
	for i, f := range fields {
		row := Of(f)
		edit(&row)
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(row); err != nil {
			return "", err
		}
		lines[i] = indent + "  " + strings.TrimSpace(out.String())
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n" + indent + "]", nil
}
