package timing

import (
	"fmt"
	"math"
	"sort"
)

// Tables are measured durations, in the arrays of an interpolation profile. Axes count tokens.
type Tables struct {
	PrefillISL    []float64 // new prompt tokens of a whole pass
	PrefillTTFTMs []float64 // one for each

	DecodeActiveKVTokens []float64
	DecodeContextLength  []float64
	DecodeITLMs          []float64 // one row for each number of active tokens, one column for each context length
}

// Grid is a timing model that interpolates linearly between measured points, and follows the outermost two beyond them.
// It does not distinguish few long requests from many short ones.
type Grid struct{ t Tables }

// TableError says what is wrong with one array of a profile.
type TableError struct {
	Array     string // as profiles call it
	Got, Want string
}

func (e *TableError) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Array, e.Got, e.Want)
}

// NewGrid returns a model that keeps t. Every axis must have at least two values and increase, the durations must fit
// the axes, and nothing may be infinite. A duration that is not a number is let through, as in the reference: passes
// that meet it take the least possible time.
func NewGrid(t Tables) (*Grid, error) {
	for _, axis := range []struct {
		name   string
		values []float64
	}{
		{"prefill_isl", t.PrefillISL},
		{"decode_active_kv_tokens", t.DecodeActiveKVTokens},
		{"decode_context_length", t.DecodeContextLength},
	} {
		if err := checkAxis(axis.name, axis.values); err != nil {
			return nil, err
		}
	}
	for _, table := range []struct {
		name   string
		values []float64
		want   int
		what   string
	}{
		{"prefill_ttft_ms", t.PrefillTTFTMs, len(t.PrefillISL), "one for each prefill_isl"},
		{"decode_itl", t.DecodeITLMs, len(t.DecodeActiveKVTokens) * len(t.DecodeContextLength),
			"one for each pair of decode_active_kv_tokens and decode_context_length"},
	} {
		if len(table.values) != table.want {
			return nil, &TableError{table.name, fmt.Sprint(len(table.values), " values"),
				fmt.Sprintf("%d, %s", table.want, table.what)}
		}
		if err := checkFinite(table.name, table.values); err != nil {
			return nil, err
		}
	}
	return &Grid{t}, nil
}

// Tables returns the arrays that the model keeps, which must not be changed.
func (g *Grid) Tables() Tables { return g.t }

func checkAxis(name string, values []float64) error {
	if len(values) < 2 {
		return &TableError{name, fmt.Sprint(len(values), " values"), "at least two"}
	}
	for i := 1; i < len(values); i++ {
		if !(values[i-1] < values[i]) {
			return &TableError{name, fmt.Sprintf("%v after %v at index %d", values[i], values[i-1], i),
				"values that increase"}
		}
	}
	return checkFinite(name, values)
}

func checkFinite(name string, values []float64) error {
	for i, x := range values {
		if math.IsInf(x, 0) {
			return &TableError{name, fmt.Sprintf("%v at index %d", x, i), "finite values"}
		}
	}
	return nil
}

var _ Model = (*Grid)(nil)

// PrefillMs implements [Model] by interpolation over requests * new tokens.
func (g *Grid) PrefillMs(s PrefillShape) float64 {
	tokens := s.Requests * s.NewTokens()
	if tokens == 0 {
		return 0
	}
	axis, ms := g.t.PrefillISL, g.t.PrefillTTFTMs
	x := float64(tokens)
	i := segment(axis, x)
	return atLeast(0, line(axis[i], ms[i], axis[i+1], ms[i+1], x))
}

// DecodeMs implements [Model] by interpolation, first over the active tokens at the two neighbouring contexts, then
// over the mean context.
func (g *Grid) DecodeMs(s DecodeShape) float64 {
	kv, context, ms := g.t.DecodeActiveKVTokens, g.t.DecodeContextLength, g.t.DecodeITLMs
	x, y := float64(s.ActiveTokens), float64(s.MeanContext)
	i, j := segment(kv, x), segment(context, y)
	at := i*len(context) + j
	below := at + len(context)
	first := line(kv[i], ms[at], kv[i+1], ms[below], x)
	second := line(kv[i], ms[at+1], kv[i+1], ms[below+1], x)
	return atLeast(leastDecodeMs, line(context[j], first, context[j+1], second, y))
}

// segment returns the index of the axis value at or before x that begins a segment: the first or the last one if x lies
// outside the axis.
func segment(axis []float64, x float64) int {
	after := sort.Search(len(axis), func(i int) bool { return axis[i] > x })
	return min(max(after-1, 0), len(axis)-2)
}

// line returns the straight line through two points at x. The order of the operations shows in the last bit.
func line(x1, y1, x2, y2, x float64) float64 {
	return float64((y2-y1)/(x2-x1)*(x-x1)) + y1
}

// atLeast returns the larger of x and low, and low if x is not a number. The built-in max would keep the NaN.
func atLeast(low, x float64) float64 {
	if x > low {
		return x
	}
	return low
}

// Pure reports true; see the function of that name.
func (*Grid) Pure() bool { return true }
