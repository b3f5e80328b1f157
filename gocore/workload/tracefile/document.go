package tracefile

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Document reads JSON values one after another, as in a file with one value or with one a line. Only one value that has
// no parts is in memory at a time.
type Document struct {
	name string
	text *jsonText
	json *jsontext.Decoder
	poll func() error
	key  []byte
}

// pollEvery is the number of elements between two calls of poll.
const pollEvery = 256

// OpenDocument reads r, which may be compressed. poll is called now and then unless it is nil; its error ends the
// reading.
func OpenDocument(name string, r io.Reader, poll func() error) (*Document, error) {
	plain, err := Plain(r)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	d := &Document{name: name, text: &jsonText{r: plain}, poll: poll}
	// Duplicates matter for known keys only, and Object looks for those.
	d.json = jsontext.NewDecoder(d.text, jsontext.AllowDuplicateNames(true))
	d.text.consumed = d.json.InputOffset
	return d, nil
}

// More reports whether another value follows. An error of the file counts as one, which reading that value returns.
func (d *Document) More() bool {
	_, err := d.peek()
	return !errors.Is(err, io.EOF)
}

func (d *Document) peek() (jsontext.Kind, error) {
	kind := d.json.PeekKind()
	if kind == 0 {
		_, err := d.json.ReadToken()
		return 0, err
	}
	return kind, nil
}

// IsArray reports whether a list follows.
func (d *Document) IsArray() bool { return d.json.PeekKind() == '[' }

// Line returns the number of the line that the last value ended on, from 1.
func (d *Document) Line() int { return d.text.line() }

// Key says how to read the value of a key.
type Key struct {
	Name string
	Read func() error
}

// Object reads an object. Keys that are not known are skipped. A known key must not occur twice; null means that it is
// absent. It returns which of the keys have a value, as bits in their order.
func (d *Document) Object(keys []Key) (given uint64, err error) {
	if err := d.open('{', "an object"); err != nil {
		return 0, err
	}
	seen := uint64(0)
	for d.json.PeekKind() != '}' {
		if err := d.readKey(); err != nil {
			return 0, err
		}
		at := 0
		for at < len(keys) && keys[at].Name != string(d.key) {
			at++
		}
		if at == len(keys) {
			if err := d.json.SkipValue(); err != nil {
				return 0, d.broken(err)
			}
			continue
		}
		if seen&(1<<at) != 0 {
			return 0, d.Faultf("given twice, want it once")
		}
		seen |= 1 << at
		if d.json.PeekKind() == 'n' {
			if _, err := d.json.ReadToken(); err != nil {
				return 0, d.broken(err)
			}
			continue
		}
		given |= 1 << at
		if err := keys[at].Read(); err != nil {
			return 0, err
		}
	}
	_, err = d.json.ReadToken()
	return given, d.broken(err)
}

// Members reads an object of any keys; member reads the value of a key.
func (d *Document) Members(member func(key string) error) error {
	if err := d.open('{', "an object"); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		if err := d.readKey(); err != nil {
			return err
		}
		if err := member(string(d.key)); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return d.broken(err)
}

// readKey reads the key of the next member of an object.
func (d *Document) readKey() error {
	name, err := d.raw()
	if err != nil {
		return err
	}
	d.key, err = jsontext.AppendUnquote(d.key[:0], name)
	return d.broken(err)
}

// Array reads a list; element reads the one of that number, from 0.
func (d *Document) Array(element func(i int) error) error {
	if err := d.open('[', "a list"); err != nil {
		return err
	}
	for i := 0; d.json.PeekKind() != ']'; i++ {
		if d.poll != nil && i%pollEvery == pollEvery-1 {
			if err := d.poll(); err != nil {
				return err
			}
		}
		if err := element(i); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return d.broken(err)
}

func (d *Document) open(kind jsontext.Kind, want string) error {
	if found := d.json.PeekKind(); found == kind || found == 0 {
		_, err := d.json.ReadToken()
		return d.broken(err)
	}
	value, err := d.raw()
	if err != nil {
		return err
	}
	return d.mistyped(value, want)
}

// raw reads a value as it is written.
func (d *Document) raw() (jsontext.Value, error) {
	value, err := d.json.ReadValue()
	if err != nil {
		return nil, d.broken(err)
	}
	return value, nil
}

// Skip passes over a value.
func (d *Document) Skip() error { return d.broken(d.json.SkipValue()) }

// Count reads a whole number from 0 to limit; 12.0 is one.
func (d *Document) Count(limit int64) (int64, error) {
	value, err := d.raw()
	if err != nil {
		return 0, err
	}
	n, ok := parseCount(string(value), limit)
	if !ok {
		return 0, d.mistyped(value, fmt.Sprintf("an integer from 0 to %d", limit))
	}
	return n, nil
}

// Counts appends a list of whole numbers from 0 to limit, at most as many as most.
func (d *Document) Counts(dst []uint64, limit uint64, most int) ([]uint64, error) {
	first := len(dst)
	err := d.Array(func(int) error {
		value, err := d.raw()
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil || n > limit {
			return d.mistyped(value, fmt.Sprintf("an integer from 0 to %d", limit))
		}
		if len(dst)-first == most {
			return d.Faultf("got more than %d elements, want at most as many", most)
		}
		dst = append(dst, n)
		return nil
	})
	return dst, err
}

// Seconds reads a time in seconds as nanoseconds.
func (d *Document) Seconds() (ns int64, err error) {
	value, err := d.raw()
	if err != nil {
		return 0, err
	}
	ns, ok := ParseSeconds(string(value))
	if value.Kind() != '0' || !ok {
		return 0, d.mistyped(value, "a number of seconds")
	}
	return ns, nil
}

// Nanoseconds reads a time in nanoseconds.
func (d *Document) Nanoseconds() (ns int64, err error) {
	value, err := d.raw()
	if err != nil {
		return 0, err
	}
	ns, err = strconv.ParseInt(string(value), 10, 64)
	if x, floatErr := strconv.ParseFloat(string(value), 64); err != nil && floatErr == nil && math.Abs(x) <= maxNs {
		ns, err = int64(x), nil
	}
	if value.Kind() != '0' || err != nil || ns > maxNs || ns < -maxNs {
		return 0, d.mistyped(value, "a whole number of nanoseconds")
	}
	return ns, nil
}

// Number reads a number, or one of the texts inf and "inf".
func (d *Document) Number() (float64, error) {
	value, err := d.raw()
	if err != nil {
		return 0, err
	}
	if string(value) == `"inf"` {
		return math.Inf(1), nil
	}
	x, err := strconv.ParseFloat(string(value), 64)
	if value.Kind() != '0' || err != nil {
		return 0, d.mistyped(value, "a number")
	}
	return x, nil
}

// Bool reads true or false.
func (d *Document) Bool() (bool, error) {
	value, err := d.raw()
	if err != nil {
		return false, err
	}
	if kind := value.Kind(); kind != 't' && kind != 'f' {
		return false, d.mistyped(value, "true or false")
	}
	return value.Kind() == 't', nil
}

// Text reads a text; a number counts as the text of its digits.
func (d *Document) Text() (string, error) {
	value, err := d.raw()
	if err != nil {
		return "", err
	}
	switch value.Kind() {
	case '0':
		return string(value), nil
	case '"':
		plain, err := jsontext.AppendUnquote(nil, value)
		return string(plain), d.broken(err)
	}
	return "", d.mistyped(value, "a text")
}

// Faultf returns an error about the value that was read last. It names file, line and field.
func (d *Document) Faultf(format string, values ...any) error {
	return d.fault(string(d.json.StackPointer()), fmt.Sprintf(format, values...))
}

// Missing returns the error of a key that the object which was read last must have.
func (d *Document) Missing(key, want string) error {
	return d.fault(string(d.json.StackPointer())+"/"+key, "missing, want "+want)
}

func (d *Document) mistyped(value jsontext.Value, want string) error {
	const most = 60
	got := string(value)
	if len(got) > most {
		got = strings.ToValidUTF8(got[:most], "") + "..."
	}
	return d.Faultf("got %s, want %s", strings.Join(strings.Fields(got), " "), want)
}

// fault words an error at a place: requests[3].in for /requests/3/in.
func (d *Document) fault(pointer, what string) error {
	var place strings.Builder
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if step != "" && allDigits(step) {
			fmt.Fprintf(&place, "[%s]", step)
			continue
		}
		if place.Len() > 0 {
			place.WriteByte('.')
		}
		place.WriteString(step)
	}
	if place.Len() > 0 {
		place.WriteString(": ")
	}
	return fmt.Errorf("%s line %d: %s%s", d.name, d.Line(), strings.ToValidUTF8(place.String(), "?"), what)
}

// broken words an error of the decoder or of the file; nil stays nil.
func (d *Document) broken(err error) error {
	if err == nil {
		return nil
	}
	var syntactic *jsontext.SyntacticError
	switch {
	case d.text.failed != nil:
		err = d.text.failed
	case errors.As(err, &syntactic) && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s line %d: broken JSON: %w", d.name, d.Line(), syntactic.Err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%s line %d: broken JSON: the file ends too early", d.name, d.Line())
	}
	return fmt.Errorf("%s line %d: %w", d.name, d.Line(), err)
}
