package report

import "dynosim/gocore/engine"

// How the latencies of a run with faults are divided, where a request may need several attempts.
//
// Each attempt has a time of its own, as a request has without faults. It begins with what went before, which is lost:
//
//	request     arrival                                                     last token
//	attempt 1   |--queue--|--prompt--|--decode--X                           its worker is lost
//	attempt 2                                   |--queue--|--prompt--|--decode--|
//	latency     |------------- lost ------------|--queue--|--prompt--|--decode--|
//
// The time to first token has the parts that the attempt with the first token had then. Passes are divided when their
// ends are seen, since faults change how long they take.
type attempts struct {
	first   []shares // by request: the parts of the attempt with its first token, when that was emitted
	counted []spent  // by request: the attempt that completed it
	// broken is what the attempt with the last token of a request had spent then, if it was lost. Only a run that may
	// be cut short needs it.
	broken map[engine.RequestID]spent
}

// AttributeAttempts makes the collector divide the latencies of attempts, if Attribute was called: AttemptPass tells of
// their passes.
func (c *Collector) AttributeAttempts() {
	if a := c.attribution; a != nil {
		a.attempts = &attempts{first: make([]shares, len(a.requests)), counted: make([]spent, len(a.requests)),
			broken: map[engine.RequestID]spent{}}
		copy(a.attempts.counted, a.requests)
	}
}

// AttemptBegins records another attempt of a request. Ids of attempts follow each other, from the number of requests
// on.
func (c *Collector) AttemptBegins(id, request engine.RequestID, ms float64) {
	a := c.attribution
	if a == nil {
		return
	}
	for int(id) >= len(a.requests) {
		a.requests = append(a.requests, spent{})
	}
	q := &a.requests[id]
	q.state, q.sinceMs = spending(RouterWait), ms
	q.parts[LostTime] = gap(c.record(request).arrivalMs, ms)
}

// AttemptPass divides a pass whose end is seen. Its requests are attempts.
func (c *Collector) AttemptPass(prefill bool, worker int, p *engine.Pass) {
	a := c.attribution
	if a == nil || p.Parts == nil && p.Tokens == 0 { // nothing happened in it
		return
	}
	var w *progress
	if prefill {
		w = a.prefillWorker(worker)
	} else {
		w = &a.workers[worker]
	}
	parts, seen := engine.Parts{}, *p
	if p.Parts != nil {
		parts = *p.Parts
	}
	seen.Parts = &parts
	if w.begun { // the end of the pass before may have been seen late
		seen.StartMs = max(p.StartMs, w.lastMs)
	}
	seen.EndMs = max(p.EndMs, seen.StartMs)
	lostMs := fitParts(&parts, p, seen.EndMs-seen.StartMs)
	w.waitedMs = lostMs
	if prefill {
		a.prefilled(worker, &seen)
	} else {
		a.emitted(worker, &seen)
	}
	w.waitedMs = 0
}

// fitParts makes the parts of a pass those of one that takes lengthMs, and returns what it takes longer because of
// faults.
func fitParts(parts *engine.Parts, p *engine.Pass, lengthMs float64) (lostMs float64) {
	const rounding = 1e-9
	if p.Tokens > 0 && p.Scheduled == 0 { // of a coast that was interrupted
		parts.HostMs = min(parts.HostMs, lengthMs)
		parts.DecodeMs = lengthMs - parts.HostMs
	}
	whole := parts.PromptMs + parts.DecodeMs + parts.HostMs
	switch {
	case whole == 0: // it only waits
	case lengthMs > whole+rounding*max(1, p.EndMs):
		return lengthMs - whole
	case lengthMs < whole:
		scale := lengthMs / whole
		parts.PromptMs *= scale
		parts.DecodeMs *= scale
		parts.HostMs *= scale
	}
	return 0
}

// CoastFrom records that a worker coasts from ms on.
func (c *Collector) CoastFrom(worker int, ms float64) {
	if a := c.attribution; a != nil && a.workers[worker].begun {
		w := &a.workers[worker]
		w.idleMs += gap(w.lastMs, ms)
		w.lastMs = max(w.lastMs, ms)
	}
}

// FirstToken records that a request has its first token, from an attempt.
func (c *Collector) FirstToken(request, id engine.RequestID) {
	if a := c.attribution; a != nil {
		a.attempts.first[request] = a.requests[id].first
	}
}

// AttemptEnds records that an attempt has completed its request.
func (c *Collector) AttemptEnds(request, id engine.RequestID) {
	if a := c.attribution; a != nil {
		q := a.requests[id]
		q.first = a.attempts.first[request]
		a.attempts.counted[request] = q
	}
}

// AttemptBreaks records that an attempt of a request was lost, after Interrupt.
func (c *Collector) AttemptBreaks(request, id engine.RequestID) {
	if a := c.attribution; a != nil && a.cutShort {
		r := c.record(request)
		if q, emitted := a.atLastToken(id, r, int(r.worker)-c.first); emitted {
			a.attempts.broken[request] = q
		}
	}
}

// AttemptsCut records that the run ended while a request was not over, after Cut. live are its attempts.
func (c *Collector) AttemptsCut(request engine.RequestID, live []engine.RequestID) {
	a := c.attribution
	if a == nil {
		return
	}
	r := c.record(request)
	q := a.attempts.broken[request]
	for _, id := range live {
		if last, emitted := a.atLastToken(id, r, int(r.worker)-c.first); emitted || last.state == ended {
			q = last
		}
	}
	q.first = a.attempts.first[request]
	a.attempts.counted[request] = q
}

// AttemptsEnd ends the attempts that are left when a run has ended.
func (c *Collector) AttemptsEnd() {
	if a := c.attribution; a != nil {
		a.requests = a.attempts.counted
	}
}
