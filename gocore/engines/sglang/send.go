package sglang

import (
	"slices"

	"dynosim/gocore/engine"
)

// Hand-offs by SGLang's own rules, on a prefill worker (engine.Pusher); Decoder is the other side. A request waits
// until its decode worker has taken room for its prompt, and until there is an entry for what is sent besides its KV.
// Then it waits for its turn as on a worker that does both. When its prompt is computed it keeps its row and its pages
// until its KV has come to the decode worker, which is noticed when a pass ends, and at once by an idle worker:
//
//	Add --> paired --room there, an entry--> waiting --> prompt computed --> kept --KV has come--> over

// sends is what a scheduler knows of the hand-offs that it takes part in.
type sends struct {
	on      bool // this is a prefill worker
	awake   bool
	paired  []*sequence // wait for room on their decode workers, or for an entry, in order of arrival
	kept    []*sequence // whose prompts are computed, in that order
	entries int         // that are free
}

// entriesPerSeat is how many requests may be between these two for each seat.
const entriesPerSeat = 2

func newSends(role engine.Role, seats int) sends {
	return sends{on: role == engine.Prefill, entries: entriesPerSeat * seats}
}

var _ engine.Pusher = (*Scheduler)(nil)

// Awake implements [engine.Pusher].
func (s *Scheduler) Awake() bool { return s.sends.awake && s.Requests() > 0 }

// Allocated implements [engine.Pusher].
func (s *Scheduler) Allocated(id engine.RequestID) {
	if r := find(s.sends.paired, id); r != nil {
		r.come, s.sends.awake = true, true
	}
}

// Transferred implements [engine.Pusher].
func (s *Scheduler) Transferred(id engine.RequestID) {
	if r := find(s.sends.kept, id); r != nil {
		r.come, s.sends.awake = true, true
	}
}

func find(list []*sequence, id engine.RequestID) *sequence {
	if i := slices.IndexFunc(list, func(r *sequence) bool { return r.id == id }); i >= 0 {
		return list[i]
	}
	return nil
}

// pair lets requests that have room on their decode workers wait for their turn, as long as there are entries.
func (s *Scheduler) pair() {
	s.sends.paired = slices.DeleteFunc(s.sends.paired, func(r *sequence) bool {
		if !r.come || s.sends.entries == 0 {
			return false
		}
		s.sends.entries--
		r.come = false
		s.waiting.PushBack(r)
		return true
	})
}

// send notes that the part of a prompt computed by a pass is sent: whole pages, but for the last part.
func (s *Scheduler) send(p prefill) {
	r := p.request
	pages := p.end / s.pageSize
	if !p.partial {
		pages = s.ceilPages(p.end)
	}
	if pages > r.sent || !p.partial {
		s.out.Sent = append(s.out.Sent, engine.Chunk{ID: r.id, Blocks: pages - r.sent, Last: !p.partial})
	}
	r.sent = pages
}

// sendOn sends the part of a prompt, unless its request was cancelled.
func (s *Scheduler) sendOn(p prefill) {
	if p.request.status != running {
		return
	}
	if s.send(p); !p.partial {
		s.keep(p.request)
	}
}

// computing lists the requests whose last part is in flight, and those that are kept.
func (s *Scheduler) computing() []*sequence {
	all := slices.Clone(s.sends.kept)
	if s.flying != nil {
		for _, p := range s.flying.prefills {
			if !p.partial {
				all = append(all, p.request)
			}
		}
	}
	return all
}

// cancelPaired forgets a request that has not been admitted, or that is kept, and reports whether there was one.
func (s *Scheduler) cancelPaired(id engine.RequestID) bool {
	isIt := func(r *sequence) bool { return r.id == id }
	if r := find(s.sends.kept, id); r != nil {
		s.giveUpKept(r)
		s.sends.kept = slices.DeleteFunc(s.sends.kept, isIt)
		s.sends.awake = true
		return true
	}
	had := len(s.sends.paired)
	s.sends.paired = slices.DeleteFunc(s.sends.paired, isIt)
	return len(s.sends.paired) < had
}

// keep ends the prompt of a request. Others find it in the tree; its row and its pages stay.
func (s *Scheduler) keep(r *sequence) {
	r.generated, r.status = 1, kept
	s.out.Tokens++
	s.out.Singles = append(s.out.Singles, engine.TokenRun{ID: r.id})
	s.out.Finished = append(s.out.Finished, r.id)
	s.out.Held = append(s.out.Held, r.id)
	if s.observed {
		s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.id, Final: true})
	}
	s.pool.Share(&r.lease, r.promptTokens, r.promptTokens)
	s.sends.kept = append(s.sends.kept, r)
}

// letGo gives up what has come to decode workers, in the order in which the prompts were computed.
func (s *Scheduler) letGo() {
	s.sends.kept = slices.DeleteFunc(s.sends.kept, func(r *sequence) bool {
		if r.come {
			s.pool.Share(&r.lease, r.promptTokens, r.promptTokens)
			s.out.ReleasedAtStart = append(s.out.ReleasedAtStart, r.id)
			s.giveUpKept(r)
		}
		return r.come
	})
}

// giveUpKept ends the life of a request that was kept.
func (s *Scheduler) giveUpKept(r *sequence) {
	s.pool.Close(&r.lease)
	s.rows--
	s.sends.entries++
	r.status = over
}
