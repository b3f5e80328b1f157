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
	return engine.Work{Scheduled: s.work, Queued: s.queued()}
}

// CoastWork implements [engine.CoastReporter]. All requests that run are steady.
func (s *Scheduler) CoastWork() engine.Phases {
	var p engine.Phases
	for i := range s.running {
		computed, _ := s.steady.computed(i, s.delivered)
		p.AddDecode(computed)
	}
	return p
}

// Load implements [engine.Reporter].
func (s *Scheduler) Load() (waiting, running, activeBlocks int) {
	return s.Requests() - len(s.running), len(s.running), s.pool.InUse()
}

// workOf counts the requests that have a share of a batch just composed. Those that it lets become steady are not
// steady yet.
func (s *Scheduler) workOf(b *batch) engine.Phases {
	var p engine.Phases
	for i, r := range s.running {
		computed, steady := s.steady.computed(i, b.number)
		switch {
		case steady:
			p.AddDecode(computed)
		case r.servedIn != b.number:
		case i < s.steady.prefix: // the last token of a steady request
			p.AddDecode(r.computed)
		case r.prefills(b):
			p.AddPrefill(r.promptTokens, r.share.tokens, r.share.start)
		default:
			p.AddDecode(r.computed)
		}
	}
	return p
}

// waits tells how many tokens a waiting request has, and whether it waits to go on after a preemption.
func (r *sequence) waits() (tokens int, decodes bool) { return r.tokens(), r.status == preempted }

// States implements [engine.Engine].
func (s *Scheduler) States() []engine.RequestState {
	s.steady.clear()
	all := s.pulls.append(roster.Append(slices.Clone(s.running), &s.waiting))
	if s.offload != nil {
		all = append(all, s.offload.holding...)
	}
	return roster.States(all, byOrder, s.state)
}

func byOrder(a, b *sequence) int { return a.order - b.order }

// state returns where a request stands.
func (s *Scheduler) state(r *sequence) engine.RequestState {
	state := engine.RequestState{
		ID:           r.id,
		State:        r.status.String(),
		PromptTokens: r.promptTokens,
		OutputTokens: r.maxOutput,
		Generated:    r.generated,
		BlocksNeeded: s.ceilBlocks(r.promptTokens + r.maxOutput),
	}
	if r.status == loading || r.status == kept {
		state.BlocksHeld = r.blocks()
	}
	return state
}
