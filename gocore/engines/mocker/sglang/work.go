package sglang

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/roster"
)

var _ engine.CoastReporter = (*Scheduler)(nil)

// ReportWork implements [engine.Reporter].
func (s *Scheduler) ReportWork() { s.reporting = true }

// Work implements [engine.Reporter]. Prefills are counted as they are admitted, their cached tokens included.
func (s *Scheduler) Work() engine.Work {
	return engine.Work{Scheduled: s.scheduledWork, Queued: s.queuedWork()}
}

// countRunning counts the running requests, those just admitted included, before any is retracted or gets a token.
func (s *Scheduler) countRunning() {
	for _, r := range s.running {
		s.scheduledWork.AddDecode(s.tokens(r))
	}
}

// CoastWork implements [engine.CoastReporter]. Lengths are those before the tokens of the pass.
func (s *Scheduler) CoastWork() engine.Phases {
	var p engine.Phases
	for _, r := range s.running {
		p.AddDecode(s.tokens(r) - 1)
	}
	return p
}

// queuedWork counts the requests that wait: for the prompt, or to go on after a retraction or with a prompt from
// another worker. All of a decode worker's have their prompts, also those that were retracted before they had a token.
func (s *Scheduler) queuedWork() engine.Phases {
	p := roster.Queued(&s.waiting, func(r *sequence) (tokens int, decodes bool) {
		return s.tokens(r), s.generated(r) > 0 || s.role == engine.Decode
	})
	for i := range s.destinations.prebuilt.Len() {
		p.AddDecode(s.tokens(s.destinations.prebuilt.At(i)))
	}
	inHandoff := s.inHandoff()
	slices.SortFunc(inHandoff, byOrder)
	for _, r := range inHandoff {
		if r.status != held {
			p.AddDecode(r.promptTokens)
		}
	}
	return p
}
