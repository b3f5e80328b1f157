package replay

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/faults"
)

// longestScript keeps runs of the fuzzer short.
const longestScript = 2000

// FuzzFaultScripts: any text is refused as a script of faults, or can be carried out: every request ends once, and
// equal runs leave equal bytes.
func FuzzFaultScripts(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(script(rand.New(rand.NewPCG(seed, 23)), seed%4 == 1), seed)
	}
	f.Add(`[{"kind": "crash", "at_ms": 10, "target": "random:2", "detection_ms": 5}]`, uint64(3))
	f.Add(`{"kind": "cold_start", "at_ms": 0, "factor": 1e300}`, uint64(0))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		p := faulty{seed: seed}
		two := p.config(t).Disagg != nil
		parsed, err := faults.Parse(text, faults.Layout{TwoPools: two, Grows: true})
		if err != nil || len(text) > longestScript {
			return
		}
		p.script = &parsed
		fast, _, _ := p.run(t)
		p.stepwise = true
		if slow, _, _ := p.run(t); fast != slow {
			t.Fatalf("seed %d: %s", seed, firstDifference(fast, slow))
		}
	})
}
