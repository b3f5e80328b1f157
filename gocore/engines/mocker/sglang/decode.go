package sglang

import "dynosim/gocore/engine"

// decode gives every running request one token, or a burst, those whose prompt was completed in this very pass
// included, and adds the time that takes. When slots run short, requests are retracted first; the last one never is,
// and if there is no slot even for that one, nothing happens.
func (s *Scheduler) decode() {
	if len(s.running) == 0 {
		return
	}
	slots := s.retractUntilFits()
	if !s.pool.Take(slots) {
		if !s.out.Idle() {
			s.rescue.stalled(s.running[0])
		}
		return
	}
	active := min(s.load.tokens, s.pool.Total())
	decodeMs := float64(s.clock.DecodeSeconds(len(s.running), s.load.tokens, active, s.pool.Total()) * 1000)
	s.out.EndMs += decodeMs
	if s.parts != nil {
		s.parts.DecodeMs = decodeMs
	}
	s.out.Tokens = len(s.running)
	s.out.Scheduled += len(s.running)
	s.emissions++
	s.uses = 0
	s.rescue.emitted()
	if s.drafts == nil {
		s.load.emit()
		s.storeTokens()
	} else {
		s.emitBursts(slots)
	}
	if s.observed {
		s.signal()
	}
	s.startJoined()
	if s.emissions >= s.nextFinish {
		s.finishDue()
	}
}

// signal lists the requests that get a first or last token. A burst can have both.
func (s *Scheduler) signal() {
	if s.joined == len(s.running) && s.emissions < s.nextFinish {
		return
	}
	for i, r := range s.running {
		first, final := i >= s.joined && r.generated == 0, r.finishAt <= s.emissions
		if first && !(final && r.maxOutput == 1) {
			s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.id})
		}
		if final {
			s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.id, Final: true})
		}
	}
}

// startJoined lists the requests that have just begun to run, in running order.
func (s *Scheduler) startJoined() {
	for _, r := range s.running[s.joined:] {
		s.out.Started = append(s.out.Started, engine.TokenRun{ID: r.id, Index: r.generated})
	}
	s.joined = len(s.running)
}

// storeTokens gives the tokens of this pass to the requests that must have them at once: those that have just begun to
// run, as that puts their prompts into the cache, and to others whose pages have names. The last token of a request is
// left to finishDue.
func (s *Scheduler) storeTokens() {
	if s.named > 0 {
		s.catchUpNamed()
	}
	for _, r := range s.running[s.joined:] {
		if r.finishAt > s.emissions {
			s.pool.DecodeOne(&r.holding, r.tokenTime(s.emissions))
		}
	}
}

// catchUpNamed brings those of the requests that have run before up to date for whose pages others may look.
func (s *Scheduler) catchUpNamed() {
	for _, r := range s.running[:s.joined] {
		if r.named && r.finishAt > s.emissions {
			s.catchUp(r, s.emissions)
		}
	}
}

// catchUp gives the holding of r the tokens of the emitting passes up to emission since it was last looked at. The last
// page they fill was full when the sequence had a whole number of pages.
func (s *Scheduler) catchUp(r *sequence, emission int) {
	tokens := r.promptTokens + r.maxOutput - (r.finishAt - emission)
	missed := tokens - r.holding.Tokens()
	switch {
	case missed <= 0:
	case r.named: // it never misses more than one
		s.pool.DecodeOne(&r.holding, r.tokenTime(emission))
	default:
		s.pool.Decode(&r.holding, missed, r.tokenTime(emission-tokens%s.pageSize))
	}
}

// catchUpAll brings all requests that have emitted up to date.
func (s *Scheduler) catchUpAll() {
	for _, r := range s.running[:s.joined] {
		s.catchUp(r, s.emissions)
	}
}

// finishDue completes the requests that have just got their last token, in running order.
func (s *Scheduler) finishDue() {
	kept := s.running[:0]
	for _, r := range s.running {
		if r.finishAt > s.emissions {
			if len(kept) == 0 || r.finishAt < s.nextFinish {
				s.nextFinish = r.finishAt
			}
			kept = append(kept, r)
			continue
		}
		s.catchUp(r, s.emissions-1)
		s.count(r, -1)
		s.pool.LastDecode(&r.holding)
		s.out.Finished = append(s.out.Finished, r.id)
		if r.hold {
			s.holdSource(r)
			continue
		}
		s.finish(r)
	}
	clear(s.running[len(kept):])
	s.running = kept
	s.joined = len(kept)
}

// finish forgets a request that has all its tokens. Its KV stays in the cache.
func (s *Scheduler) finish(r *sequence) {
	s.pool.Finish(&r.holding, s.now())
	s.forget(r)
}
