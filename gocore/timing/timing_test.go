package timing

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestPolynomialRawValues(t *testing.T) {
	var m Polynomial
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"prefill 1 token", m.PrefillMs(PrefillShape{1, 1, 0}), 16.5166038609989},
		{"prefill 1000", m.PrefillMs(PrefillShape{1, 1000, 0}), 32.1058589},
		{"prefill 8192", m.PrefillMs(PrefillShape{1, 8192, 0}), 169.1369184042496},
		{"prefill fully cached", m.PrefillMs(PrefillShape{3, 64, 64}), 0},
		{"prefill prefix beyond isl", m.PrefillMs(PrefillShape{1, 10, 12}), 0},
		{"decode empty pool", m.DecodeMs(DecodeShape{1, 0, 1048576, 1}), 5.74},
		{"decode 16 blocks of 64", m.DecodeMs(DecodeShape{1, 1024, 1048576, 1}), 5.792719593048096},
		{"decode full pool", m.DecodeMs(DecodeShape{1, 1048576, 1048576, 1}), 34.01},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestNanos(t *testing.T) {
	for _, c := range []struct {
		ms   float64
		want int64
	}{
		{32.1058589, 32105859},
		{0.0005, 500},
		{1e-7, 0},
		{0, 0},
		{5.792719593048096, 5792720},
		{1e15, math.MaxInt64}, // 1e12 s is beyond int64 nanoseconds
	} {
		if got := Nanos(c.ms / 1000); got != c.want {
			t.Errorf("Nanos(%v ms): got %d, want %d", c.ms, got, c.want)
		}
	}
}

// TestNanosAgainstExactArithmetic compares with rational numbers over all magnitudes, near-ties included.
func TestNanosAgainstExactArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		x := math.Ldexp(rng.Float64(), rng.IntN(72)-36)
		if rng.IntN(2) == 0 { // an odd number of nanoseconds halved: the near-ties of speedup_ratio 2
			x = Seconds(rng.Int64N(1e12)) / 2
		}
		if got, want := Nanos(x), exactNanos(x); got != want {
			t.Fatalf("Nanos(%v): got %d, want %d", x, got, want)
		}
	}
}

func exactNanos(x float64) int64 {
	exact := new(big.Rat).SetFloat64(x)
	exact.Mul(exact, big.NewRat(nsPerSecond, 1))
	twice := new(big.Int).Mul(exact.Num(), big.NewInt(2))
	q, r := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	twice.Mul(r, big.NewInt(2))
	if c := twice.Cmp(exact.Denom()); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	if x >= 1<<33 {
		return math.MaxInt64
	}
	return q.Int64()
}

func TestClockScaling(t *testing.T) {
	// One request of 1000 tokens, 16 active blocks of 64 among 16384: vectors of the reference.
	for _, c := range []struct {
		name           string
		clock          Clock
		first, lastGap float64
	}{
		{"unscaled", Clock{Speedup: 1, DecodeSpeedup: 1}, 37.898579000000005, 5.792720},
		{"ratio 0 does not scale", Clock{Speedup: 0, DecodeSpeedup: 1}, 37.898579000000005, 5.792720},
		{"speedup 3", Clock{Speedup: 3, DecodeSpeedup: 1}, 12.632859999999999, 1.930907},
		{"decode ratio 0 cancels speedup", Clock{Speedup: 3, DecodeSpeedup: 0}, 16.494673, 5.792720},
		{"both", Clock{Speedup: 3, DecodeSpeedup: 7}, 10.977796999999999, 0.27584400000000003},
		{"huge", Clock{Speedup: 1e9, DecodeSpeedup: 1}, 0, 0},
	} {
		decode := c.clock.DecodeSeconds(1, 1000, 16*64, 16384*64)
		first := float64(c.clock.PrefillSeconds(1, 1000, 0)*1000) + float64(decode*1000)
		if first != c.first || decode*1000 != c.lastGap {
			t.Errorf("%s: got first %v gap %v, want %v %v", c.name, first, decode*1000, c.first, c.lastGap)
		}
	}
	// The means are floored separately: 39/2=19 and 10/2=5 charge 28 tokens for 29 computed.
	unscaled := Clock{Speedup: 1, DecodeSpeedup: 1}
	if got := unscaled.PrefillSeconds(2, 39, 10); got != 0.016926886 {
		t.Errorf("floored means: got %v, want 0.016926886", got)
	}
}

func BenchmarkDecodeSeconds(b *testing.B) {
	c := Clock{Speedup: 2, DecodeSpeedup: 1}
	for i := 0; b.Loop(); i++ {
		c.DecodeSeconds(16, 16000, i&0xffff, 1<<20)
	}
}
