package strictjson

import (
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// rawValue is one JSON value as it stands in the text.
type rawValue struct {
	json      jsontext.Value
	nonFinite bool // the strings "nan", "inf" and "-inf" count as numbers
}

// negative and huge are what an Integer decodes to when no uint64 holds it: out of any range.
type (
	negative struct{}
	huge     struct{}
)

func (Integer) decode(v rawValue) (any, bool) {
	text := string(v.json)
	if v.json.Kind() != jsontext.KindNumber || strings.ContainsAny(text, ".eE") {
		return nil, false
	}
	if text[0] == '-' {
		return negative{}, true
	}
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return huge{}, true
	}
	return u, true
}

func (Number) decode(v rawValue) (any, bool) {
	if f, ok := v.asNonFinite(); ok {
		return f, true
	}
	if v.json.Kind() != jsontext.KindNumber {
		return nil, false
	}
	// The grammar was checked already, so the only error left is a number too big for a double, and
	// that comes with an infinity, which no range admits.
	f, _ := strconv.ParseFloat(string(v.json), 64)
	return f, true
}

// asNonFinite reads the strings that stand for what JSON numbers cannot say.
func (v rawValue) asNonFinite() (float64, bool) {
	if !v.nonFinite {
		return 0, false
	}
	switch string(v.json) {
	case `"nan"`:
		return math.NaN(), true
	case `"inf"`:
		return math.Inf(1), true
	case `"-inf"`:
		return math.Inf(-1), true
	default:
		return 0, false
	}
}

func (Bool) decode(v rawValue) (any, bool) {
	switch v.json.Kind() {
	case jsontext.KindTrue:
		return true, true
	case jsontext.KindFalse:
		return false, true
	default:
		return nil, false
	}
}

func (Text) decode(v rawValue) (any, bool) { return v.text() }

func (Enum) decode(v rawValue) (any, bool) { return v.text() }

// text returns the string a JSON string stands for.
func (v rawValue) text() (any, bool) {
	if v.json.Kind() != jsontext.KindString {
		return nil, false
	}
	s, err := jsontext.AppendUnquote(nil, v.json)
	return string(s), err == nil
}

func (List) decode(v rawValue) (any, bool) {
	if v.json.Kind() != jsontext.KindBeginArray {
		return nil, false
	}
	list := []string{}
	tokens := newTokens(string(v.json))
	if _, err := tokens.ReadToken(); err != nil {
		return nil, false
	}
	for tokens.PeekKind() != jsontext.KindEndArray {
		item, err := tokens.ReadValue()
		if err != nil {
			return nil, false
		}
		s, ok := rawValue{json: item}.text()
		if !ok {
			return nil, false
		}
		list = append(list, s.(string))
	}
	return list, true
}

// decode refuses its value: it gets what is not an object, as the decoder reads objects itself.
func (Nested) decode(rawValue) (any, bool) { return nil, false }

// decode refuses its value: it gets what is not a list, as the decoder reads the objects itself.
func (Objects) decode(rawValue) (any, bool) { return nil, false }

func (Any) decode(rawValue) (any, bool) { return nil, true }

// shownRunes bounds how much of a value or key a message repeats.
const shownRunes = 60

// show renders a value for a message: on one line, as JSON writes it, cut when long.
func (v rawValue) show() string {
	if _, ok := v.asNonFinite(); ok {
		return strings.Trim(string(v.json), `"`)
	}
	line := v.json.Clone()
	if k := line.Kind(); k == jsontext.KindBeginObject || k == jsontext.KindBeginArray {
		// An error would leave the value as it was; there is none, the value was read before.
		_ = line.Compact(jsontext.AllowDuplicateNames(true))
	}
	return shorten(string(line))
}

func shorten(s string) string {
	if len(s) <= shownRunes {
		return s
	}
	if runes := []rune(s); len(runes) > shownRunes {
		return string(runes[:shownRunes]) + "..."
	}
	return s
}
