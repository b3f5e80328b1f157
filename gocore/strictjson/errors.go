package strictjson

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/spelling"
)

// FieldError says that a field has a value that is not allowed.
type FieldError struct {
	Field string // path of the field, such as "sglang.page_size"; "" for the whole text
	Got   string // the value as JSON writes it, or what is there instead
	Want  string // the rule, such as "an integer >= 1"
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("got %s, want %s", e.Got, e.Want)
	}
	return fmt.Sprintf("%s: got %s, want %s", e.Field, e.Got, e.Want)
}

// UnknownFieldError says that a key is not in the schema.
type UnknownFieldError struct {
	Field    string   // path of the key
	Nearest  string   // path of the field that was probably meant, "" if none is close
	Accepted []string // names of the fields of the same object
}

func (e *UnknownFieldError) Error() string {
	text, _ := jsontext.AppendQuote(nil, e.Field) // always valid UTF-8, else it had not been read
	quoted := shorten(string(text))
	if e.Nearest != "" {
		return fmt.Sprintf("unknown field %s, did you mean %q?", quoted, e.Nearest)
	}
	return fmt.Sprintf("unknown field %s, %s", quoted, spelling.Offer(e.Field, e.Accepted))
}

func unknownField(o *Object, name string) error {
	e := &UnknownFieldError{Field: name}
	for i := range o.fields {
		e.Accepted = append(e.Accepted, o.fields[i].Name)
	}
	e.Nearest = spelling.Nearest(name, e.Accepted)
	if o.path != "" {
		e.Field = o.path + "." + e.Field
		if e.Nearest != "" {
			e.Nearest = o.path + "." + e.Nearest
		}
	}
	return e
}

// SyntaxError says that the text is not JSON, or is more than one value. Lines and columns count from 1, columns in
// characters.
type SyntaxError struct {
	Line, Column int
	Problem      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d column %d: %s", e.Line, e.Column, e.Problem)
}

// NotBuiltError says that a value is right, but asks for a feature that this build lacks.
type NotBuiltError struct {
	Field   string
	Value   string // as JSON writes it
	Feature string // in words; "" when the value says it already
}

func (e *NotBuiltError) Error() string {
	text := fmt.Sprintf("%s: %s is not built yet", e.Field, e.Value)
	if e.Feature != "" {
		text += " (" + e.Feature + ")"
	}
	return text
}

// Join makes one error of several, on one line, with "; " between them. It is nil for none.
// errors.Is and errors.As look into each.
func Join(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return joined(errs)
	}
}

type joined []error

func (j joined) Unwrap() []error { return j }

func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}
