package speculation

import (
	"math"
	"slices"
	"testing"
)

// TestGenerator compares with the generator of the reference, and looks when it makes a new block.
func TestGenerator(t *testing.T) {
	c := newChacha(42)
	for i, want := range []uint64{9713269763989775522, 10011513049433592189, 11740708795755607249, 7487565853151867058} {
		if got := c.uint64(); got != want {
			t.Errorf("draw %d: got %d, want %d", i, got, want)
		}
	}
	low := newChacha(42)
	for range 8 {
		low.uint64()
	}
	if low.counter != 1 {
		t.Errorf("8 draws took %d blocks, want 1", low.counter)
	}
	low.uint64()
	if low.counter != 2 {
		t.Errorf("9 draws took %d blocks, want 2", low.counter)
	}
}

// TestCipher runs the published vector of ChaCha12 with a zero key, counter and nonce: 9bf49a6a 0755f953.
func TestCipher(t *testing.T) {
	c := chacha{used: 8}
	if got, want := c.uint64(), uint64(0x53f955076a9af49b); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}

func bursts(d *Drafts, n int) (list []int) {
	for range n {
		list = append(list, d.Burst())
	}
	return list
}

func TestBursts(t *testing.T) {
	for _, c := range []struct {
		rates []float64
		seed  uint64
		want  []int
	}{
		{[]float64{0.85, 0.3}, 42, []int{2, 2, 2, 2, 3, 1, 2, 2, 3, 3, 2, 2, 2}},
		{[]float64{0.5}, 42, []int{1, 1, 1, 2, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 2}},
		{[]float64{0.9, 1, 0.5}, 7, []int{4, 3, 3, 4, 3, 4, 4, 3, 3, 3, 4, 3, 4, 1}},
		{[]float64{0.7, 0.5}, 42, []int{2, 3, 3, 1, 1, 3, 1, 3, 2}},
		{[]float64{0.7, 0.5}, 7, []int{3, 2, 2, 3, 2, 3, 3}},
		{[]float64{1, 1, 1, 1, 1}, 1, []int{6, 6, 6}},
		{[]float64{0, 1}, 1, []int{1, 1, 1}},
		{[]float64{1, 0}, 1, []int{2, 2, 2}},
		{nil, 1, []int{1, 1}},
	} {
		d := New(c.rates, c.seed)
		if got := bursts(d, len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("rates %v, seed %d: got %v, want %v", c.rates, c.seed, got, c.want)
		}
		if got := d.MaxBurst(); got != len(c.rates)+1 {
			t.Errorf("rates %v: largest burst: got %d", c.rates, got)
		}
	}
}

// TestWhatADrawTakes: rates of 0 take one from the generator, rates of 1 none.
func TestWhatADrawTakes(t *testing.T) {
	for _, c := range []struct {
		rates []float64
		want  int // words
	}{
		{[]float64{1, 1}, 0}, {[]float64{0, 0}, 2}, {[]float64{1, 0, 0}, 2}, {[]float64{math.Nextafter(1, 0), 0}, 4},
	} {
		d := New(c.rates, 42)
		d.Burst()
		if got := int(d.rng.counter)*16 - 16 + 2*d.rng.used; c.want > 0 && got != c.want || c.want == 0 && d.rng.counter != 0 {
			t.Errorf("%v: %d words taken, want %d", c.rates, got, c.want)
		}
	}
}

func TestRatesHold(t *testing.T) {
	d := New([]float64{0.7, 0.5}, 3)
	const n = 100_000
	count := [4]int{}
	for range n {
		count[d.Burst()]++
	}
	for tokens, want := range []float64{0, 0.3, 0.35, 0.35} {
		if got := float64(count[tokens]) / n; math.Abs(got-want) > 0.01 {
			t.Errorf("bursts of %d: got share %v, want %v", tokens, got, want)
		}
	}
}

func TestParseRates(t *testing.T) {
	for _, c := range []struct {
		list   string
		drafts int
		want   []float64
	}{
		{"", 2, []float64{0.85, 0.3}},
		{"  ", 5, []float64{0.85, 0.3, 0, 0, 0}},
		{"1,0.5", 3, []float64{1, 0.5, 0}},
		{" 0.9 , 1 ,0", 1, []float64{0.9}},
		{"1e-3", 1, []float64{0.001}},
	} {
		if got, err := ParseRates(c.list, c.drafts); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q, %d: got %v, %v, want %v", c.list, c.drafts, got, err, c.want)
		}
	}
	for list, want := range map[string]string{
		"0.5,2":    `entry 1: got "2", want a number from 0 to 1`,
		"0.5,":     `entry 1: got "", want a number from 0 to 1`,
		"-0.1":     `entry 0: got "-0.1", want a number from 0 to 1`,
		"1,x,1":    `entry 1: got "x", want a number from 0 to 1`,
		"1,1,NaN":  `entry 2: got "NaN", want a number from 0 to 1`,
		"0.1, inf": `entry 1: got "inf", want a number from 0 to 1`,
	} {
		if got, err := ParseRates(list, 1); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, %v, want %s", list, got, err, want)
		}
	}
}

func BenchmarkBurst(b *testing.B) {
	d := New(DefaultRates[:], 42)
	for b.Loop() {
		d.Burst()
	}
}
