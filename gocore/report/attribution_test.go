package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"dynosim/gocore/engine"
)

// attributed returns a collector that divides the latencies of requests on one worker.
func attributed(requests int, delayMs float64, cutShort bool) *Collector {
	c := NewCollector(requests, 1)
	c.Attribute(requests, func(engine.RequestID) float64 { return delayMs }, cutShort)
	return c
}

// send has a request arrive at a router, which sends it on later.
func send(c *Collector, id engine.RequestID, arrivalMs, sentMs float64, tokens int) {
	c.Arrival(engine.Request{ID: id, PromptTokens: 10, OutputTokens: tokens}, arrivalMs)
	c.Worker(id, 0)
	c.Spends(id, WorkerWait, sentMs)
}

// pass returns a pass whose length is the sum of its parts, in which these requests emit a token.
func pass(startMs float64, parts engine.Parts, p engine.Pass) *engine.Pass {
	p.StartMs, p.EndMs = startMs, startMs+parts.PromptMs+parts.DecodeMs+parts.HostMs
	for _, id := range parts.Joined {
		p.Admitted = append(p.Admitted, engine.Admission{ID: id})
	}
	p.Parts = &parts
	return &p
}

// divided lists the parts of a request that are not 0, of the time to first token and of the whole.
func divided(t *testing.T, c *Collector, id engine.RequestID) string {
	t.Helper()
	if off := c.Undivided(); off > 1e-12 {
		t.Errorf("parts are off by %g", off)
	}
	c.Summarise(Resources{}, NoSLA())
	q := &c.attribution.requests[id]
	var words []string
	for _, l := range dividedLatencies {
		words = append(words, fmt.Sprintf("%s %g:", l.prefix, l.whole(q)))
		for part, ms := range l.of(q) {
			if ms != 0 {
				words = append(words, fmt.Sprintf("%s %g", partNames[part], ms))
			}
		}
	}
	return strings.Join(words, " ")
}

func ids(all ...engine.RequestID) []engine.RequestID { return all }

func started(id engine.RequestID, index int) []engine.TokenRun {
	return []engine.TokenRun{{ID: id, Index: index}}
}

// TestMixedPasses: request 0 decodes while request 1 computes its prompt in two chunks, the second beside that of
// request 2.
func TestMixedPasses(t *testing.T) {
	c := attributed(3, 0, false)
	send(c, 0, 0, 1, 4)
	send(c, 1, 2, 2, 1)
	send(c, 2, 12, 12, 2)
	shares := func(all ...engine.PromptShare) []engine.PromptShare { return all }
	c.Pass(0, pass(3, engine.Parts{PromptMs: 4, DecodeMs: 1, Joined: ids(0),
		Prompts: shares(engine.PromptShare{ID: 0, Tokens: 10})},
		engine.Pass{Tokens: 1, Started: started(0, 0)}))
	c.Pass(0, pass(8, engine.Parts{PromptMs: 6, DecodeMs: 2, HostMs: 1, Joined: ids(1),
		Prompts: shares(engine.PromptShare{ID: 1, Tokens: 6})},
		engine.Pass{Tokens: 1}))
	c.Pass(0, pass(17, engine.Parts{PromptMs: 8, DecodeMs: 4, HostMs: 1, Joined: ids(2), Prompts: shares(
		engine.PromptShare{ID: 1, Start: 6, Tokens: 4}, engine.PromptShare{ID: 2, Tokens: 12})},
		engine.Pass{Tokens: 3, Started: append(started(1, 0), started(2, 0)...), Finished: ids(1)}))
	c.Coast(0, []float64{33}) // 30 to 33
	c.CoastParts(0, []float64{33}, 0.5)
	c.Pass(0, &engine.Pass{StartMs: 33, EndMs: 33, Finished: ids(0, 2), Tokens: 0, Parts: &engine.Parts{}})
	for id := range engine.RequestID(3) {
		r := c.record(id)
		if r.state == openRun {
			r.close(r.emitted(3))
			c.countRuns(id)
		}
		c.Terminal(id, Completed, "")
	}
	for id, want := range []string{
		"ttft 8: router_wait 1 worker_wait 2 own_prompt 4 decode 1" +
			" e2e 33: router_wait 1 worker_wait 2 own_prompt 4 decode 9.5 decode_slowed 14 host 2.5",
		"ttft 28: worker_wait 6 own_prompt 8 other_prompts 6 decode 6 host 2 e2e 28: worker_wait 6 own_prompt 8 " +
			"other_prompts 6 decode 6 host 2",
		"ttft 18: worker_wait 5 own_prompt 6 other_prompts 2 decode 4 host 1" +
			" e2e 21: worker_wait 5 own_prompt 6 other_prompts 2 decode 6.5 host 1.5",
	} {
		if got := divided(t, c, engine.RequestID(id)); got != want {
			t.Errorf("request %d:\n got %s\nwant %s", id, got, want)
		}
	}
}

// TestPreemption: a request loses its KV after its first token, computes its prompt again, and goes on. Of three
// milliseconds on the worker before its first pass, two were its way there.
func TestPreemption(t *testing.T) {
	c := attributed(1, 2, false)
	send(c, 0, 0, 0, 2)
	prompt := []engine.PromptShare{{ID: 0, Tokens: 10}}
	c.Pass(0, pass(3, engine.Parts{PromptMs: 5, DecodeMs: 1, Joined: ids(0), Prompts: prompt},
		engine.Pass{Tokens: 1, Started: started(0, 0)}))
	c.Pass(0, pass(9, engine.Parts{DecodeMs: 4, LostAtStart: ids(0)}, engine.Pass{}))
	c.Pass(0, pass(20, engine.Parts{PromptMs: 5, DecodeMs: 1, HostMs: 1, Joined: ids(0), Prompts: prompt},
		engine.Pass{Tokens: 1, Started: started(0, 1), Finished: ids(0)}))
	c.Terminal(0, Completed, "")
	want := "ttft 9: worker_wait 1 own_prompt 5 decode 1 host 2" +
		" e2e 27: worker_wait 1 own_prompt 5 preempted 11 recompute 5 decode 2 host 3"
	if got := divided(t, c, 0); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestPreemptedPrompt: a request loses its KV between two chunks. Of its prompt, only what was computed before is
// computed again.
func TestPreemptedPrompt(t *testing.T) {
	c := attributed(1, 0, false)
	send(c, 0, 0, 0, 1)
	share := func(start, tokens int) []engine.PromptShare {
		return []engine.PromptShare{{ID: 0, Start: start, Tokens: tokens}}
	}
	c.Pass(0, pass(0, engine.Parts{PromptMs: 6, Joined: ids(0), Prompts: share(0, 6), LostAtEnd: ids(0)},
		engine.Pass{}))
	c.Pass(0, pass(8, engine.Parts{PromptMs: 8, Joined: ids(0), Prompts: share(2, 8)},
		engine.Pass{Tokens: 1, Started: started(0, 0), Finished: ids(0)}))
	c.Terminal(0, Completed, "")
	if got, want := divided(t, c, 0), "ttft 16: own_prompt 10 preempted 2 recompute 4"; !strings.HasPrefix(got,
		want+" ") {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestCutShort: a run ends while a request waits to run again, and another decodes. Their latencies end with their last
// tokens.
func TestCutShort(t *testing.T) {
	c := attributed(2, 0, true)
	send(c, 0, 0, 0, 9)
	send(c, 1, 0, 0, 9)
	prompts := []engine.PromptShare{{ID: 0, Tokens: 5}, {ID: 1, Tokens: 5}}
	c.Pass(0, pass(0, engine.Parts{PromptMs: 4, DecodeMs: 1, Joined: ids(0, 1), Prompts: prompts},
		engine.Pass{Tokens: 2, Started: append(started(0, 0), started(1, 0)...)}))
	c.Coast(0, []float64{7, 9})
	c.CoastParts(0, []float64{7, 9}, 0)
	c.Pass(0, pass(9, engine.Parts{DecodeMs: 3, LostAtStart: ids(0)}, engine.Pass{Tokens: 1}))
	c.Pass(0, pass(12, engine.Parts{PromptMs: 7, Joined: ids(0), Prompts: prompts[:1]}, engine.Pass{}))
	c.Cut(engine.RequestState{ID: 0, Generated: 3})
	c.Cut(engine.RequestState{ID: 1, Generated: 4})
	for id, want := range []string{
		"ttft 5: own_prompt 2 other_prompts 2 decode 1 e2e 9: own_prompt 2 other_prompts 2 decode 5",
		"ttft 5: own_prompt 2 other_prompts 2 decode 1 e2e 12: own_prompt 2 other_prompts 2 decode 8",
	} {
		if got := divided(t, c, engine.RequestID(id)); got != want {
			t.Errorf("request %d:\n got %s\nwant %s", id, got, want)
		}
	}
}

// TestSplit: the parts of each statistic add up to it, and to what the parts are of the requests near it.
func TestSplit(t *testing.T) {
	const requests = 1000
	c := attributed(requests, 0, false)
	for i := range requests {
		id, at := engine.RequestID(i), float64(1000*i)
		send(c, id, at, at+float64(i), 1)
		c.Pass(0, pass(at+float64(i), engine.Parts{DecodeMs: 10, Joined: ids(id)},
			engine.Pass{Tokens: 1, Started: started(id, 0), Finished: ids(id)}))
		c.Terminal(id, Completed, "")
	}
	c.Summarise(Resources{}, NoSLA())
	e := c.Explain()
	if e.Requests != requests || len(e.Latencies) != 2 {
		t.Fatalf("%d requests, %d latencies", e.Requests, len(e.Latencies))
	}
	for _, s := range e.Latencies[0].Split {
		want := map[string]float64{"mean": 499.5, "median": 500, "p75": 749, "p90": 899, "p95": 949,
			"p99": 989}[s.Statistic]
		parts := shares(s.PartsMs)
		if math.Abs(s.WholeMs-want-10) > 1e-9 || math.Abs(parts.sum()-s.WholeMs) > 1e-9 ||
			math.Abs(parts[RouterWait]-want) > 0.1 || math.Abs(parts[Decode]-10) > 0.1 {
			t.Errorf("%s: %+v, want %v in the router", s.Statistic, s, want)
		}
	}
	if stats := e.Latencies[0].Parts[Decode]; stats[0].Float != 10 || stats[len(stats)-1].Float != 0 {
		t.Errorf("decode: %+v", stats)
	}
}

// TestSplitWithOneCrash: a single request near the median that lost its worker does not make the median look as if
// crashes did.
func TestSplitWithOneCrash(t *testing.T) {
	var requests []*spent
	for i := range 400 {
		q := &spent{ttftMs: float64(1000 + i), e2eMs: float64(1000 + i)}
		q.parts[Decode] = q.e2eMs
		if i == 199 {
			q.parts[Decode], q.parts[LostTime] = q.e2eMs/2, q.e2eMs/2
		}
		q.first = q.parts
		requests = append(requests, q)
	}
	lost := func(name string) float64 {
		for _, s := range dividedLatencies[1].splits(requests) {
			if s.Statistic == name {
				return s.PartsMs[LostTime] / s.WholeMs
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	if lost("median") != 0 || lost("mean") == 0 {
		t.Errorf("lost: got %v of the median and %v of the mean, want 0 and more", lost("median"), lost("mean"))
	}
	for i, q := range requests {
		if i >= 100 && i < 300 && q.parts[LostTime] == 0 {
			q.parts[Decode], q.parts[LostTime] = q.e2eMs/2, q.e2eMs/2
		}
	}
	if lost("median") != 0.5 {
		t.Errorf("where all lose half: got %v of the median, want 0.5", lost("median"))
	}
}
