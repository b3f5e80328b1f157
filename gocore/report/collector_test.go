package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
)

// slowRequest is what a request went through, with the time of every token.
type slowRequest struct {
	arrivalMs, admitMs             float64
	admitted, arrived              bool
	input, output, reused, first   int
	tokensMs                       []float64
	rejected, emitting, terminated bool
	single                         bool // some token came by itself
}

// lives plays random lives of requests on several workers: arrivals, admissions, tokens, bursts of tokens, tokens that
// come by themselves, pauses (a preemption or a starved budget), ends, rejections, and requests cut off at the end. It
// feeds a Collector the way a shell does, and keeps every token time itself.
func lives(rng *rand.Rand) (*Collector, []slowRequest) {
	const requests, workers = 12, 2
	c, all := NewCollector(requests, workers), make([]slowRequest, requests)
	clock := make([]float64, workers)
	for pass := range 60 {
		worker := rng.IntN(workers)
		p := engine.Pass{StartMs: clock[worker]}
		p.EndMs = p.StartMs + float64(rng.IntN(4))*1.37 // sometimes no time passes
		clock[worker] = p.EndMs
		var gone []engine.RequestID
		singles := rng.IntN(4) == 0
		for i := worker; i < requests; i += workers {
			if singles && all[i].emitting {
				continue
			}
			if id, over := live(rng, c, &p, all, i, worker, pass, singles); over {
				gone = append(gone, id)
			}
		}
		c.Pass(worker, &p)
		for _, id := range gone {
			c.Terminal(id, Completed, "")
			all[id].terminated = true
		}
		for _, r := range p.Rejected {
			c.Terminal(r.ID, Rejected, r.Reason)
			all[r.ID].rejected, all[r.ID].terminated = true, true
		}
	}
	for i := range all {
		if all[i].arrived && !all[i].terminated {
			c.Cut(engine.RequestState{ID: engine.RequestID(i), Generated: len(all[i].tokensMs)})
		}
	}
	return c, all
}

// live does what happens to request i in one pass of its worker; it reports whether the request finishes with it.
func live(rng *rand.Rand, c *Collector, p *engine.Pass, all []slowRequest, i, worker, pass int,
	singles bool) (engine.RequestID, bool) {
	r, id := &all[i], engine.RequestID(i)
	switch {
	case r.terminated || rng.IntN(8) == 0:
		r.emitting = false // it is passed over in this pass
		return id, false
	case !r.arrived:
		if pass < 2*i {
			return id, false
		}
		r.arrived, r.arrivalMs = true, p.StartMs-rng.Float64()
		r.input, r.output = 1+rng.IntN(20), 1+rng.IntN(30)
		c.Arrival(engine.Request{ID: id, PromptTokens: r.input, OutputTokens: r.output}, r.arrivalMs)
		c.Worker(id, worker)
		return id, false
	case !r.admitted || !r.emitting && rng.IntN(3) == 0:
		if rng.IntN(12) == 0 && !r.single {
			p.Rejected = append(p.Rejected, engine.Rejection{ID: id, Reason: "too large"})
			return id, false
		}
		reused := rng.IntN(r.input)
		if !r.admitted {
			r.admitted, r.admitMs, r.first = true, p.StartMs, reused
		}
		r.reused = max(r.reused, reused)
		r.emitting = false
		p.Admitted = append(p.Admitted, engine.Admission{ID: id, ReusedTokens: reused})
		if rng.IntN(2) == 0 {
			return id, false
		}
	}
	switch {
	case singles:
		p.Singles = append(p.Singles, engine.TokenRun{ID: id, Index: len(r.tokensMs)})
		r.single = true
	case !r.emitting:
		p.Started = append(p.Started, engine.TokenRun{ID: id, Index: len(r.tokensMs)})
		r.emitting = true
	}
	tokens := 1
	if rng.IntN(4) == 0 && !singles {
		tokens = min(1+rng.IntN(3), r.output-len(r.tokensMs))
	}
	if tokens > 1 {
		p.Bursts = append(p.Bursts, engine.Burst{ID: id, Tokens: tokens})
	}
	p.Tokens += tokens
	for range tokens {
		r.tokensMs = append(r.tokensMs, p.EndMs)
	}
	if len(r.tokensMs) < r.output {
		return id, false
	}
	p.Finished = append(p.Finished, id)
	return id, true
}

// TestCollectorAgainstTokenLists compares all of a report with one computed from lists of token times.
func TestCollectorAgainstTokenLists(t *testing.T) {
	multi, cut, rejected := 0, 0, 0
	for seed := range uint64(300) {
		c, all := lives(rand.New(rand.NewPCG(seed, 0)))
		sla := SLA{TTFTMs: 6, ITLMs: 2.5, E2EMs: math.NaN()}
		got := map[string]float64{}
		for _, v := range c.Summarise(Resources{DecodeWorkerSeconds: 3, DecodeGPUsPerWorker: 2, WallMs: 7}, sla) {
			got[v.Key] = v.Float + float64(v.Int)
		}
		for key, want := range slowReport(all, sla) {
			if !(math.Abs(got[key]-want) <= 1e-11*max(1, math.Abs(want))) &&
				!(math.IsNaN(got[key]) && math.IsNaN(want)) {
				t.Fatalf("seed %d: %s: got %v, want %v", seed, key, got[key], want)
			}
		}
		for _, r := range all {
			if r.rejected && len(r.tokensMs) > 0 {
				rejected++
			}
			if !r.terminated && len(r.tokensMs) > 0 {
				cut++
			}
			if len(r.tokensMs) > 1 {
				multi++
			}
		}
	}
	if multi < 1000 || cut < 100 || rejected < 10 {
		t.Errorf("too few interesting lives: %d of several tokens, %d cut, %d rejected after a token", multi, cut,
			rejected)
	}
}

// slowReport returns the definition of the keys, one request and one token at a time.
func slowReport(all []slowRequest, sla SLA) map[string]float64 {
	want := map[string]float64{"prefill_worker_seconds": 0, "decode_worker_seconds": 3, "decode_gpus_per_worker": 2,
		"gpu_hours": 3 * 2 / 3600.0, "wall_time_ms": 7}
	groups := map[string][]float64{}
	add := func(group string, v float64) { groups[group] = append(groups[group], v) }
	var input, output, reused, first, good, goodOutput, count, duration float64
	for _, r := range all {
		if r.arrived {
			want["num_requests"]++
		}
		if r.rejected {
			want["rejected_requests"]++
		} else if r.terminated {
			want["finished_requests"]++
		}
		if n := len(r.tokensMs); n == 0 || !r.admitted || r.rejected {
			continue
		}
		count++
		input, output = input+float64(r.input), output+float64(r.output)
		reused, first = reused+float64(r.reused), first+float64(r.first)
		last := r.tokensMs[len(r.tokensMs)-1]
		duration = max(duration, last)
		ttft, e2e := r.tokensMs[0]-r.arrivalMs, last-r.arrivalMs
		add("ttft_ms", ttft)
		add("e2e_latency_ms", e2e)
		for i := 1; i < len(r.tokensMs); i++ {
			gap := r.tokensMs[i] - r.tokensMs[i-1]
			add("itl_ms", gap)
			if gap > 0 {
				add("output_token_throughput_per_user", 1000/gap)
			}
		}
		if n := len(r.tokensMs); n > 1 {
			add("ttst_ms", r.tokensMs[1]-r.tokensMs[0])
			add("tpot_ms", (last-r.tokensMs[0])/float64(n-1))
		}
		if ttft <= sla.TTFTMs && (r.output == 1 || (e2e-ttft)/float64(r.output-1) <= sla.ITLMs) {
			good++
			goodOutput += float64(r.output)
		}
	}
	for _, group := range []string{"ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms",
		"output_token_throughput_per_user"} {
		for i, v := range naiveStatistics(groups[group]) {
			if count == 0 {
				v = math.NaN()
			}
			want[fmt.Sprintf("%s_%s", statNames[i], group)] = v
		}
		want["count_"+group] = float64(len(groups[group]))
	}
	seconds := max(duration/1000, 1e-9)
	for key, v := range map[string]float64{
		"completed_requests": count, "total_input_tokens": input, "total_output_tokens": output,
		"duration_ms":            duration,
		"request_throughput_rps": count / seconds, "input_throughput_tok_s": input / seconds,
		"output_throughput_tok_s": output / seconds, "total_throughput_tok_s": (input + output) / seconds,
		"goodput_completed_requests": good, "goodput_request_throughput_rps": good / seconds,
		"goodput_output_throughput_tok_s": goodOutput / seconds,
		"processed_tokens":                input + output, "processed_tokens_per_s": (input + output) / 7 * 1000,
		"processed_output_tokens_per_s": output / 7 * 1000,
		"prefix_cache_reused_ratio":     reused / input, "first_admission_prefix_cache_reused_ratio": first / input,
	} {
		want[key] = v
	}
	return want
}

// TestEmptyReport: a run without a single token still has all keys. Sums and rates are 0; there are no statistics.
func TestEmptyReport(t *testing.T) {
	c := NewCollector(2, 1)
	c.Arrival(engine.Request{ID: 0, PromptTokens: 4, OutputTokens: 1}, 5)
	c.Worker(0, 0)
	c.Pass(0, &engine.Pass{StartMs: 5, EndMs: 5, Rejected: []engine.Rejection{{ID: 0, Reason: "x"}}})
	c.Terminal(0, Rejected, "x")
	for _, v := range c.Summarise(Resources{}, NoSLA()) {
		want := 0.0
		if v.Key == "num_requests" || v.Key == "rejected_requests" {
			want = 1
		}
		statistic := slices.ContainsFunc(statNames[:],
			func(name string) bool { return strings.HasPrefix(v.Key, name+"_") })
		if got := v.Float + float64(v.Int); statistic || strings.HasSuffix(v.Key, "_ratio") {
			if !math.IsNaN(got) {
				t.Errorf("%s: got %v, want none", v.Key, v)
			}
		} else if got != want {
			t.Errorf("%s: got %v", v.Key, v)
		}
	}
	if c.Finished() != 1 || c.DurationMs() != 0 {
		t.Errorf("got %d finished, %v ms", c.Finished(), c.DurationMs())
	}
}

// TestReportKeys fixes names and order.
func TestReportKeys(t *testing.T) {
	want := []string{"num_requests", "completed_requests", "rejected_requests", "finished_requests",
		"total_input_tokens", "total_output_tokens", "duration_ms",
		"wall_time_ms", "request_throughput_rps", "input_throughput_tok_s", "output_throughput_tok_s",
		"total_throughput_tok_s",
		"prefill_worker_seconds", "decode_worker_seconds", "prefill_gpus_per_worker", "decode_gpus_per_worker",
		"gpu_hours", "timing_model",
		"goodput_completed_requests", "goodput_request_throughput_rps", "goodput_output_throughput_tok_s",
		"processed_tokens",
		"processed_tokens_per_s", "processed_output_tokens_per_s", "prefix_cache_reused_ratio",
		"first_admission_prefix_cache_reused_ratio"}
	for _, group := range []string{"ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms",
		"output_token_throughput_per_user"} {
		for _, stat := range []string{"mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std"} {
			want = append(want, stat+"_"+group)
		}
		want = append(want, "count_"+group)
	}
	keys := func(sla SLA) []string {
		var got []string
		for _, v := range NewCollector(0, 1).Summarise(Resources{}, sla) {
			got = append(got, v.Key)
		}
		return got
	}
	for _, sla := range []SLA{{1, math.NaN(), math.NaN()}, {math.NaN(), 1, math.NaN()}, {math.NaN(), math.NaN(), 1}} {
		if got := keys(sla); !slices.Equal(got, want) {
			t.Errorf("with %v: got %v", sla, got)
		}
	}
	if got := keys(NoSLA()); !slices.Equal(got, slices.Delete(want, 18, 21)) {
		t.Errorf("without bounds: got %v", got)
	}
}
