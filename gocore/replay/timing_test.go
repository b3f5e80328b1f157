package replay

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/report"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
	"dynosim/gocore/workload"
)

// tokenTimes runs requests of unshared tokens that all arrive at 0, given as input and output length, and returns when
// each of them got its first and its last token.
func tokenTimes(t *testing.T, args string, setup func(engine.Role, int) engine.Setup, requests ...[2]int) (first,
	last []float64) {
	t.Helper()
	var rows strings.Builder
	id := 0
	for _, r := range requests {
		var ids []string
		for range (r[0] + 511) / 512 {
			ids = append(ids, fmt.Sprint(id))
			id++
		}
		fmt.Fprintf(&rows, `{"timestamp":0,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", r[0], r[1],
			strings.Join(ids, ","))
	}
	parsed := enginetest.Args(t, args)
	w, err := workload.LoadMooncake(strings.NewReader(rows.String()), "t.jsonl",
		workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: parsed.BlockSize})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Args: parsed, Workers: 1, Workload: w, MaxSimTimeMs: math.Inf(1), Setup: setup}
	table := mustRun(t, cfg).Collector.Rows(w)
	first, _ = table.Floats("first_token_ms")
	last, _ = table.Floats("last_token_ms")
	return first, last
}

// TestGridVectors compares with runs of the reference with the same profile.
func TestGridVectors(t *testing.T) {
	tables := timing.Tables{
		PrefillISL:           []float64{100, 1000, 4000},
		PrefillTTFTMs:        []float64{10, 40, 200},
		DecodeActiveKVTokens: []float64{0, 5000, 20000},
		DecodeContextLength:  []float64{1, 1000, 3000},
		DecodeITLMs:          []float64{5, 6, 8, 7, 9, 12, 15, 18, 25},
	}
	grid, err := timing.NewGrid(tables)
	if err != nil {
		t.Fatal(err)
	}
	setup := func(engine.Role, int) engine.Setup { return engine.Setup{Model: grid} }
	for _, c := range []struct {
		input       int
		first, last float64
	}{
		{1, 11.7256, 21.779842000000002},
		{50, 13.40861, 23.562206},
		{100, 15.152836, 25.461588000000003},
		{640, 33.977514, 46.003541999999996},
		{1000, 46.6144, 59.846507},
		{2500, 129.42, 148.263768},
		{4000, 212.6288, 237.890609},
		{7000, 380.856, 422.573316},
	} {
		if first, last := tokenTimes(t, "{}", setup, [2]int{c.input, 3}); first[0] != c.first || last[0] != c.last {
			t.Errorf("%d tokens: got first %v, last %v, want %v, %v", c.input, first[0], last[0], c.first, c.last)
		}
	}
	if first, _ := tokenTimes(t, "{}", setup, [2]int{1000, 1}, [2]int{501, 1}); first[0] != 73.26114 ||
		first[1] != 73.26114 {
		t.Errorf("two prompts: got %v, want 73.26114 for both", first)
	}
	tables.PrefillTTFTMs[1] = math.NaN()
	if first, _ := tokenTimes(t, "{}", setup, [2]int{900, 1}); first[0] != 6.456681 {
		t.Errorf("no number in the table: got %v, want 6.456681", first)
	}
}

// drafting returns a setup of workers that decode speculatively.
func drafting(seed uint64, rates ...float64) func(engine.Role, int) engine.Setup {
	return func(_ engine.Role, worker int) engine.Setup {
		return engine.Setup{Drafts: speculation.New(rates, seed+uint64(worker))}
	}
}

// TestBurstVectors compares with runs of the reference.
func TestBurstVectors(t *testing.T) {
	for _, c := range []struct {
		setup  func(engine.Role, int) engine.Setup
		output int
		last   float64
	}{
		{drafting(42, 0.85, 0.3), 30, 113.21052500000003},
		{drafting(42, 0.5), 40, 182.74621599999992},
		{drafting(7, 0.9, 1, 0.5), 50, 119.02300300000003},
	} {
		first, last := tokenTimes(t, "{}", c.setup, [2]int{1000, c.output})
		if first[0] != 37.898579000000005 || last[0] != c.last {
			t.Errorf("%d tokens: got first %v, last %v, want 37.898579000000005, %v", c.output, first[0], last[0],
				c.last)
		}
	}
}

// TestBurstReport: tokens of one burst are no time apart, and the time per token is over all of them. All drafts are
// accepted, so 7 tokens come in bursts of 3, 3 and 1.
func TestBurstReport(t *testing.T) {
	cfg := config(t, `{"block_size":4}`, `{"timestamp":0,"input_length":8,"output_length":7,"hash_ids":[1,2]}`+"\n", 1,
		0)
	cfg.Setup = drafting(1, 1, 1)
	c := mustRun(t, cfg).Collector
	rows := c.Rows(cfg.Workload)
	value := func(column string) float64 {
		values, _ := rows.Floats(column)
		return values[0]
	}
	first, last := value("first_token_ms"), value("last_token_ms")
	if got := value("ttst_ms"); got != 0 {
		t.Errorf("time to the second token: got %v, want 0", got)
	}
	if got, want := value("itl_ms"), (last-first)/6; got != want || want <= 0 {
		t.Errorf("time per token: got %v, want %v", got, want)
	}
	summary := map[string]float64{}
	for _, v := range c.Summarise(report.Resources{}, report.NoSLA()) {
		summary[v.Key] = v.Float
	}
	if got, want := summary["mean_itl_ms"], (last-first)/6; math.Abs(got-want) > 1e-12 {
		t.Errorf("mean gap: got %v, want %v", got, want)
	}
	if got := summary["median_itl_ms"]; got != 0 {
		t.Errorf("median gap: got %v, want 0: four of six are", got)
	}
	if got := summary["min_output_token_throughput_per_user"]; got < 100 || got > 200 {
		t.Errorf("tokens per second and user: got %v, want that of whole passes, gaps of 0 left out", got)
	}
}

// TestAskedModel: workers share the answers of the caller; an error ends the run at the next poll.
func TestAskedModel(t *testing.T) {
	same := timing.Polynomial{}
	questions := map[timing.Question]int{}
	var trouble error
	ask := func(batch []timing.Question) ([]timing.Answer, error) {
		answers := make([]timing.Answer, len(batch))
		for i, q := range batch {
			questions[q]++
			answers[i].Ms = same.PrefillMs(timing.PrefillShape{Requests: q.Batch, MeanISL: q.Prefix + q.Tokens,
				MeanPrefix: q.Prefix})
		}
		return answers, trouble
	}
	cfg := config(t, `{"block_size":4}`, randomTrace(3), 3, 0)
	run := func() (Outcome, error) {
		model := timing.NewAsked(1, ask)
		cfg.Setup = func(engine.Role, int) engine.Setup { return engine.Setup{Model: model} }
		cfg.Poll = func(float64, int) error { return model.Err() }
		return Run(cfg)
	}
	if _, err := run(); err != nil {
		t.Fatal(err)
	}
	for q, times := range questions {
		if times > 1 {
			t.Errorf("%v: asked %d times", q, times)
		}
	}
	if len(questions) < 10 {
		t.Errorf("only %d questions", len(questions))
	}
	trouble = errors.New("the other side is gone")
	if _, err := run(); !errors.Is(err, trouble) {
		t.Errorf("got %v, want %v", err, trouble)
	}
}
