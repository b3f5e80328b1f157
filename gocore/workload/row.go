package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// row is one line of a Mooncake trace, as written.
type row struct {
	timestamp    float64
	delay        float64
	inputLength  uint64
	outputLength uint64
	hashIDs      []uint64 // reused for the next row
	sessionID    string
	hints        Hints

	seen  fields // keys that occurred
	given fields // keys with a value other than null
}

// fields is a set of the keys that mean something in a row; an alias counts as its field.
type fields uint16

const (
	fieldTimestamp fields = 1 << iota
	fieldInputLength
	fieldOutputLength
	fieldHashIDs
	fieldSessionID
	fieldDelay
	fieldRequestID
	fieldOutputTokenIDs
	fieldPriority
	fieldStrictPriority
	fieldPolicyClass
)

var fieldOf = map[string]fields{
	"timestamp": fieldTimestamp, "created_time": fieldTimestamp,
	"input_length": fieldInputLength, "input_tokens": fieldInputLength,
	"output_length": fieldOutputLength, "output_tokens": fieldOutputLength,
	"hash_ids":   fieldHashIDs,
	"session_id": fieldSessionID,
	"delay":      fieldDelay, "delay_ms": fieldDelay,
	"request_id":       fieldRequestID,
	"output_token_ids": fieldOutputTokenIDs,
	"priority":         fieldPriority,
	"strict_priority":  fieldStrictPriority,
	"policy_class":     fieldPolicyClass,
}

// rowDecoder decodes rows one after another, reusing its buffers.
type rowDecoder struct {
	json *jsontext.Decoder
	text *bytes.Buffer
	row  row
	key  []byte
}

func newRowDecoder() *rowDecoder {
	d := &rowDecoder{text: new(bytes.Buffer)}
	d.json = jsontext.NewDecoder(d.text)
	return d
}

// decode reads one line that must hold exactly one JSON object. The row is valid until the next call.
func (d *rowDecoder) decode(line []byte) (*row, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("not valid UTF-8")
	}
	if bytes.HasPrefix(line, []byte("\ufeff")) {
		return nil, errors.New("begins with a byte order mark, remove it")
	}
	d.text.Reset()
	d.text.Write(line)
	// Duplicates matter for known keys only, and those are counted here. Reset forgets options given earlier.
	d.json.Reset(d.text, jsontext.AllowDuplicateNames(true))
	d.row = row{hashIDs: d.row.hashIDs[:0]}
	if kind := d.json.PeekKind(); kind != '{' {
		if _, err := d.json.ReadValue(); err != nil {
			return nil, syntaxFault(err)
		}
		return nil, fmt.Errorf("got %s, want a JSON object", kindName(kind))
	}
	if _, err := d.json.ReadToken(); err != nil {
		return nil, syntaxFault(err)
	}
	for d.json.PeekKind() != '}' {
		if err := d.member(); err != nil {
			return nil, err
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return nil, syntaxFault(err)
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value on the line")
	}
	return &d.row, nil
}

// member reads one key and its value.
func (d *rowDecoder) member() error {
	name, err := d.json.ReadValue()
	if err != nil {
		return syntaxFault(err)
	}
	if d.key, err = jsontext.AppendUnquote(d.key[:0], name); err != nil {
		return syntaxFault(err)
	}
	field, known := fieldOf[string(d.key)]
	if !known {
		if err := d.json.SkipValue(); err != nil {
			return syntaxFault(err)
		}
		return nil
	}
	if d.row.seen&field != 0 {
		return fmt.Errorf("%s: given twice (an alias counts as the same field)", d.key)
	}
	d.row.seen |= field
	value, err := d.json.ReadValue()
	if err != nil {
		return syntaxFault(err)
	}
	if value.Kind() == 'n' {
		return nil
	}
	d.row.given |= field
	if err := d.row.set(field, value); err != nil {
		return fmt.Errorf("%s: %w", d.key, err)
	}
	return nil
}

// set stores the value of a known field; it is not null.
func (r *row) set(field fields, value jsontext.Value) (err error) {
	switch field {
	case fieldTimestamp:
		r.timestamp, err = number(value)
	case fieldDelay:
		r.delay, err = number(value)
	case fieldInputLength:
		r.inputLength, err = unsigned(value, math.MaxInt64)
	case fieldOutputLength:
		r.outputLength, err = unsigned(value, math.MaxInt32)
	case fieldHashIDs:
		r.hashIDs, err = unsignedList(r.hashIDs[:0], value)
	case fieldSessionID:
		r.sessionID, err = text(value)
	case fieldRequestID, fieldPolicyClass:
		_, err = text(value)
	case fieldPriority:
		r.hints.Priority, err = signed32(value)
	case fieldStrictPriority:
		r.hints.StrictPriority, err = unsigned(value, math.MaxUint32)
	case fieldOutputTokenIDs:
		err = errors.New("planned output tokens are not built yet, leave the key out")
	}
	return err
}

func number(value jsontext.Value) (float64, error) {
	if value.Kind() != '0' {
		return 0, mistyped(value, "a number")
	}
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, mistyped(value, "a number within the range of a double")
	}
	return x, nil
}

func unsigned(value jsontext.Value, limit uint64) (uint64, error) {
	x, err := strconv.ParseUint(string(value), 10, 64)
	if value.Kind() != '0' || err != nil || x > limit {
		return 0, mistyped(value, fmt.Sprintf("an integer from 0 to %d", limit))
	}
	return x, nil
}

func signed32(value jsontext.Value) (int64, error) {
	x, err := strconv.ParseInt(string(value), 10, 32)
	if value.Kind() != '0' || err != nil {
		return 0, mistyped(value, fmt.Sprintf("an integer from %d to %d", math.MinInt32, math.MaxInt32))
	}
	return x, nil
}

func text(value jsontext.Value) (string, error) {
	if value.Kind() != '"' {
		return "", mistyped(value, "a string")
	}
	plain, err := jsontext.AppendUnquote(nil, value)
	return string(plain), err
}

// unsignedList appends the elements of a JSON array of integers up to 2^64-1. The value is known to be valid JSON, so
// every run of digits between separators is a number, and anything else is a wrong element.
func unsignedList(dst []uint64, value jsontext.Value) ([]uint64, error) {
	const want = "a list of integers from 0 to 18446744073709551615"
	if value.Kind() != '[' {
		return dst, mistyped(value, want)
	}
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == ',' || c == ']' || c == ' ' || c == '\t' || c == '\r':
		case c >= '0' && c <= '9':
			x := uint64(0)
			for ; value[i] >= '0' && value[i] <= '9'; i++ {
				digit := uint64(value[i] - '0')
				if x > (math.MaxUint64-digit)/10 {
					return dst, mistyped(value, want)
				}
				x = 10*x + digit
			}
			if c := value[i]; c == '.' || c == 'e' || c == 'E' {
				return dst, mistyped(value, want)
			}
			dst = append(dst, x)
			i--
		default:
			return dst, mistyped(value, want)
		}
	}
	return dst, nil
}

// mistyped words the error of a value that is not what it must be, shortened if it is long.
func mistyped(value jsontext.Value, want string) error {
	const shown = 60
	got := string(value)
	if len(got) > shown {
		got = string(bytes.ToValidUTF8(value[:shown], nil)) + "..."
	}
	return fmt.Errorf("got %s, want %s", got, want)
}

func syntaxFault(err error) error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return fmt.Errorf("broken JSON at byte %d: %w", syntactic.ByteOffset+1, syntactic.Err)
	}
	return errors.New("broken JSON: the line ends too early")
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '[':
		return "a list"
	case '0':
		return "a number"
	case '"':
		return "a string"
	}
	return kind.String()
}
