package workload

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

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

func signed32(value jsontext.Value) (int32, error) {
	x, err := strconv.ParseInt(string(value), 10, 32)
	if value.Kind() != '0' || err != nil {
		return 0, mistyped(value, fmt.Sprintf("an integer from %d to %d", math.MinInt32, math.MaxInt32))
	}
	return int32(x), nil
}

func text(value jsontext.Value) (string, error) {
	if value.Kind() != '"' {
		return "", mistyped(value, "a string")
	}
	plain, err := jsontext.AppendUnquote(nil, value)
	return string(plain), err
}

// MaxHashIDs is the most block ids of one prompt that are read. Each costs about 80 bytes while a trace is loaded.
const MaxHashIDs = 1 << 20

// hashIDList appends the block ids of a prompt.
func hashIDList(dst []uint64, value jsontext.Value) ([]uint64, error) {
	if ids := 1 + bytes.Count(value, []byte{','}); value.Kind() == '[' && ids > MaxHashIDs {
		return dst, fmt.Errorf("got %d ids, want at most %d: use larger trace blocks", ids, MaxHashIDs)
	}
	return unsignedList(dst, value, math.MaxUint64)
}

// unsignedList appends the elements of a JSON array of integers up to limit. The value is known to be valid JSON, so
// every run of digits between separators is a number, and anything else is a wrong element.
func unsignedList[T uint32 | uint64](dst []T, value jsontext.Value, limit uint64) ([]T, error) {
	wrong := func() error { return mistyped(value, fmt.Sprintf("a list of integers from 0 to %d", limit)) }
	if value.Kind() != '[' {
		return dst, wrong()
	}
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == ',' || c == ']' || c == ' ' || c == '\t' || c == '\r':
		case c >= '0' && c <= '9':
			x := uint64(0)
			for ; value[i] >= '0' && value[i] <= '9'; i++ {
				digit := uint64(value[i] - '0')
				if x > (limit-digit)/10 {
					return dst, wrong()
				}
				x = 10*x + digit
			}
			if c := value[i]; c == '.' || c == 'e' || c == 'E' {
				return dst, wrong()
			}
			dst = append(dst, T(x))
			i--
		default:
			return dst, wrong()
		}
	}
	return dst, nil
}

// numberList appends the elements of a JSON array of numbers.
func numberList(dst []float64, value jsontext.Value) ([]float64, error) {
	err := eachElement(value, "a list of numbers", func(element jsontext.Value) error {
		x, err := number(element)
		dst = append(dst, x)
		return err
	})
	return dst, err
}

// textList appends the elements of a JSON array of strings.
func textList(dst []string, value jsontext.Value) ([]string, error) {
	err := eachElement(value, "a list of strings", func(element jsontext.Value) error {
		plain, err := text(element)
		dst = append(dst, plain)
		return err
	})
	return dst, err
}

// eachElement hands the elements of a JSON array to take; any error of take means that the array has a wrong element.
func eachElement(value jsontext.Value, want string, take func(element jsontext.Value) error) error {
	if value.Kind() != '[' {
		return mistyped(value, want)
	}
	elements := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	if _, err := elements.ReadToken(); err != nil {
		return syntaxFault(err)
	}
	for elements.PeekKind() != ']' {
		element, err := elements.ReadValue()
		if err != nil {
			return syntaxFault(err)
		}
		if take(element) != nil {
			return mistyped(value, want)
		}
	}
	return nil
}

// mistyped returns the error of a value of another type than it must have, shortened if it is long.
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
