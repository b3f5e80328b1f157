// Package fieldtable writes what is generated from a table of fields: the copy in JSON from which Python's argument
// classes check values, since they must not load the Go extension, the types and docstrings of those classes
// (python.go), and the reference pages (page.go). Only tests use it, which keep the generated files up to date.
package fieldtable

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"dynosim/gocore/strictjson"
)

// Row is one field. Want is the rule in words, as error messages quote it; ArgDefault is the default of the
// constructor.
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
	// Aliases are other words for choices, beside which dashes and underscores are alike.
	Aliases    map[string]string `json:"aliases,omitempty"`
	ArgDefault any               `json:"arg_default"`
	Want       string            `json:"want"`

	// What Python's class does with the field: KeywordOnly fields cannot be given by position, JSONOnly fields are
	// unknown to it, Settable fields can be set in an existing object, of AnyCaseInPython it also takes capitals.
	KeywordOnly     bool `json:"keyword_only,omitempty"`
	JSONOnly        bool `json:"json_only,omitempty"`
	Settable        bool `json:"settable,omitempty"`
	AnyCaseInPython bool `json:"any_case_in_python,omitempty"`
	Path            bool `json:"path,omitempty"` // it also takes path objects

	// Schedulers are those of an engine with which the field has an effect; none are all.
	Schedulers []string `json:"schedulers,omitempty"`

	// For documentation: what the field means, the default of a field that has none of its own, and where it has an
	// effect.
	Doc     string `json:"-"`
	Instead any    `json:"-"`
	Works   string `json:"-"`
	// Class and Hints are the classes that Python has for an object and for a dict in its place.
	Class, Hints string `json:"-"`
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

// Of returns the row of a field.
func Of(f strictjson.Field) Row {
	r := Row{Name: f.Name, Default: f.Default, Nullable: !f.NotNull, Required: f.Required, Want: f.Type.Want(),
		Doc: f.Doc}
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
		r.Type, r.Path = "string", t.Path
	case strictjson.Enum:
		r.Type, r.Choices, r.AnyCase, r.Aliases = "enum", t.Choices, t.FoldCase, t.Aliases
		r.Want = strictjson.Enum{Choices: t.Choices}.Want() // without what other packages add
	case strictjson.Nested:
		r.Type = "object"
	case strictjson.Objects:
		r.Type = "objects"
	default:
		r.Type = "any"
	}
	r.ArgDefault = r.Default
	return r
}

// List writes rows as a JSON array whose brackets are indented so far, one line each, so that a change shows as a small
// difference. R is Row, or a type with it and more members.
func List[R any](rows []R, indent string) (string, error) {
	lines := make([]string, len(rows))
	for i, row := range rows {
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
