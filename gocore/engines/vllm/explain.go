package vllm

// What the engine says of where its time goes (engine.Parts). A batch keeps it until it is delivered: the requests take
// part in the pass that runs the batch, even if they were admitted while the one before ran.

// explainLost notes the requests that were preempted since the last batch was composed and have not been admitted
// again. A batch without requests is never run, so the next one tells of them.
func (s *Scheduler) explainLost(b *batch) {
	if s.parts == nil || b.empty() {
		return
	}
	for _, r := range s.lost {
		if r.status == preempted {
			b.explained.LoseAtStart(r.id)
		}
	}
	s.lost = s.lost[:0]
}

// explain records where the time of the pass that delivers b goes.
func (s *Scheduler) explain(b *batch) {
	p, e, d := s.parts, b.explained, &b.durations
	if p == nil {
		return
	}
	p.PromptMs = d.promptMs
	if b.tokens() > 0 && !s.prefills {
		p.DecodeMs, p.HostMs = max(0, d.decodeMs-d.hostMs), d.hostMs
	} else {
		p.HostMs = max(0, d.prefillMs-d.promptMs)
	}
	p.HostMs += s.startOf(b) - s.out.StartMs
	p.Joined = append(p.Joined, e.Joined...)
	p.LostAtStart = append(p.LostAtStart, e.LostAtStart...)
	p.Prompts = append(p.Prompts, e.Prompts...)
}

// CoastHostMs implements [dynosim/gocore/engine.CoastExplainer].
func (s *Scheduler) CoastHostMs() float64 { return s.clock.HostMs(s.steady.size) }
