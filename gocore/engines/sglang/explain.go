package sglang

// explain records where the time of the pass that delivers b goes. Requests take part in the pass that runs the batch,
// even if they were admitted while the one before ran.
func (s *Scheduler) explain(b *batch) {
	p := s.parts
	if p == nil {
		return
	}
	p.HostMs = min(s.clock.HostMs(len(b.prefills)+b.decodes), b.ms)
	if len(b.prefills) > 0 {
		p.PromptMs = min(b.promptMs, b.ms-p.HostMs)
		if b.decodes == 0 {
			p.PromptMs = b.ms - p.HostMs
		}
	}
	p.DecodeMs = b.ms - p.HostMs - p.PromptMs
	if s.pool.Tiered() { // nothing is computed while the batch waits for copies
		p.HostMs += b.startMs - s.out.StartMs + s.out.EndMs - (b.startMs + b.ms)
	}
	p.Joined = append(p.Joined, b.joined...)
	p.LostAtStart = append(p.LostAtStart, b.lost...)
	for _, f := range b.prefills {
		p.Compute(f.request.id, f.start, f.end-f.start)
	}
}

// explainWait records that the scheduler waits for a copy in all of a pass.
func (s *Scheduler) explainWait() {
	if s.parts != nil {
		s.parts.HostMs = s.out.EndMs - s.out.StartMs
	}
}

// CoastHostMs implements [dynosim/gocore/engine.CoastExplainer].
func (s *Scheduler) CoastHostMs() float64 { return s.clock.HostMs(len(s.running)) }
