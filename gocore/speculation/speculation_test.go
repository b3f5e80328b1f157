package speculation

import (
	"math"
	"slices"
	"testing"
)

// TestGenerator compares with the generator of the reference.
func TestGenerator(t *testing.T) {
	c := newStream(42)
	c.refill()
	want := []uint64{9713269763989775522, 10011513049433592189, 11740708795755607249, 7487565853151867058}
	if got := c.words[c.at:][:len(want)]; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

// TestRewind takes draws, goes back by any number of them, and compares what comes again.
func TestRewind(t *testing.T) {
	const draws = 3 * kept * blockWords
	all := make([]int32, draws)
	rates := []float64{0.5} // a draw for each burst
	New(rates, 42).Bursts(all)
	d := New(rates, 42)
	for from := 0; from < draws; from += 47 {
		for to := from; to <= draws; to += 35 {
			d.Rewind(Mark(from))
			got := make([]int32, to-from)
			d.Bursts(got)
			if !slices.Equal(got, all[from:to]) || d.Mark() != Mark(to) {
				t.Fatalf("draws %d to %d: got %v at %d, want %v", from, to, got, d.Mark(), all[from:to])
			}
		}
	}
}

// TestCipher runs the published vector of ChaCha12 with a zero key, counter and nonce: 9bf49a6a 0755f953.
func TestCipher(t *testing.T) {
	var draws [blockWords]uint64
	new(chacha).block(0, &draws)
	if got, want := draws[0], uint64(0x53f955076a9af49b); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}

// TestBatch compares passes of a batch, some of them taken back, with bursts that are drawn one by one.
func TestBatch(t *testing.T) {
	rates := []float64{0.85, 1, 0.3}
	slow, fast := New(rates, 3), New(rates, 3)
	var b Batch
	for left := range 5 {
		b.Add(1000+left, 2000-left)
	}
	for pass := range 100 {
		sum := int32(0)
		wantLeft, wantRoom := slices.Clone(b.Left), slices.Clone(b.Room)
		for i, burst := range bursts(slow, 5) {
			wantLeft[i] -= burst
			wantRoom[i] -= burst
			sum += burst
		}
		if pass%3 == 0 {
			b.Pass(fast)
			b.Undo(fast)
		}
		tokens, left, room := b.Pass(fast)
		if tokens != int(sum) || left != int(slices.Min(wantLeft)) || room != int(slices.Min(wantRoom)) ||
			!slices.Equal(b.Left, wantLeft) || !slices.Equal(b.Room, wantRoom) {
			t.Fatalf("pass %d: got %d, %d, %d, %v", pass, tokens, left, room, b)
		}
	}
	b.Reset()
	b.Add(2, 1)
	b.Add(9, 1)
	if got := b.MostTokens(4); got != 6 {
		t.Errorf("got at most %d tokens, want 2 + 4", got)
	}
}

// bursts draws one after the other.
func bursts(d *Drafts, n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		d.Bursts(list[i : i+1])
	}
	return list
}

func TestBursts(t *testing.T) {
	for _, c := range []struct {
		rates []float64
		seed  uint64
		want  []int32
	}{
		{[]float64{0.85, 0.3}, 42, []int32{2, 2, 2, 2, 3, 1, 2, 2, 3, 3, 2, 2, 2}},
		{[]float64{0.5}, 42, []int32{1, 1, 1, 2, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 2}},
		{[]float64{0.9, 1, 0.5}, 7, []int32{4, 3, 3, 4, 3, 4, 4, 3, 3, 3, 4, 3, 4, 1}},
		{[]float64{0.7, 0.5}, 42, []int32{2, 3, 3, 1, 1, 3, 1, 3, 2}},
		{[]float64{0.7, 0.5}, 7, []int32{3, 2, 2, 3, 2, 3, 3}},
		{[]float64{1, 1, 1, 1, 1}, 1, []int32{6, 6, 6}},
		{[]float64{0, 1}, 1, []int32{1, 1, 1}},
		{[]float64{1, 0}, 1, []int32{2, 2, 2}},
		{nil, 1, []int32{1, 1}},
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
		want  int // draws
	}{
		{[]float64{1, 1}, 0}, {[]float64{0, 0}, 1}, {[]float64{1, 0, 0}, 1}, {[]float64{math.Nextafter(1, 0), 0}, 2},
	} {
		d := New(c.rates, 42)
		bursts(d, 1)
		if got := int(d.Mark()); got != c.want {
			t.Errorf("%v: %d draws taken, want %d", c.rates, got, c.want)
		}
	}
}

func TestRatesHold(t *testing.T) {
	d := New([]float64{0.7, 0.5}, 3)
	const n = 100_000
	count := [4]int{}
	for _, tokens := range bursts(d, n) {
		count[tokens]++
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
	var requests [64]int32
	for b.Loop() {
		d.Bursts(requests[:])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(requests)), "ns/burst")
}
