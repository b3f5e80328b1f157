package timing

import (
	"math"
	"strings"
	"testing"
)

// fixture returns a small profile whose numbers can be checked with a pencil.
func fixture() Tables {
	return Tables{
		PrefillISL:           []float64{100, 1000, 4000},
		PrefillTTFTMs:        []float64{10, 40, 200},
		DecodeActiveKVTokens: []float64{0, 5000, 20000},
		DecodeContextLength:  []float64{1, 1000, 3000},
		DecodeITLMs:          []float64{5, 6, 8, 7, 9, 12, 15, 18, 25},
	}
}

func mustGrid(t *testing.T, tables Tables) *Grid {
	t.Helper()
	g, err := NewGrid(tables)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGridPrefill(t *testing.T) {
	g := mustGrid(t, fixture())
	for _, c := range []struct {
		requests, isl, prefix int
		want                  float64
	}{
		{1, 100, 0, 10},
		{1, 1000, 0, 40},
		{1, 4000, 0, 200},
		{1, 550, 0, 25},
		{1, 700, 150, 25},
		{5, 110, 0, 25},            // the whole pass counts, not one request
		{1, 2500, 0, 120},          // halfway
		{1, 7000, 0, 360},          // beyond the last point: its segment goes on
		{1, 10, 0, 7},              // before the first one too
		{1, 30, 30, 0},             // nothing new
		{1, 30, 40, 0},             // nor here
		{1, 1, 0, 6.7},             // 10 - 99/30
		{100_000, 1000, 999, 5320}, // 100000 tokens
	} {
		got := g.PrefillMs(PrefillShape{Requests: c.requests, MeanISL: c.isl, MeanPrefix: c.prefix})
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d requests, %d tokens from %d: got %v, want %v", c.requests, c.isl, c.prefix, got, c.want)
		}
	}
}

func TestGridDecode(t *testing.T) {
	g := mustGrid(t, fixture())
	for _, c := range []struct {
		active, context int
		want            float64
	}{
		{0, 1, 5},
		{5000, 1000, 9},
		{20000, 3000, 25},
		{2500, 1, 6},
		{2500, 1000, 7.5},
		{2500, 2000, 8.75},
		{12500, 2000, 16},
		{35000, 1, 23},    // beyond the last number of tokens
		{0, 5000, 10},     // beyond the last context
		{35000, 5000, 49}, // beyond both: 27 at 1000, 38 at 3000
		{5000, 0, 6.997997997997998},
	} {
		got := g.DecodeMs(DecodeShape{Requests: 7, ActiveTokens: c.active, TotalTokens: 1 << 20,
			MeanContext: c.context})
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d tokens, context %d: got %v, want %v", c.active, c.context, got, c.want)
		}
	}
}

func TestGridClamps(t *testing.T) {
	falling := mustGrid(t, Tables{
		PrefillISL: []float64{1000, 2000}, PrefillTTFTMs: []float64{5, 50},
		DecodeActiveKVTokens: []float64{1000, 2000}, DecodeContextLength: []float64{1000, 2000},
		DecodeITLMs: []float64{2, 3, 20, 30},
	})
	if got := falling.PrefillMs(PrefillShape{Requests: 1, MeanISL: 100}); got != 0 {
		t.Errorf("prefill before the axis: got %v, want 0", got)
	}
	if got := falling.DecodeMs(DecodeShape{Requests: 1, ActiveTokens: 128, MeanContext: 100}); got != 1 {
		t.Errorf("decode before the axes: got %v, want 1", got)
	}
	holes := fixture()
	holes.PrefillTTFTMs[1], holes.DecodeITLMs[4] = math.NaN(), math.NaN()
	g := mustGrid(t, holes)
	if got := g.PrefillMs(PrefillShape{Requests: 1, MeanISL: 900}); got != 0 {
		t.Errorf("prefill without a number: got %v, want 0", got)
	}
	if got := g.DecodeMs(DecodeShape{Requests: 1, ActiveTokens: 5000, MeanContext: 1000}); got != 1 {
		t.Errorf("decode without a number: got %v, want 1", got)
	}
}

func TestGridRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Tables)
		want   string
	}{
		{func(t *Tables) { t.PrefillISL = t.PrefillISL[:1] }, "prefill_isl: got 1 values, want at least two"},
		{func(t *Tables) { t.PrefillISL = nil }, "prefill_isl: got 0 values, want at least two"},
		{func(t *Tables) { t.PrefillISL[2] = 1000 },
			"prefill_isl: got 1000 after 1000 at index 2, want values that increase"},
		{func(t *Tables) { t.DecodeContextLength[1] = math.NaN() },
			"decode_context_length: got NaN after 1 at index 1, want values that increase"},
		{func(t *Tables) { t.DecodeActiveKVTokens[2] = math.Inf(1) },
			"decode_active_kv_tokens: got +Inf at index 2, want finite values"},
		{func(t *Tables) { t.PrefillTTFTMs = t.PrefillTTFTMs[1:] },
			"prefill_ttft_ms: got 2 values, want 3, one for each prefill_isl"},
		{func(t *Tables) { t.PrefillTTFTMs[0] = math.Inf(-1) },
			"prefill_ttft_ms: got -Inf at index 0, want finite values"},
		{func(t *Tables) { t.DecodeITLMs = t.DecodeITLMs[1:] },
			"decode_itl: got 8 values, want 9, one for each pair of"},
	} {
		tables := fixture()
		c.change(&tables)
		if _, err := NewGrid(tables); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func BenchmarkGridDecode(b *testing.B) {
	axis := make([]float64, 100)
	for i := range axis {
		axis[i] = float64(i * 1000)
	}
	g, err := NewGrid(Tables{axis, axis, axis, axis, make([]float64, len(axis)*len(axis))})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		g.DecodeMs(DecodeShape{Requests: 1, ActiveTokens: i & 0xffff, MeanContext: i & 0xfff})
	}
}
