package report

import "dynosim/gocore/engine"

// passSums adds up how long the passes of a worker took, how long it was idle between them, and how much longer passes
// took because of faults.
type passSums struct{ promptMs, decodeMs, hostMs, idleMs, lostMs float64 }

// progress is how far a worker is.
type progress struct {
	passSums
	begun    bool
	waitedMs float64    // what the pass that is being divided takes longer because of faults
	lastMs   float64    // the end of its last pass
	log      []passSums // at the end of each emitting pass of the set; only if the run may be cut short
}

// began adds a pass to the sums of a worker, and returns them as they were when it began.
func (w *progress) began(p *engine.Pass) (atStart passSums) {
	if w.begun {
		w.idleMs += gap(w.lastMs, p.StartMs)
	}
	atStart = w.passSums
	lengthMs := p.EndMs - p.StartMs
	switch parts := p.Parts; {
	case parts == nil: // an engine that cannot tell
		w.decodeMs += lengthMs
	case parts.PromptMs+parts.DecodeMs+parts.HostMs == 0: // a pass that only waits
		w.idleMs += lengthMs
	default:
		w.promptMs += parts.PromptMs
		w.decodeMs += parts.DecodeMs
		w.hostMs += parts.HostMs
	}
	w.lostMs += w.waitedMs
	w.begun, w.lastMs = true, p.EndMs
	return atStart
}

// CoastParts records the parts of passes through which a worker coasted, with hostMs of host time each.
func (c *Collector) CoastParts(worker int, endsMs []float64, hostMs float64) {
	if c.attribution == nil || len(endsMs) == 0 {
		return
	}
	w := &c.attribution.workers[worker]
	before, passes := *w, float64(len(endsMs))
	if c.attribution.cutShort {
		for i, endMs := range endsMs {
			host := float64(float64(i+1) * hostMs)
			at := before.passSums
			at.hostMs, at.decodeMs = before.hostMs+host, before.decodeMs+gap(host, endMs-before.lastMs)
			w.log = append(w.log, at)
		}
	}
	host := float64(passes * hostMs)
	w.lastMs = endsMs[len(endsMs)-1]
	w.hostMs += host
	w.decodeMs += gap(host, w.lastMs-before.lastMs)
}
