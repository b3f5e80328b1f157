package strictjson

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads text, which must hold one object as the schema describes it and nothing else.
// The error is a *SyntaxError, an *UnknownFieldError or a *FieldError. Ranges are not checked yet:
// call RangeErrors on the result before reading values.
func Decode(text string, schema Schema) (*Object, error) {
	d := decoder{text: text, tokens: newTokens(text), nonFinite: schema.NonFinite}
	o, err := d.document(schema.Fields)
	if err != nil {
		return nil, err
	}
	if err := o.checkPresence(); err != nil {
		return nil, err
	}
	return o, nil
}

// newTokens allows duplicate names because decoder.object refuses them with a message of its own.
func newTokens(text string) *jsontext.Decoder {
	return jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
}

type decoder struct {
	text      string
	tokens    *jsontext.Decoder
	nonFinite bool
}

// document reads the one object and makes sure that nothing follows it.
func (d *decoder) document(fields []Field) (*Object, error) {
	if d.tokens.PeekKind() != jsontext.KindBeginObject {
		v, err := d.tokens.ReadValue()
		if err != nil {
			return nil, d.syntaxError(err)
		}
		return nil, &FieldError{Got: rawValue{json: v}.show(), Want: "a JSON object"}
	}
	o, err := d.object("", fields)
	if err != nil {
		return nil, err
	}
	if rest := strings.TrimLeft(d.text[d.tokens.InputOffset():], " \t\r\n"); rest != "" {
		return nil, d.syntaxErrorAt(len(d.text)-len(rest), "unexpected text after the object")
	}
	return o, nil
}

// object reads one object from its opening to its closing brace. Path is "" for the outermost one.
func (d *decoder) object(path string, fields []Field) (*Object, error) {
	o := &Object{path: path, fields: fields, members: make([]member, len(fields))}
	if _, err := d.tokens.ReadToken(); err != nil {
		return nil, d.syntaxError(err)
	}
	for d.tokens.PeekKind() != jsontext.KindEndObject {
		i, err := d.key(o)
		if err != nil {
			return nil, err
		}
		if o.members[i], err = d.member(o.pathOf(i), fields[i].Type); err != nil {
			return nil, err
		}
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return nil, d.syntaxError(err)
	}
	return o, nil
}

// key reads a key and returns the position of its field.
func (d *decoder) key(o *Object) (int, error) {
	token, err := d.tokens.ReadToken()
	if err != nil {
		return 0, d.syntaxError(err)
	}
	name := token.String()
	i, known := o.find(name)
	if !known {
		return 0, unknownField(o, name)
	}
	if o.members[i].given {
		return 0, &FieldError{Field: o.pathOf(i), Got: "a duplicate key", Want: "the key once"}
	}
	return i, nil
}

// member reads the value of a field.
func (d *decoder) member(path string, t Type) (member, error) {
	if nested, ok := t.(Nested); ok && d.tokens.PeekKind() == jsontext.KindBeginObject {
		inner, err := d.object(path, nested.Fields)
		return member{given: true, shown: "an object", value: inner}, err
	}
	if list, ok := t.(Objects); ok && d.tokens.PeekKind() == jsontext.KindBeginArray {
		inner, err := d.objects(path, list)
		return member{given: true, shown: "a list", value: inner}, err
	}
	text, err := d.tokens.ReadValue()
	if err != nil {
		return member{}, d.syntaxError(err)
	}
	raw := rawValue{json: text, nonFinite: d.nonFinite}
	m := member{given: true, shown: raw.show()}
	if text.Kind() == jsontext.KindNull {
		m.null = true
		return m, nil
	}
	value, ok := t.decode(raw)
	if !ok {
		return member{}, &FieldError{Field: path, Got: m.shown, Want: t.Want()}
	}
	m.value = value
	return m, nil
}

// objects reads a list of objects.
func (d *decoder) objects(path string, t Objects) ([]*Object, error) {
	if _, err := d.tokens.ReadToken(); err != nil {
		return nil, d.syntaxError(err)
	}
	list := []*Object{}
	for d.tokens.PeekKind() != jsontext.KindEndArray {
		m, err := d.member(fmt.Sprintf("%s[%d]", path, len(list)), Nested(t))
		if err != nil {
			return nil, err
		}
		if m.null {
			return nil, &FieldError{Field: path, Got: "null in it", Want: t.Want()}
		}
		list = append(list, m.value.(*Object))
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return nil, d.syntaxError(err)
	}
	return list, nil
}

// syntaxError turns an error of the tokenizer into one with a line and a column.
func (d *decoder) syntaxError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.syntaxErrorAt(len(d.text), "unexpected end of text")
	}
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) { // only a reader that fails causes others, and a string does not
		return d.syntaxErrorAt(int(d.tokens.InputOffset()), err.Error())
	}
	offset, problem := int(syntactic.ByteOffset), syntactic.Err.Error()
	if strings.HasPrefix(d.text[offset:], ",") {
		problem = "unexpected comma" // mostly one before a closing brace, which the tokenizer words badly
	}
	return d.syntaxErrorAt(offset, problem)
}

func (d *decoder) syntaxErrorAt(offset int, problem string) error {
	before := d.text[:min(offset, len(d.text))]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{
		Line:    strings.Count(before, "\n") + 1,
		Column:  utf8.RuneCountInString(before[lineStart:]) + 1,
		Problem: problem,
	}
}
