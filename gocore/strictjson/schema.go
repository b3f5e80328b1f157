package strictjson

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Schema lists what one object may contain.
type Schema struct {
	Fields []Field
	// NonFinite lets every Number arrive as one of the strings "nan", "inf" and "-inf", so that it can be
	// refused as a number out of range rather than as a string.
	NonFinite bool
}

// Field describes one key.
type Field struct {
	Name string
	Type Type
	// Default is what the accessors of Object return when the key is absent or null: an int, float64,
	// bool or string as the type demands. Nil stands for the zero value, and means that the field has no default.
	Default any
	// NotNull makes an explicit null an error. Otherwise null reads like an absent key, and Object.Null tells them
	// apart.
	NotNull bool
	// Required makes an absent key an error.
	Required bool
	// Doc describes the key in sentences. Decode does not use it; reference pages and Python's docstrings are written
	// from it.
	Doc string
}

// Type is the form of a value: Integer, Number, Bool, Text, List, Enum, Nested, Objects or Any.
type Type interface {
	// Want says in words what is allowed, such as "an integer >= 1".
	Want() string
	// decode converts a raw value, or reports false when it is of another type.
	decode(v rawValue) (any, bool)
	// broken returns the rule that a decoded value breaks, "" if it is in range.
	broken(v any) string
}

// Integer is a whole number from Min to Max, both included. A Max of 0 stands for the largest int.
type Integer struct {
	Min, Max uint64
}

// Number is a finite number from Min to Max, both included unless declared open. A Max of 0 stands for no upper limit.
type Number struct {
	Min, Max         float64
	MinOpen, MaxOpen bool
}

// Bool is true or false.
type Bool struct{}

// Text is a string.
type Text struct {
	NonEmpty bool
	// Path marks the path of a file or a folder, for which Python also takes a path object. Any string is still valid.
	Path bool
}

// List is a list of strings.
type List struct{}

// Enum is one word of a list. FoldCase ignores case, and the accessors return the word as it stands in the list.
type Enum struct {
	Choices  []string
	FoldCase bool
	// Added lists choices of a list that other packages may extend. It is asked each time, and may repeat Choices; nil
	// adds none.
	Added func() []string
	// Aliases are other words for choices; nil for none. If there are some, dashes and underscores of choices are
	// alike, too.
	Aliases map[string]string
}

// Nested is an object with fields of its own.
type Nested struct {
	Fields []Field
}

// Objects is a list of objects with fields of their own.
type Objects struct {
	Fields []Field
}

// Any is a value of any form, which cannot be read back.
type Any struct{}

func (t Integer) max() uint64 {
	if t.Max == 0 {
		return math.MaxInt
	}
	return t.Max
}

// Want leaves out the largest int: this limit of the program only makes messages longer.
func (t Integer) Want() string {
	if t.Max == 0 {
		return fmt.Sprintf("an integer >= %d", t.Min)
	}
	return fmt.Sprintf("an integer from %d to %d", t.Min, t.Max)
}

// broken names the upper limit even when Want does not, for a value beyond it.
func (t Integer) broken(v any) string {
	switch u, fits := v.(uint64); {
	case v == negative{} || fits && u < t.Min:
		return t.Want()
	case fits && u <= t.max():
		return ""
	default:
		return Integer{Min: t.Min, Max: t.max()}.Want()
	}
}

// Want spells a closed interval as "from 0 to 1" and any other one with its comparison signs.
func (t Number) Want() string {
	low, high := ">=", "<="
	if t.MinOpen {
		low = ">"
	}
	if t.MaxOpen {
		high = "<"
	}
	switch {
	case t.Max == 0:
		return fmt.Sprintf("a finite number %s %v", low, t.Min)
	case !t.MinOpen && !t.MaxOpen:
		return fmt.Sprintf("a finite number from %v to %v", t.Min, t.Max)
	default:
		return fmt.Sprintf("a finite number %s %v and %s %v", low, t.Min, high, t.Max)
	}
}

func (t Number) broken(v any) string {
	f := v.(float64)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0),
		f < t.Min || t.MinOpen && f == t.Min,
		t.Max != 0 && (f > t.Max || t.MaxOpen && f == t.Max):
		return t.Want()
	default:
		return ""
	}
}

// Want names both words.
func (Bool) Want() string { return "true or false" }

func (Bool) broken(any) string { return "" }

// Want says whether the string may be empty.
func (t Text) Want() string {
	if t.NonEmpty {
		return "a string that is not empty"
	}
	return "a string"
}

func (t Text) broken(v any) string {
	if t.NonEmpty && v.(string) == "" {
		return t.Want()
	}
	return ""
}

// Want returns the same for every list.
func (List) Want() string { return "a list of strings" }

func (List) broken(any) string { return "" }

// Want lists the choices in their order.
func (t Enum) Want() string { return "one of " + strings.Join(t.all(), ", ") }

// Listed returns some choices as a sentence lists them, each in the given form of package fmt; the first one is the
// default: "lifo (default) or fifo".
func Listed(choices []string, form string) string {
	shown := make([]string, len(choices))
	for i, c := range choices {
		shown[i] = fmt.Sprintf(form, c)
	}
	shown[0] += " (default)"
	last := len(shown) - 1
	return strings.Join(shown[:last], ", ") + " or " + shown[last]
}

// all lists every choice once.
func (t Enum) all() []string {
	if t.Added == nil {
		return t.Choices
	}
	choices := slices.Clone(t.Choices)
	for _, added := range t.Added() {
		if !slices.Contains(choices, added) {
			choices = append(choices, added)
		}
	}
	return choices
}

// broken returns "": a word outside the list never gets past Decode.
func (Enum) broken(any) string { return "" }

// choice returns the word of the list that s stands for.
func (t Enum) choice(s string) (string, bool) {
	choices := t.all()
	if t.Aliases != nil && !slices.Contains(choices, s) {
		s = cmp.Or(t.Aliases[s], t.Aliases[underscored(s)], s)
	}
	i := slices.IndexFunc(choices, func(c string) bool {
		return c == s || t.FoldCase && strings.EqualFold(c, s) || t.Aliases != nil && underscored(c) == underscored(s)
	})
	if i < 0 {
		return "", false
	}
	return choices[i], true
}

func underscored(s string) string { return strings.ReplaceAll(s, "-", "_") }

// Want returns the same for every nested object.
func (Nested) Want() string { return "an object" }

// broken leaves the judgement to the fields of the nested object.
func (Nested) broken(any) string { return "" }

// Want returns the same for every list.
func (Objects) Want() string { return "a list of objects" }

// broken leaves the judgement to the fields of the objects.
func (Objects) broken(any) string { return "" }

// Want returns what is never part of a message, since anything will do.
func (Any) Want() string { return "any value" }

func (Any) broken(any) string { return "" }
