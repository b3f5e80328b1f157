package workload

import (
	"math"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

func mustGenerate(t testing.TB, spec SyntheticSpec) *Workload {
	t.Helper()
	w, err := Synthetic(spec)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// smallSpec describes six requests of five 4-token blocks each.
func smallSpec() SyntheticSpec {
	return SyntheticSpec{InputTokens: 20, OutputTokens: 2, RequestCount: 6, ArrivalIntervalMs: 100, TurnsPerSession: 1,
		EngineBlockSize: 4}
}

func starts(w *Workload) []float64 {
	var all []float64
	for _, s := range w.Sessions {
		all = append(all, s.StartMs)
	}
	return all
}

func TestSyntheticArrivals(t *testing.T) {
	const interval = 1000.1
	spec := smallSpec()
	spec.RequestCount, spec.ArrivalIntervalMs = 12, interval
	products, sums := make([]float64, 12), make([]float64, 12)
	gap := 1000 / (1000 / interval)
	for i := range products {
		products[i] = float64(i) * interval
		if i > 0 {
			sums[i] = sums[i-1] + gap
		}
	}
	if slices.Equal(products, sums) {
		t.Fatal("the interval does not tell the two generators apart")
	}
	for name, c := range map[string]struct {
		change func(*SyntheticSpec)
		want   []float64
	}{
		"plain":       {func(*SyntheticSpec) {}, products},
		"turns":       {func(s *SyntheticSpec) { s.TurnsPerSession = 2 }, sums},
		"ratio alone": {func(s *SyntheticSpec) { s.SharedPrefixRatio = 0.5 }, sums},
		"groups":      {func(s *SyntheticSpec) { s.NumPrefixGroups = 1 }, sums},
		"delay":       {func(s *SyntheticSpec) { s.InterTurnDelayMs = 1 }, sums},
		"no interval": {func(s *SyntheticSpec) { s.ArrivalIntervalMs, s.NumPrefixGroups = 0, 1 }, make([]float64, 12)},
	} {
		changed := spec
		c.change(&changed)
		if got := starts(mustGenerate(t, changed)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestSyntheticTurns(t *testing.T) {
	spec := smallSpec()
	spec.RequestCount, spec.TurnsPerSession, spec.InterTurnDelayMs = 2, 3, 50
	got := describe(mustGenerate(t, spec))
	want := []string{ // every prompt is new and equally long
		"request_1.0 line 1 @0 20->2 [0 1 2 3 4]", "request_1.1 line 2 +50 20->2 [5 6 7 8 9]",
		"request_1.2 line 3 +50 20->2 [10 11 12 13 14]",
		"request_4.0 line 4 @100 20->2 [15 16 17 18 19]", "request_4.1 line 5 +50 20->2 [20 21 22 23 24]",
		"request_4.2 line 6 +50 20->2 [25 26 27 28 29]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// prefixes counts the distinct first blocks, and the blocks that each pair of turns shares must be none or shared.
func prefixes(t *testing.T, w *Workload, shared int) int {
	t.Helper()
	var all [][]kvcache.BlockID
	first := map[kvcache.BlockID]bool{}
	for i := range w.Turns {
		blocks := fullBlocks(&w.Turns[i], 4)
		first[blocks[0]] = true
		for _, other := range all {
			common := 0
			for common < len(blocks) && blocks[common] == other[common] {
				common++
			}
			if common != 0 && common != shared {
				t.Fatalf("%v and %v share %d blocks, want 0 or %d", blocks, other, common, shared)
			}
			for _, id := range blocks[common:] {
				if slices.Contains(other, id) {
					t.Fatalf("%v and %v share block %d although not all before it", blocks, other, id)
				}
			}
		}
		all = append(all, blocks)
	}
	return len(first)
}

func TestSyntheticSharing(t *testing.T) {
	for _, c := range []struct {
		name          string
		tokens        int
		ratio         float64
		groups        int
		shared        int // blocks
		wantDifferent int
	}{
		{"a ratio without groups shares nothing", 20, 0.5, 0, 0, 200},
		{"groups without a ratio share nothing", 20, 0, 3, 0, 200},
		{"2.5 of 5 blocks is 3", 20, 0.5, 1, 3, 1},
		{"1.5 of 5 blocks is 2", 20, 0.3, 1, 2, 1},
		{"1.45 of 5 blocks is 1", 20, 0.29, 1, 1, 1},
		{"0.45 of 5 blocks is none", 20, 0.09, 1, 0, 200},
		{"all of them", 20, 1, 1, 5, 1},
		{"the partial block counts", 18, 0.5, 1, 3, 1}, // 4 full blocks and half of one
		{"each group has its own prefix", 20, 0.5, 8, 3, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := smallSpec()
			spec.InputTokens, spec.RequestCount, spec.SharedPrefixRatio, spec.NumPrefixGroups = c.tokens, 200, c.ratio,
				c.groups
			w := mustGenerate(t, spec)
			if got := prefixes(t, w, c.shared); got != c.wantDifferent {
				t.Errorf("got %d different prefixes, want %d", got, c.wantDifferent)
			}
		})
	}
}

func TestSyntheticSessionKeepsItsGroup(t *testing.T) {
	spec := smallSpec()
	spec.RequestCount, spec.TurnsPerSession, spec.SharedPrefixRatio, spec.NumPrefixGroups = 50, 3, 0.5, 4
	w := mustGenerate(t, spec)
	groups := map[kvcache.BlockID]int{}
	for i := range w.Turns {
		turn := &w.Turns[i]
		first := turn.Prompt.Block(0)
		groups[first]++
		if first != w.Turns[w.Sessions[turn.Session].First].Prompt.Block(0) {
			t.Errorf("turn %d left its session's group", i)
		}
	}
	if len(groups) != 4 {
		t.Errorf("got %d groups", len(groups))
	}
	if again := mustGenerate(t, spec); !slices.Equal(describe(w), describe(again)) {
		t.Error("generated twice, two workloads")
	}
}

func TestSyntheticLimits(t *testing.T) {
	many := smallSpec()
	many.RequestCount, many.TurnsPerSession = math.MaxInt32, 2
	blocks := smallSpec()
	blocks.SharedPrefixRatio, blocks.NumPrefixGroups = 0.5, math.MaxInt32
	for want, spec := range map[string]SyntheticSpec{
		"request_count: got 2147483647 with turns_per_session 2, want at most 33554432 requests in all": many,
		"request_count: got 6, with turns_per_session 1, num_prefix_groups 2147483647 and prompts of 20 tokens in " +
			"blocks of 4 the workload has more than 4294967295 distinct blocks, the limit": blocks,
	} {
		if _, err := Synthetic(spec); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPlainNumbersAreNotDrawn(t *testing.T) {
	spec := smallSpec()
	spec.TurnsPerSession, spec.SharedPrefixRatio, spec.NumPrefixGroups = 2, 0.5, 3
	want := describe(mustGenerate(t, spec))
	spec.InputLengths, spec.OutputLengths = mustParse(t, "20"), mustParse(t, "2")
	spec.InputTokens, spec.OutputTokens = 0, 0
	if got := describe(mustGenerate(t, spec)); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestStreamsAreIndependent changes one thing that is drawn and expects the others to stay.
func TestStreamsAreIndependent(t *testing.T) {
	spec := smallSpec()
	spec.RequestCount, spec.TurnsPerSession = 40, 2
	spec.InputLengths, spec.OutputLengths = mustParse(t, "uniform(1,50)"), mustParse(t, "lognormal(mean=50,cv=1)")
	spec.Arrivals, spec.Seed = Arrivals{Process: Poisson, RequestRate: 2}, 9
	lengths := func(w *Workload) (in, out []int) {
		for i := range w.Turns {
			in, out = append(in, w.Turns[i].InputTokens), append(out, w.Turns[i].OutputTokens)
		}
		return in, out
	}
	w := mustGenerate(t, spec)
	in, out := lengths(w)

	changed := spec
	changed.InputLengths = mustParse(t, "normal(mean=9,std=3)")
	changed.Arrivals = Arrivals{Process: Gamma, RequestRate: 2, CV: 2}
	other := mustGenerate(t, changed)
	otherIn, otherOut := lengths(other)
	if slices.Equal(in, otherIn) || !slices.Equal(out, otherOut) || slices.Equal(starts(w), starts(other)) {
		t.Error("outputs must not depend on inputs or arrivals")
	}
	changed = spec
	changed.Seed = 10
	otherIn, otherOut = lengths(mustGenerate(t, changed))
	if slices.Equal(in, otherIn) || slices.Equal(out, otherOut) || slices.Equal(in, out) {
		t.Error("another seed, the same lengths")
	}
	if again := mustGenerate(t, spec); !slices.Equal(describe(w), describe(again)) {
		t.Error("generated twice, two workloads")
	}
}

// TestSharingWithDrawnLengths checks that every prompt begins with as much of its group's prefix as its own length
// says, and shares nothing else.
func TestSharingWithDrawnLengths(t *testing.T) {
	spec := smallSpec()
	spec.RequestCount, spec.SharedPrefixRatio, spec.NumPrefixGroups = 200, 0.5, 3
	spec.InputLengths = mustParse(t, "uniform(1,60)")
	w := mustGenerate(t, spec)
	prefix := map[kvcache.BlockID][]kvcache.BlockID{}
	shared := func(turn *Turn) int {
		return min(turn.InputTokens/4, int(math.Round(float64((turn.InputTokens+3)/4)*0.5)))
	}
	for i := range w.Turns {
		turn := &w.Turns[i]
		if blocks := fullBlocks(turn, 4)[:shared(turn)]; len(blocks) > 0 && len(blocks) > len(prefix[blocks[0]]) {
			prefix[blocks[0]] = blocks
		}
	}
	if len(prefix) != 3 {
		t.Fatalf("got %d groups", len(prefix))
	}
	own := map[kvcache.BlockID]bool{}
	for i := range w.Turns {
		turn := &w.Turns[i]
		blocks, count := fullBlocks(turn, 4), shared(turn)
		if count > 0 && !slices.Equal(blocks[:count], prefix[blocks[0]][:count]) {
			t.Errorf("turn %d: %v does not begin with a group's prefix", i, blocks)
		}
		for _, id := range blocks[count:] {
			if own[id] {
				t.Errorf("turn %d: block %d belongs to two prompts", i, id)
			}
			own[id] = true
		}
	}
}

func TestDrawnLengthsWithoutSharing(t *testing.T) {
	spec := smallSpec()
	spec.RequestCount, spec.InputLengths = 100, mustParse(t, "uniform(1,60)")
	seen := map[kvcache.BlockID]bool{}
	w := mustGenerate(t, spec)
	for i := range w.Turns {
		for _, id := range fullBlocks(&w.Turns[i], 4) {
			if seen[id] {
				t.Fatalf("turn %d: block %d belongs to two prompts", i, id)
			}
			seen[id] = true
		}
	}
	checkSaved(t, w, 4)
}
