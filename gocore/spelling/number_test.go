package spelling

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestAppendNumber(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string // Python's repr
	}{
		{0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {1, "1.0"}, {-2.5, "-2.5"}, {51.365042, "51.365042"},
		{1.4268067222222222e-05, "1.4268067222222222e-05"}, {0.0001, "0.0001"}, {0.00009999, "9.999e-05"},
		{1e15, "1000000000000000.0"}, {9999999999999998, "9999999999999998.0"}, {1e16, "1e+16"}, {1.5e16, "1.5e+16"},
		{1e22, "1e+22"}, {1e100, "1e+100"}, {5e-324, "5e-324"}, {1.7976931348623157e308, "1.7976931348623157e+308"},
		{22.470830999999997, "22.470830999999997"}, {1.0 / 3, "0.3333333333333333"},
	} {
		if got := string(AppendNumber([]byte("x="), c.x)); got != "x="+c.want {
			t.Errorf("got %s, want x=%s", got, c.want)
		}
	}
}

// FuzzAppendNumber: numbers read back as they were, and as floats.
func FuzzAppendNumber(f *testing.F) {
	f.Add(0.1)
	f.Add(1e16)
	f.Fuzz(func(t *testing.T, x float64) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		text := string(AppendNumber(nil, x))
		var back float64
		if err := json.Unmarshal([]byte(text), &back); err != nil || math.Float64bits(back) != math.Float64bits(x) {
			t.Errorf("%v became %s, read back as %v (%v)", x, text, back, err)
		}
		if !strings.ContainsAny(text, ".e") {
			t.Errorf("%v became %s, which Python reads as an integer", x, text)
		}
	})
}
