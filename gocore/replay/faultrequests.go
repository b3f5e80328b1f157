package replay

import (
	"fmt"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/fleet"
	"dynosim/gocore/report"
)

// What becomes of requests when attempts fail.

// arrived records a turn that has just arrived. Its first attempt is on its way.
func (f *faultRun) arrived(turn int32) {
	f.open++
	f.turns[turn].open = true
	f.begin(turn, engine.RequestID(turn))
}

// begin starts the clocks of a try whose first attempt is id.
func (f *faultRun) begin(turn int32, id engine.RequestID) {
	j := &f.turns[turn]
	f.live(turn, id)
	try := j.try
	f.after(f.cfg.ClientTimeoutMs, func() error {
		if !j.open || j.try != try {
			return nil
		}
		f.tally.Timeouts++
		return f.giveUpTry(turn, fmt.Sprintf("the client gave up after %v ms", f.cfg.ClientTimeoutMs), noFault)
	})
	f.after(f.cfg.HedgeAfterMs, func() error {
		if !j.open || j.try != try || j.first || len(j.live) != 1 {
			return nil
		}
		f.trials[turn].Hedges++
		return f.again(turn, int(f.attempts[j.live[0]].base))
	})
}

// noFault is the number of a fault that does not exist.
const noFault = -1

// live notes an attempt that begins.
func (f *faultRun) live(turn int32, id engine.RequestID) {
	j := &f.turns[turn]
	j.live = append(j.live, id)
	j.sinceMs = f.fleet.NowMs()
	f.trials[turn].Attempts++
	if id != engine.RequestID(turn) {
		f.collector.AttemptBegins(id, engine.RequestID(turn), f.fleet.NowMs())
		f.Journal.Again(id, engine.RequestID(turn), f.trials[turn].Attempts, f.fleet.NowMs())
		if f.cfg.Began != nil {
			f.cfg.Began(int32(id), turn, f.trials[turn].Attempts)
		}
	}
}

// next makes a new attempt of a turn, whose client has tokens tokens.
func (f *faultRun) next(turn int32, tokens int) engine.RequestID {
	f.attempts = append(f.attempts, attempt{turn: turn, base: int32(tokens)})
	return engine.RequestID(len(f.attempts) - 1)
}

// again sends a turn once more.
func (f *faultRun) again(turn int32, tokens int) error {
	id := f.next(turn, tokens)
	f.live(turn, id)
	return f.fleet.Resend(id)
}

// lose notes that an attempt has failed. What follows is done when the instant allows it.
func (f *faultRun) lose(b breakage) {
	a := &f.attempts[b.id]
	a.over = true
	f.Journal.Over(b.id, "failed")
	f.collector.Interrupt(engine.RequestID(a.turn), b.tokens)
	f.collector.AttemptBreaks(engine.RequestID(a.turn), b.id)
	if b.event != noFault {
		if e := &f.events[b.event]; b.refused {
			e.Refused++
		} else {
			e.Hit++
		}
	}
	f.broken = append(f.broken, b)
}

// goOn goes on with a request whose attempt has failed: with another attempt that is on its way, on another worker, or
// not.
func (f *faultRun) goOn(b breakage) error {
	if err := f.takeBack([]engine.RequestID{b.id}); err != nil {
		return err
	}
	turn := f.attempts[b.id].turn
	j, trials := &f.turns[turn], &f.trials[turn]
	j.live = slices.DeleteFunc(j.live, func(id engine.RequestID) bool { return id == b.id })
	if !j.open || len(j.live) > 0 {
		return nil
	}
	trials.LostMs += f.fleet.NowMs() - j.sinceMs
	if !b.migrates || trials.Migrations >= f.cfg.MigrationLimit {
		return f.failTry(turn, b.tokens, b.cause, b.event)
	}
	trials.Migrations++
	f.Journal.Migrated(f.fleet.NowMs())
	f.count(b.event, func(e *FaultEvent) { e.Migrated++ })
	return f.again(turn, b.tokens)
}

// giveUpTry ends all attempts of a client's try.
func (f *faultRun) giveUpTry(turn int32, cause string, event int) error {
	j := &f.turns[turn]
	tokens := f.has(turn)
	if len(j.live) > 0 {
		f.trials[turn].LostMs += f.fleet.NowMs() - j.sinceMs
	}
	if err := f.withdraw(j); err != nil {
		return err
	}
	return f.failTry(turn, tokens, cause, event)
}

// has returns how many tokens the client of a turn has got in its try.
func (f *faultRun) has(turn int32) int {
	tokens, goesOn := f.collector.Emitted(engine.RequestID(turn))
	if live := f.turns[turn].live; goesOn && len(live) == 1 { // passes of a coast are not on record before its end
		s := f.pools[len(f.pools)-1]
		tokens += fleet.EndedBy(s.Worker(f.fleet.Emitter(live[0])).Coast, f.fleet.NowMs())
	}
	return tokens
}

// withdraw takes all attempts of a turn back.
func (f *faultRun) withdraw(j *turnState) error {
	live := j.live
	j.live = nil
	for _, id := range live {
		f.attempts[id].over = true
		f.Journal.Over(id, "given up")
	}
	return f.takeBack(live)
}

// failTry ends a try of a client, which begins anew if it may. The tokens that it has got are of no use.
func (f *faultRun) failTry(turn int32, tokens int, cause string, event int) error {
	j, trials := &f.turns[turn], &f.trials[turn]
	if j.try >= f.cfg.ClientRetries {
		f.count(event, func(e *FaultEvent) { e.Failed++ })
		f.lost(turn, tokens, cause)
		return nil
	}
	f.count(event, func(e *FaultEvent) { e.Retried++ })
	f.Journal.Retried(f.fleet.NowMs())
	j.try++
	j.first, j.sinceMs = false, f.fleet.NowMs()
	trials.LostTokens += tokens
	trials.Retries++
	f.collector.Again(engine.RequestID(turn), tokens)
	try := j.try
	pauseMs := f.cfg.ClientBackoffMs * float64(uint64(1)<<min(try-1, 40))
	f.after(pauseMs, func() error {
		if !j.open || j.try != try {
			return nil
		}
		trials.LostMs += f.fleet.NowMs() - j.sinceMs
		id := f.next(turn, 0)
		f.begin(turn, id)
		return f.fleet.Resend(id)
	})
	return nil
}

// lost ends a request that has failed for good. Its client has tokens tokens.
func (f *faultRun) lost(turn int32, tokens int, cause string) {
	f.trials[turn].LostTokens += tokens
	f.Journal.Failed(f.fleet.NowMs())
	f.collector.Again(engine.RequestID(turn), tokens)
	f.collector.Terminal(engine.RequestID(turn), report.Lost, cause)
	f.close(turn)
	f.driver.Rejected(turn, f.fleet.NowMs())
}

func (f *faultRun) close(turn int32) {
	f.turns[turn].open = false
	f.open--
}

// count changes the counts of a fault, if there is one.
func (f *faultRun) count(event int, change func(*FaultEvent)) {
	if event != noFault {
		change(&f.events[event])
	}
}

// Ended implements [fleet.Faults]. An attempt has come to the end of its request, or was rejected. Another one of the
// same request is not needed any more.
func (f *faultRun) Ended(id engine.RequestID) error {
	a := &f.attempts[id]
	others := f.claim(id)
	if !a.over {
		f.collector.AttemptEnds(engine.RequestID(a.turn), id)
	}
	a.over = true
	f.close(a.turn)
	return f.takeBack(others)
}

// began records the attempts that get a token at the end of a pass and had none in the pass before.
func (f *faultRun) began(pass *engine.Pass) error {
	for _, s := range joinedOrSingle(pass) {
		if err := f.takeBack(f.claim(s.ID)); err != nil {
			return err
		}
	}
	return nil
}

// claim makes an attempt the only one of its turn, as its tokens are what the client gets. It returns the others, which
// are over.
func (f *faultRun) claim(id engine.RequestID) (others []engine.RequestID) {
	a := &f.attempts[id]
	if a.over {
		return nil
	}
	j := &f.turns[a.turn]
	j.first = true
	for _, other := range j.live {
		if other != id {
			f.attempts[other].over = true
			f.Journal.Over(other, "cancelled")
			others = append(others, other)
		}
	}
	j.live = append(j.live[:0], id)
	return others
}

// takeBack takes attempts that are over back from workers and routers.
func (f *faultRun) takeBack(ids []engine.RequestID) error {
	for _, id := range ids {
		f.Journal.Unsent(id, f.fleet.NowMs())
		if err := f.recall(id); err != nil {
			return err
		}
	}
	return nil
}

// admitted records what a pass of worker i that has just begun admits.
func (f *faultRun) admitted(role engine.Role, i int, pass *engine.Pass) *engine.Pass {
	seen := &engine.Pass{StartMs: pass.StartMs, EndMs: pass.EndMs, Copied: pass.Copied}
	for _, a := range pass.Admitted {
		of := &f.attempts[a.ID]
		if of.over {
			continue
		}
		t := f.driver.Turn(of.turn)
		j := &f.turns[of.turn]
		if j.begun == unassigned {
			j.begun = a.ID
		}
		if !of.admitted && j.begun != a.ID {
			again := max(0, t.InputTokens+int(of.base)-a.ReusedTokens)
			f.trials[of.turn].RecomputedTokens += again
			f.Journal.Recomputes(role, i, again, pass.StartMs)
		}
		of.admitted = true
		reused := a.ReusedTokens
		if of.base > 0 { // what the client had is no part of the input
			reused = min(reused, t.InputTokens)
		}
		seen.Admitted = append(seen.Admitted,
			engine.Admission{ID: engine.RequestID(of.turn), ReusedTokens: reused, Rank: a.Rank})
	}
	return seen
}

// emitted records what clients see of a pass, at endMs: the tokens of attempts that are not over.
func (f *faultRun) emitted(pass *engine.Pass, endMs float64) *engine.Pass {
	seen := &engine.Pass{StartMs: pass.StartMs, EndMs: endMs, Tokens: pass.Tokens}
	for _, s := range pass.Started {
		if a := &f.attempts[s.ID]; !a.over {
			seen.Started = append(seen.Started,
				engine.TokenRun{ID: engine.RequestID(a.turn), Index: s.Index + int(a.base)})
		}
	}
	for _, s := range pass.Singles {
		if a := &f.attempts[s.ID]; !a.over {
			seen.Singles = append(seen.Singles,
				engine.TokenRun{ID: engine.RequestID(a.turn), Index: s.Index + int(a.base)})
		}
	}
	if len(pass.Singles) > 0 { // without any left the pass must not look like one in which the emitting set emits
		seen.Tokens = len(seen.Singles)
	}
	for _, b := range pass.Bursts {
		if a := &f.attempts[b.ID]; !a.over {
			seen.Bursts = append(seen.Bursts, engine.Burst{ID: engine.RequestID(a.turn), Tokens: b.Tokens})
		}
	}
	for _, s := range joinedOrSingle(seen) {
		if s.Index == 0 {
			f.Journal.First(s.ID, endMs)
		}
	}
	for _, id := range pass.Finished {
		if a := &f.attempts[id]; !a.over {
			seen.Finished = append(seen.Finished, engine.RequestID(a.turn))
			f.Journal.Served(engine.RequestID(a.turn), endMs)
		}
	}
	return seen
}

// show makes clients see the end of a pass of a worker that emits tokens.
func (f *faultRun) show(pool, i int, pass *engine.Pass) error {
	if f.pools[pool].Role == engine.Prefill {
		f.divide(pool, i, pass)
		return nil
	}
	if err := f.began(pass); err != nil {
		return err
	}
	f.record(i, f.emitted(pass, f.fleet.NowMs()))
	f.divide(pool, i, pass)
	return nil
}

// record puts what clients see of a pass of worker i on record.
func (f *faultRun) record(i int, seen *engine.Pass) {
	for _, s := range joinedOrSingle(seen) {
		f.collector.Worker(s.ID, i)
	}
	f.collector.Pass(i, seen)
}

// divide divides the time of a pass whose end is seen, and whose start was recorded.
func (f *faultRun) divide(pool, i int, pass *engine.Pass) {
	emits := pool == len(f.pools)-1
	f.collector.AttemptPass(!emits, i, pass)
	for _, s := range joinedOrSingle(pass) {
		if a := &f.attempts[s.ID]; emits && !a.over && s.Index+int(a.base) == 0 {
			f.collector.FirstToken(engine.RequestID(a.turn), s.ID)
		}
	}
}

// joinedOrSingle returns the requests of a pass that join the emitting set or emit a token by themselves: all whose
// first token the pass can have emitted.
func joinedOrSingle(pass *engine.Pass) []engine.TokenRun {
	return slices.Concat(pass.Started, pass.Singles)
}
