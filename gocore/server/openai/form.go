package openai

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/conform"
)

// form is what requests may say about the form of answers: OpenAI's response_format, vLLM's structured_outputs, and the
// names that the latter had before.
type form struct {
	ResponseFormat    *responseFormat    `json:"response_format"`
	StructuredOutputs *structuredOutputs `json:"structured_outputs"`
	GuidedJSON        jsontext.Value     `json:"guided_json"`
	GuidedRegex       *string            `json:"guided_regex"`
	GuidedChoice      []string           `json:"guided_choice"`
	GuidedGrammar     jsontext.Value     `json:"guided_grammar"`
	GuidedJSONObject  bool               `json:"guided_json_object"`
	StructuralTag     jsontext.Value     `json:"structural_tag"`
	Regex             *string            `json:"regex"` // SGLang's
	Grammar           jsontext.Value     `json:"ebnf"`  // SGLang's

	// promised is a schema that the messages describe, for answers that are to be any object; nil for none.
	promised jsontext.Value
	// formatAt is how messages call response_format, "" for that.
	formatAt string
}

type responseFormat struct {
	Type       string           `json:"type"`
	JSONSchema *describedFormat `json:"json_schema"`
}

type describedFormat struct {
	Name   string         `json:"name"`
	Schema jsontext.Value `json:"schema"`
	Strict *bool          `json:"strict"`
}

// responsesFormat is what /v1/responses has as text.format.
type responsesFormat struct {
	Type            string `json:"type"`
	describedFormat `json:",inline"`
}

// same returns what /v1/chat/completions has as response_format.
func (f *responsesFormat) same() *responseFormat {
	r := &responseFormat{Type: f.Type}
	if f.Type == "json_schema" {
		r.JSONSchema = &f.describedFormat
	}
	return r
}

type structuredOutputs struct {
	JSON          jsontext.Value `json:"json"`
	Regex         *string        `json:"regex"`
	Choice        []string       `json:"choice"`
	Grammar       jsontext.Value `json:"grammar"`
	JSONObject    bool           `json:"json_object"`
	StructuralTag jsontext.Value `json:"structural_tag"`
}

// demand is one thing that the form of an answer has to be.
type demand struct {
	name string
	make func() (conform.Form, error)
}

// demands lists what a request says about the form of answers.
func (f *form) demands() (list []demand) {
	add := func(given bool, name string, make func() (conform.Form, error)) {
		if given {
			list = append(list, demand{name, make})
		}
	}
	constrain := func(at string, o *structuredOutputs) {
		add(given(o.JSON), at+"json", func() (conform.Form, error) { return schemaOf(o.JSON) })
		add(o.Regex != nil, at+"regex", func() (conform.Form, error) { return conform.Regex(*o.Regex) })
		add(o.Choice != nil, at+"choice", func() (conform.Form, error) { return conform.Choice(o.Choice) })
		add(o.JSONObject, at+"json_object", anyObject)
		add(given(o.Grammar), at+"grammar", impossible("json, regex or choice: there is no parser of grammars here"))
		add(given(o.StructuralTag), at+"structural_tag", impossible("json, regex or choice"))
	}
	if r := f.ResponseFormat; r != nil && r.Type != "" && r.Type != "text" {
		name := "response_format"
		if f.formatAt != "" {
			name = f.formatAt
		}
		switch {
		case r.Type == "json_object":
			add(true, name, f.promisedObject)
		case r.Type == "json_schema" && r.JSONSchema != nil && given(r.JSONSchema.Schema):
			add(true, name, func() (conform.Form, error) { return schemaOf(r.JSONSchema.Schema) })
		case r.Type == "json_schema":
			add(true, name, func() (conform.Form, error) {
				return nil, fmt.Errorf("has the type json_schema and no schema, want one in json_schema.schema " +
					"(text.format.schema for /v1/responses)")
			})
		default:
			add(true, name, func() (conform.Form, error) {
				return nil, fmt.Errorf("got the type %q, want text, json_object or json_schema",
					shortened([]byte(r.Type)))
			})
		}
	}
	if f.StructuredOutputs != nil {
		constrain("structured_outputs.", f.StructuredOutputs)
	}
	constrain("guided_", &structuredOutputs{
		JSON: f.GuidedJSON, Regex: f.GuidedRegex, Choice: f.GuidedChoice, Grammar: f.GuidedGrammar,
		JSONObject: f.GuidedJSONObject,
	})
	add(f.Regex != nil, "regex", func() (conform.Form, error) { return conform.Regex(*f.Regex) })
	add(given(f.Grammar), "ebnf", impossible("regex, response_format or structured_outputs"))
	add(given(f.StructuralTag), "structural_tag", impossible("response_format or structured_outputs"))
	return list
}

// given reports whether a member is there and not null.
func given(value jsontext.Value) bool { return len(value) > 0 && value.Kind() != 'n' }

// some reports whether a member is there and neither null nor an empty list.
func some(value jsontext.Value) bool { return given(value) && string(value) != "[]" }

func anyObject() (conform.Form, error) { return conform.Object(), nil }

func impossible(want string) func() (conform.Form, error) {
	return func() (conform.Form, error) { return nil, fmt.Errorf("not supported, want %s", want) }
}

// schemaOf reads a JSON Schema, which may be in a string.
func schemaOf(value jsontext.Value) (conform.Form, error) {
	if value.Kind() == '"' {
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return nil, err
		}
		value = jsontext.Value(text)
	}
	return conform.Schema(value)
}

// of returns the form of the answers of a model, nil for anything.
func (f *form) of(m *Model) (conform.Form, error) {
	list := f.demands()
	switch {
	case len(list) == 0:
		return nil, nil
	case len(list) > 1:
		var names []string
		for _, d := range list {
			names = append(names, d.name)
		}
		return nil, badRequest(list[1].name, "an answer has one form only, and %s are given", strings.Join(names, ", "))
	case m.elsewhere():
		return nil, badRequest(list[0].name,
			"workers elsewhere decide what answers say, and they make text up; want --standalone for answers in a form")
	}
	made, err := list[0].make()
	if err != nil {
		return nil, badRequest(list[0].name, "%s", err)
	}
	return &namedForm{made, list[0].name}, nil
}

// namedForm is a form whose errors name the member of the request.
type namedForm struct {
	conform.Form
	name string
}

// Text implements [conform.Form].
func (f *namedForm) Text(seed uint64, size int) (text string, whole bool, err error) {
	if text, whole, err = f.Form.Text(seed, size); err != nil {
		err = fmt.Errorf("%s: %w", f.name, err)
	}
	return text, whole, err
}
