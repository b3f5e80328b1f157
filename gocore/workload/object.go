package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// members receives the known members of one JSON object.
type members interface {
	field(key []byte) (field fields, known bool)
	set(field fields, value jsontext.Value) error
}

// objectDecoder decodes lines that hold one JSON object each, reusing its buffers.
//
// Keys that the format does not know are skipped. A known key must not occur twice, neither by itself nor through its
// alias. null means that the key is absent, except for fields in notNull.
type objectDecoder struct {
	json *jsontext.Decoder
	text *bytes.Buffer
	key  []byte

	notNull fields

	into  members
	seen  fields // keys that occurred
	given fields // keys with a value other than null
}

func newObjectDecoder() *objectDecoder {
	d := &objectDecoder{text: new(bytes.Buffer)}
	d.json = jsontext.NewDecoder(d.text)
	return d
}

// decode reads one line that must hold exactly one JSON object, and tells which fields it gives.
func (d *objectDecoder) decode(line []byte, into members) (given fields, err error) {
	if !utf8.Valid(line) {
		return 0, errors.New("not valid UTF-8")
	}
	if bytes.HasPrefix(line, []byte("\ufeff")) {
		return 0, errors.New("begins with a byte order mark, remove it")
	}
	d.text.Reset()
	d.text.Write(line)
	// Duplicates matter for known keys only, and those are counted here. Reset forgets options given earlier.
	d.json.Reset(d.text, jsontext.AllowDuplicateNames(true))
	d.into, d.seen, d.given = into, 0, 0
	if kind := d.json.PeekKind(); kind != '{' {
		if _, err := d.json.ReadValue(); err != nil {
			return 0, syntaxFault(err)
		}
		return 0, fmt.Errorf("got %s, want a JSON object", kindName(kind))
	}
	if err := d.object(); err != nil {
		return 0, err
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return 0, errors.New("more than one JSON value on the line")
	}
	return d.given, nil
}

func (d *objectDecoder) object() error {
	if _, err := d.json.ReadToken(); err != nil {
		return syntaxFault(err)
	}
	for d.json.PeekKind() != '}' {
		if err := d.member(); err != nil {
			return err
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return syntaxFault(err)
	}
	return nil
}

// member reads one key and its value.
func (d *objectDecoder) member() error {
	name, err := d.json.ReadValue()
	if err != nil {
		return syntaxFault(err)
	}
	if d.key, err = jsontext.AppendUnquote(d.key[:0], name); err != nil {
		return syntaxFault(err)
	}
	field, known := d.into.field(d.key)
	if !known {
		if err := d.json.SkipValue(); err != nil {
			return syntaxFault(err)
		}
		return nil
	}
	if d.seen&field != 0 {
		return fmt.Errorf("%s: given twice (an alias counts as the same field)", d.key)
	}
	d.seen |= field
	value, err := d.json.ReadValue()
	if err != nil {
		return syntaxFault(err)
	}
	if value.Kind() == 'n' && field&d.notNull == 0 {
		return nil
	}
	d.given |= field
	if err := d.into.set(field, value); err != nil {
		return fmt.Errorf("%s: %w", d.key, err)
	}
	return nil
}
