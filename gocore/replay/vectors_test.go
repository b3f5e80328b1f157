package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dynosim/gocore/planner"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
)

// watcher keeps passes and traffic of its ticks, and sets the workers at some of them.
type watcher struct {
	atMs    []float64
	targets map[float64]int // by time of the tick
	passes  []planner.Pass
	traffic []planner.Traffic
	active  []int
}

func (*watcher) Wants() planner.Wants { return planner.Wants{Passes: true} }

func (w *watcher) InitialTickMs() (float64, error) { return w.atMs[0], nil }

func (w *watcher) OnTick(t *planner.Tick) (planner.Decision, error) {
	w.passes = append(w.passes, t.Decode.Passes...)
	w.traffic = append(w.traffic, t.Traffic)
	w.active = append(w.active, t.Decode.Active)
	d := planner.Decision{Prefill: planner.Unchanged, Decode: planner.Unchanged, NextMs: math.Inf(1)}
	if target, ok := w.targets[t.NowMs]; ok {
		d.Decode = target
	}
	if n := len(w.traffic); n < len(w.atMs) {
		d.NextMs = w.atMs[n]
	}
	return d, nil
}

// watched runs one worker with a watcher.
func watched(t *testing.T, w *watcher, engineArgs, rows string, change func(*Config)) Outcome {
	t.Helper()
	cfg := config(t, engineArgs, rows, 1, 0)
	cfg.Planner = w
	if change != nil {
		change(&cfg)
	}
	return mustRun(t, cfg)
}

// kv puts the KV-aware router in front of the workers.
func kv(t *testing.T, text string) func(*Config) {
	t.Helper()
	parsed, _, err := router.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *Config) {
		cfg.Router = kvMode.Factory(&router.Options{
			Config: parsed, BlockSize: cfg.Args.BlockSize, MaxNumBatchedTokens: cfg.Args.MaxNumBatchedTokens,
			Rand: rand.New(rand.NewPCG(1, 3)),
		})
	}
}

const blocksOf64 = `{"block_size":64,"num_gpu_blocks":1024}`

// row returns a row of a trace with given blocks.
func row(at, input, output int, ids ...string) string {
	return fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", at, input, output,
		strings.Join(ids, ","))
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The values in these tests were recorded from runs of the reference.

// TestWindows: a tick at the end of a pass sees the pass and not yet the completion of its request; one at an arrival
// sees no more of it.
func TestWindows(t *testing.T) {
	w := &watcher{atMs: []float64{24.297188, 30.142578, 50}}
	var passes []int
	watched(t, w, blocksOf64, requests([3]int{0, 128, 2}, [3]int{50, 128, 2}), nil)
	near(t, "length of the first window", w.traffic[0].DurationS(), 0.024297188)
	for i := range w.traffic {
		passes = append(passes, w.traffic[i].Forwards)
	}
	if fmt.Sprint(passes) != "[1 0 1]" || w.traffic[0].Requests != 0 || w.traffic[2].Requests != 1 {
		t.Errorf("got forwards %v and %+v", passes, w.traffic)
	}
	near(t, "TTFT", w.traffic[2].TTFTSumMs, 24.297188)
	near(t, "ITL", w.traffic[2].ITLSumMs, 5.898011)
}

// TestHitSamples: the part of a prompt that the router finds on the chosen worker counts by blocks, partial ones
// included. A worker that came later has nothing.
func TestHitSamples(t *testing.T) {
	for _, c := range []struct {
		rows    string
		targets map[float64]int
		want    []float64
	}{
		{row(0, 100, 2, "1", "2") + row(100, 100, 2, "1", "3") + row(200, 40, 2, "4") + row(300, 128, 2, "5", "6"), nil,
			[]float64{0, 0.5, 0}},
		{row(0, 128, 2, "1", "2") + row(100, 130, 2, "1", "2", "3") + row(200, 131, 2, "1", "2", "4") +
			row(300, 64, 2, "5"), nil, []float64{0, 2.0 / 3, 2.0 / 3}},
		{row(0, 128, 2, "1", "2") + row(100, 128, 2, "1", "2") + row(220, 128, 2, "1", "2"),
			map[float64]int{190: 0, 200: 1}, []float64{0, 1, 0}},
	} {
		w := &watcher{targets: c.targets}
		for i := range c.want {
			w.atMs = append(w.atMs, float64(100*i+90))
		}
		if c.targets != nil { // the last window ends when the last request has come
			w.atMs = []float64{90, 190, 200, 246}
		}
		watched(t, w, blocksOf64, c.rows, kv(t, `{}`))
		var samples []float64
		for i := range w.traffic {
			if f := &w.traffic[i]; f.Hits == 1 {
				samples = append(samples, f.HitSum)
			} else if f.Hits != 0 {
				t.Errorf("got %d samples in a window, want one", f.Hits)
			}
		}
		if len(samples) != len(c.want) {
			t.Fatalf("got samples %v, want %v", samples, c.want)
		}
		for i := range samples {
			near(t, "hit", samples[i], c.want[i])
		}
		if last := w.passes[len(w.passes)-1].Worker; c.targets != nil && last != 1 {
			t.Errorf("the last pass is of worker %d, want a new one, 1", last)
		}
	}
}

// TestBurstsInTicks: drafts make bursts; the context of a pass is that at its beginning.
func TestBurstsInTicks(t *testing.T) {
	w := &watcher{atMs: []float64{500}}
	watched(t, w, `{"block_size":64,"num_gpu_blocks":1024,"aic_nextn":2,"aic_nextn_accept_rates":"1,0"}`,
		requests([3]int{0, 128, 7}, [3]int{600, 64, 1}), func(cfg *Config) { cfg.Setup = drafting(42, 1, 0) })
	f := w.traffic[0]
	if f.Forwards != 4 || f.Tokens != 7 {
		t.Errorf("got %d tokens in %d forwards, want 7 in 4", f.Tokens, f.Forwards)
	}
	if math.Abs(f.ITLSumMs-2.9490055) > 1e-7 {
		t.Errorf("got an ITL of %v ms", f.ITLSumMs)
	}
	var contexts []int
	for _, p := range w.passes[1:] {
		contexts = append(contexts, p.Scheduled.DecodeKVTokens)
	}
	if fmt.Sprint(contexts) != "[130 132 134]" {
		t.Errorf("got contexts %v", contexts)
	}
}

// TestChunksInTicks: what the two engines count as prefill, decode and queued. A pass is written as
// requests/tokens/cached tokens that it prefills, requests/tokens that it decodes, and requests/tokens that wait.
func TestChunksInTicks(t *testing.T) {
	rows := row(0, 300, 3, "1", "2", "3", "4", "5") + row(0, 100, 2, "1", "6") + row(5, 64, 4, "1") +
		row(6, 200, 1, "7", "8", "9", "10")
	for _, test := range []struct{ engineArgs, want string }{
		{`{"engine_type":"sglang","block_size":64,"num_gpu_blocks":1024,"sglang":{"chunked_prefill_size":128,` +
			`"max_prefill_tokens":128}}`,
			"1/128/0 0/0 2/400 · 1/128/128 0/0 4/664 · 1/44/256 1/300 3/364 · 1/100/64 2/401 2/264"},
		{`{"block_size":64,"num_gpu_blocks":1024,"max_num_batched_tokens":128}`,
			"1/128/0 0/0 1/100 · 1/128/128 0/0 3/364 · 3/128/320 1/64 0/0 · 1/125/48 3/467 0/0"},
	} {
		w := &watcher{atMs: []float64{400}}
		watched(t, w, test.engineArgs, rows+row(900, 64, 1, "20"), nil)
		var shown []string
		for _, p := range w.passes[:4] {
			s, q := &p.Scheduled, &p.Queued
			shown = append(shown, fmt.Sprintf("%d/%d/%d %d/%d %d/%d",
				s.PrefillRequests, s.PrefillTokens, s.PrefillKVTokens, s.DecodeRequests, s.DecodeKVTokens,
				q.PrefillRequests, q.PrefillTokens))
		}
		if got := strings.Join(shown, " · "); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.engineArgs, got, test.want)
		}
	}
}

// TestHeldByPolicy: requests that wait in the router for a worker come to it in the order of the queue policy.
func TestHeldByPolicy(t *testing.T) {
	for policy, want := range map[string]float64{"fcfs": 67.66443075, "lcfs": 64.90865775, "wspt": 63.82142675} {
		w := &watcher{atMs: []float64{35, 60}, targets: map[float64]int{35: 0, 60: 1}}
		cfg := config(t, `{"block_size":64,"num_gpu_blocks":1024,"max_num_seqs":1}`,
			requests([3]int{0, 64, 2}, [3]int{40, 640, 2}, [3]int{41, 64, 2}, [3]int{42, 320, 2}), 1, 0)
		cfg.Planner = w
		kv(t, fmt.Sprintf(`{"router_queue_policy":%q}`, policy))(&cfg)
		outcome := mustRun(t, cfg)
		for _, v := range outcome.Collector.Summarise(report.Resources{}, report.NoSLA()) {
			if v.Key == "mean_ttft_ms" && math.Abs(v.Float-want) > 1e-7 {
				t.Errorf("%s: got a mean TTFT of %v, want %v", policy, v.Float, want)
			}
		}
	}
}
