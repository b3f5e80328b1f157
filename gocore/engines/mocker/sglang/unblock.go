package sglang

import "dynosim/gocore/engines/internal/transit"

// rescue ends a dead end: only the favourite may be admitted until a request emits a token, or it has left.
//
// Without that, requests which together do not fit the pool could take turns for ever, each losing what it has
// prefilled before it gets its first token. With it every rescue ends with a token of the favourite, and tokens are
// never lost: when no other request holds anything and the favourite uses no slot twice, it has all the slots that
// cannotEverRun has found sufficient.
//
// With speculative decoding a request can stall, since there is no room for its largest burst, while there is some for
// another, which is admitted and, of the two, retracted. Where that does not end within a few passes, it goes on for
// ever in the reference. Here it ends after some patience.
type rescue struct {
	active    bool
	favourite int // its order number
	stalls    int // passes with some effect, since the last token, in which the only request left found no slots
}

// patience is the number of stalls after which the stalled request is rescued; in random runs no more than 2 came
// before a token.
const patience = 16

// stalled notes that even r, the only request left, found no slots.
func (c *rescue) stalled(r *sequence) {
	c.stalls++
	if c.stalls == patience {
		c.active, c.favourite = true, r.order
	}
}

// emitted notes that the pass emits tokens.
func (c *rescue) emitted() { *c = rescue{} }

// left notes that r has left the engine.
func (c *rescue) left(r *sequence) {
	if c.favourite == r.order {
		c.active = false
	}
}

// Unblock helps an engine whose passes are idle although it owns requests, or whose pending ones find no room, when
// nothing else is going to happen. It takes one step towards another token, and reports false if there is none to take:
// first leaked and duplicate slots are taken back, then requests that wait with a part of their prompt in slots give it
// up, the youngest first; of a prompt that came from another worker that is all of it. The running request is spared,
// or if there is none the oldest, and no other request is admitted before it has emitted a token.
//
// No run that ends in the reference needs this.
func (s *Scheduler) Unblock() bool {
	owned := s.owned()
	returned := s.pool.ReturnLeaked()
	for _, r := range owned {
		returned += s.pool.ReturnDuplicates(&r.holding)
	}
	if returned > 0 {
		s.destinations.RoomMade()
		return true
	}
	if len(owned) == 0 {
		return false
	}
	favourite := owned[0]
	if len(s.running) > 0 {
		favourite = s.running[0]
	}
	begins := !s.rescue.active || s.rescue.favourite != favourite.order
	s.rescue.active, s.rescue.favourite = true, favourite.order
	for i := len(owned) - 1; i >= 0; i-- {
		if r := owned[i]; r != favourite && r.status != running && r.holding.Tokens() > 0 {
			s.giveUp(r)
			return true
		}
	}
	return begins
}

// giveUp makes a request that waits compute its prompt anew.
func (s *Scheduler) giveUp(r *sequence) {
	s.pool.Release(&r.holding)
	if r.status == prebuilt {
		transit.TakeFrom(&s.destinations.prebuilt, r.id)
		r.status = waiting
		s.waiting.PushFront(r)
	}
	s.lpm.sorted = false
	s.destinations.RoomMade()
}

// candidate returns the place in the waiting queue of the request that may be admitted next, -1 if there is none.
func (s *Scheduler) candidate() int {
	if s.rescue.active {
		return s.waiting.Index(func(r *sequence) bool { return r.order == s.rescue.favourite })
	}
	return min(0, s.waiting.Len()-1)
}
