package sglangsrt

// explain says where the time of the pass that delivers b goes. Requests take part in the pass that runs the batch, even if
// they were admitted while the one before ran.
func (s *Scheduler) explain(b *batch) {
	p := s.parts
	if p == nil {
		return
	}
	p.HostMs = min(s.clock.HostMs(len(b.prefills)+b.decodes), b.ms)
	if len(b.prefills) > 0 {
		p.PromptMs = b.ms - p.HostMs
	} else {
		p.DecodeMs = b.ms - p.HostMs
	}
	p.Joined = append(p.Joined, b.joined...)
	p.LostAtStart = append(p.LostAtStart, b.lost...)
	for _, f := range b.prefills {
		p.Compute(f.request.id, f.start, f.end-f.start)
	}
}

// CoastHostMs implements [dynosim/gocore/engine.CoastExplainer].
func (s *Scheduler) CoastHostMs() float64 { return s.clock.HostMs(len(s.running)) }
