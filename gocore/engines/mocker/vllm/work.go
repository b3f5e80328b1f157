package vllm

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/roster"
)

var _ engine.CoastReporter = (*Scheduler)(nil)

// ReportWork implements [engine.Reporter].
func (s *Scheduler) ReportWork() { s.reporting = true }

// Work implements [engine.Reporter].
func (s *Scheduler) Work() engine.Work {
	return engine.Work{Scheduled: s.scheduledWork, Queued: s.queuedWork()}
}

// CoastWork implements [engine.CoastReporter]. All requests that run are steady.
func (s *Scheduler) CoastWork() engine.Phases {
	var decoding engine.Phases
	for _, r := range s.running {
		decoding.AddDecode(r.tokens() + s.steady.missed(r) - 1)
	}
	return decoding
}

// Load implements [engine.Reporter]. Cached blocks that no request holds are not in use.
func (s *Scheduler) Load() (waiting, running, activeBlocks int) {
	d := &s.destinations
	return s.waiting.Len() + d.Pending() + d.Reserved(), len(s.running), s.pool.Active()
}

// countScheduled counts the requests that have got a share of the pass, before any gets a token. Steady ones decode.
func (s *Scheduler) countScheduled() {
	s.scheduledWork = engine.Phases{}
	for i, r := range s.running {
		switch {
		case i < s.steady.size:
			s.scheduledWork.AddDecode(r.tokens() + s.steady.missed(r))
		case r.share.pass != s.passes:
		case r.share.promptTokens > 0:
			s.scheduledWork.AddPrefill(r.promptTokens, r.share.tokens, r.share.promptBefore)
		default:
			s.scheduledWork.AddDecode(r.tokens())
		}
	}
}

// queuedWork counts the requests that wait: for the prompt, or to go on after a preemption or with a prompt from
// another worker. To a decode worker, all of these have the length of their prompts.
func (s *Scheduler) queuedWork() engine.Phases {
	p := roster.Queued(&s.waiting, func(r *sequence) (tokens int, decodes bool) {
		if s.role == engine.Decode {
			return r.promptTokens, r.status != waiting
		}
		return r.tokens(), r.status != waiting
	})
	inHandoff := s.inHandoff()
	slices.SortFunc(inHandoff, byOrder)
	for _, r := range inHandoff {
		if r.status == pending || r.status == reserved {
			p.AddDecode(r.promptTokens)
		}
	}
	return p
}
