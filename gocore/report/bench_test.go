package report

import (
	"testing"

	"dynosim/gocore/engine"
)

// BenchmarkSummarise reports on 20,000 requests that emitted 200 tokens each, 100 at a time.
func BenchmarkSummarise(b *testing.B) {
	const requests, together, output = 20_000, 100, 200
	c := NewCollector(requests, 1)
	now := 0.0
	for first := 0; first < requests; first += together {
		p := engine.Pass{StartMs: now, Tokens: together}
		for id := engine.RequestID(first); id < engine.RequestID(first+together); id++ {
			c.Arrival(engine.Request{ID: id, PromptTokens: 1000, OutputTokens: output}, now)
			c.Worker(id, 0)
			p.Admitted = append(p.Admitted, engine.Admission{ID: id})
			p.Started = append(p.Started, engine.TokenRun{ID: id})
		}
		for token := range output {
			now += 5.74 + float64(token%17)/10
			p.EndMs = now
			if token == output-1 {
				for id := engine.RequestID(first); id < engine.RequestID(first+together); id++ {
					p.Finished = append(p.Finished, id)
				}
			}
			c.Pass(0, &p)
			p = engine.Pass{StartMs: now, Tokens: together}
		}
		for id := engine.RequestID(first); id < engine.RequestID(first+together); id++ {
			c.Terminal(id, Completed, "")
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Summarise(Resources{WallMs: 1}, NoSLA())
	}
}
