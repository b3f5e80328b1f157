package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/roster"
)

var _ engine.CoastReporter = (*Scheduler)(nil)

// ReportWork implements [engine.Reporter].
func (s *Scheduler) ReportWork() { s.reporting = true }

// Work implements [engine.Reporter].
func (s *Scheduler) Work() engine.Work {
	return engine.Work{Scheduled: s.work, Queued: s.queuedWork()}
}

// CoastWork implements [engine.CoastReporter]. With overlap scheduling one more batch has been composed.
func (s *Scheduler) CoastWork() engine.Phases {
	ahead := 0
	if s.flying != nil {
		ahead = 1
	}
	var p engine.Phases
	for _, r := range s.running {
		p.AddDecode(s.computed(r) - ahead)
	}
	return p
}

// Load implements [engine.Reporter]. Blocks that only the cache has do not count.
func (s *Scheduler) Load() (waiting, running, activeBlocks int) {
	return s.unread.Len() + s.waiting.Len() + len(s.rejected), s.rows, s.inUse()
}

// Groups implements [engine.GroupReporter]. The layers with a window have a pool of their own.
func (s *Scheduler) Groups() (engine.GroupUse, bool) {
	if !s.pool.Windowed() {
		return engine.GroupUse{}, false
	}
	now := s.waits
	now.Full, now.Others = s.inUse(), s.rules.Window.Blocks-s.pool.WindowAvailable()/s.pageSize
	return now, true
}

// workOf counts the requests that have a share of the batch that was composed last.
func (s *Scheduler) workOf(b *batch) engine.Phases {
	var p engine.Phases
	for _, share := range b.prefills {
		p.AddPrefill(share.request.promptTokens, share.end-share.start, share.start)
	}
	if b.decodes > 0 {
		for _, r := range s.running {
			p.AddDecode(s.computed(r))
		}
	}
	return p
}

// queuedWork counts the requests that wait, those that were not received yet included.
func (s *Scheduler) queuedWork() engine.Phases {
	p := roster.Queued(&s.waiting, (*sequence).waits)
	for i := range s.unread.Len() {
		n := s.unread.At(i).promptTokens
		p.AddPrefill(n, n, 0)
	}
	return p
}

// waits tells how many tokens a waiting request has, and whether it waits to go on after a retraction.
func (r *sequence) waits() (tokens int, decodes bool) { return r.tokens(), r.status == retracted }

// States implements [engine.Engine].
func (s *Scheduler) States() []engine.RequestState {
	all := roster.Append(roster.Append(s.admitted(), &s.waiting), &s.unread)
	return roster.States(all, byOrder, s.state)
}

func byOrder(a, b *sequence) int { return a.order - b.order }

// state returns where a request stands.
func (s *Scheduler) state(r *sequence) engine.RequestState {
	return engine.RequestState{
		ID:           r.id,
		State:        r.status.String(),
		PromptTokens: r.promptTokens,
		OutputTokens: r.maxOutput,
		Generated:    s.generated(r),
		BlocksNeeded: s.ceilPages(r.promptTokens + r.maxOutput),
	}
}
