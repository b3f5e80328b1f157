package report

import (
	"math"

	"dynosim/gocore/engine"
)

// Attribution divides the latencies of each request among what it spent them on. docs/why.md defines the parts.
//
// At any time a request is in one state. While it waits or its KV moves, the time that passes belongs to one part.
// While it takes part in the passes of a worker, the time belongs to the parts of those passes; a worker adds these up
// from pass to pass, so a request only has to be looked at when its state changes, and what it spent in between is the
// difference of two sums:
//
//	worker    pass 1   pass 2   pass 3 ... (a coast) ... pass 90
//	sums      x        x        x                        x
//	request   |--computing-----|--decoding-----------------|         looked at three times
//
// Passes in which a request computes part of its prompt are looked at one by one.

// Part is what a request spends time on.
type Part uint8

// The parts of a latency, in the order in which they are shown.
const (
	RouterWait   Part = iota // until a router has chosen a worker
	WorkerWait               // on the worker, until the first pass that it takes part in
	OwnPrompt                // computing its prompt
	OtherPrompts             // others' prompts in the passes that compute its own
	Preempted                // after it has lost its KV, until it takes part in a pass again
	Recompute                // computing tokens again that it had computed before
	KVWait                   // for room for its KV on a decode worker, and for that worker to take it over
	KVTransfer               // its KV moves, between workers or back from host memory
	Decode                   // the decode part of the passes that it takes part in
	DecodeSlowed             // others' prompts in passes while it decodes
	Host                     // the host's time: step_overhead_us, request_overhead_us and the like
	LostTime                 // to faults; only runs with faults have this part
	numParts
)

var partNames = [numParts]string{
	"router_wait", "worker_wait", "own_prompt", "other_prompts", "preempted", "recompute", "kv_wait", "kv_transfer",
	"decode",
	"decode_slowed", "host", "lost",
}

// PartNames lists the parts of a run without faults, in the order in which they are shown.
func PartNames() []string { return partNames[:LostTime] }

// names lists the parts that a latency can have here.
func (a *attribution) names() []string {
	if a.attempts != nil {
		return partNames[:]
	}
	return PartNames()
}

// attribution is what a collector knows of the parts of latencies.
type attribution struct {
	requests []spent // by request; parts of a collector share it
	workers  []progress
	prefill  []progress                     // of prefill workers
	delayMs  func(engine.RequestID) float64 // of a request on its way to the scheduler of the first worker
	cutShort bool                           // the run may end before its requests do
	// atLoss are requests that lost their KV after a token, as they were then. Only a run that may be cut short needs
	// them.
	atLoss map[engine.RequestID]spent
	// atSingle is the sums of the worker when a request emitted its last token by itself (engine.Pass). Only such a run
	// needs them.
	atSingle map[engine.RequestID]passSums
	// attempts is what a run with faults needs besides; nil without.
	attempts *attempts
}

// spent is what a request has spent so far.
type spent struct {
	state    spending
	joined   bool     // it has taken part in a pass
	decoded  bool     // it has emitted a token
	computed int32    // prompt tokens that were computed, at some time
	sinceMs  float64  // waiting: when that began
	at       passSums // taking part: the sums of the worker up to which its time has been divided
	parts    shares
	first    shares // the parts when the first token was emitted

	ttftMs, e2eMs float64 // NaN if it does not count
}

// shares are the times of all parts.
type shares [numParts]float64

// spending is the state of a request: the part that its time belongs to while it waits, or one of those below.
type spending uint8

const (
	computing spending = spending(numParts) + iota // takes part in passes, and has no token since it was admitted
	decoding                                       // takes part in passes, and has
	ended
)

// Attribute makes the collector divide latencies among their parts, from the start of a run. A request needs delayMs
// from the first worker that gets them to its scheduler. cutShort tells that the run may end before its requests do.
func (c *Collector) Attribute(requests int, delayMs func(engine.RequestID) float64, cutShort bool) {
	a := &attribution{
		requests: make([]spent, requests), workers: make([]progress, len(c.workers)), delayMs: delayMs,
		cutShort: cutShort,
		atLoss:   map[engine.RequestID]spent{}, atSingle: map[engine.RequestID]passSums{},
	}
	nan := math.NaN()
	for i := range a.requests {
		a.requests[i].ttftMs, a.requests[i].e2eMs = nan, nan
	}
	c.attribution = a
}

// attributes reports whether the collector divides latencies.
func (c *Collector) attributes() bool { return c.attribution != nil }

// part returns the attribution of the part of a collector that has one worker.
func (a *attribution) part(worker int) *attribution {
	if a == nil {
		return nil
	}
	return &attribution{
		requests: a.requests, workers: a.workers[worker : worker+1], delayMs: a.delayMs, cutShort: a.cutShort,
		atLoss: map[engine.RequestID]spent{}, atSingle: map[engine.RequestID]passSums{},
	}
}

// Spends records that from ms on the time of a request belongs to part, until it takes part in a pass or spends it
// otherwise.
func (c *Collector) Spends(id engine.RequestID, part Part, ms float64) {
	if c.attribution != nil {
		c.attribution.requests[id].spends(part, ms)
	}
}

func (q *spent) spends(part Part, ms float64) {
	q.pause(ms)
	q.state, q.sinceMs = spending(part), ms
}

// pause ends what a request has waited for.
func (q *spent) pause(ms float64) {
	if q.state < spending(numParts) {
		q.parts[q.state] += gap(q.sinceMs, ms)
	}
}

// arrived begins the time of a request.
func (a *attribution) arrived(id engine.RequestID, ms float64) {
	if a != nil {
		a.requests[id].state, a.requests[id].sinceMs = spending(RouterWait), ms
	}
}

// takesPart divides the time since the request was last looked at, up to what the sums of its worker are to.
func (q *spent) takesPart(to passSums) {
	others := OtherPrompts
	if q.state == decoding {
		others = DecodeSlowed
	}
	q.parts[others] += to.promptMs - q.at.promptMs
	q.parts[Decode] += to.decodeMs - q.at.decodeMs
	q.parts[Host] += to.hostMs - q.at.hostMs
	q.parts[WorkerWait] += to.idleMs - q.at.idleMs
	q.parts[LostTime] += to.lostMs - q.at.lostMs
	q.at = to
}

// pass divides the time of the requests whose state a pass changes, or that compute part of their prompts. Requests
// that have all tokens at its end go on to after.
func (a *attribution) pass(w *progress, p *engine.Pass) (atEnd passSums) {
	atStart := w.began(p)
	atEnd = w.passSums
	if p.Parts == nil {
		for _, admitted := range p.Admitted {
			a.joins(admitted.ID, p.StartMs, atStart)
		}
		return atEnd
	}
	for _, l := range p.Parts.Loaded {
		a.loaded(l)
	}
	for _, id := range p.Parts.Joined {
		a.joins(id, p.StartMs, atStart)
	}
	for _, id := range p.Parts.LostAtStart {
		a.loses(id, p.StartMs, atStart)
	}
	a.computes(p.Parts, atStart, atEnd)
	return atEnd
}

// joins begins the time in which a request takes part in passes.
func (a *attribution) joins(id engine.RequestID, ms float64, at passSums) {
	q := &a.requests[id]
	if q.state >= spending(numParts) { // it did not leave
		return
	}
	q.pause(ms)
	if !q.joined {
		delay := min(a.delayMs(id), q.parts[WorkerWait])
		q.parts[WorkerWait] -= delay
		q.parts[Host] += delay
	}
	q.state, q.joined, q.at = computing, true, at
}

// loaded takes the time in which the KV of a waiting request was copied back from what it spent on waiting.
func (a *attribution) loaded(l engine.HostLoad) {
	q := &a.requests[l.ID]
	if q.state >= spending(numParts) {
		return
	}
	waits := Part(q.state)
	q.spends(KVTransfer, max(l.FromMs, q.sinceMs))
	q.spends(waits, max(l.UntilMs, q.sinceMs))
}

// loses ends that time: the request waits for its turn again.
func (a *attribution) loses(id engine.RequestID, ms float64, at passSums) {
	q := &a.requests[id]
	if q.state != computing && q.state != decoding {
		return
	}
	q.takesPart(at)
	if a.cutShort && q.state == decoding {
		a.atLoss[id] = *q
	}
	q.state, q.sinceMs = spending(Preempted), ms
}

// computes divides the prompt part of a pass among the requests that share it, by tokens.
func (a *attribution) computes(p *engine.Parts, atStart, atEnd passSums) {
	all := 0
	for _, s := range p.Prompts {
		all += s.Tokens
	}
	for _, s := range p.Prompts {
		q := &a.requests[s.ID]
		if q.state != computing && q.state != decoding {
			continue
		}
		q.takesPart(atStart)
		own := p.PromptMs
		if s.Tokens < all {
			own = float64(own * (float64(s.Tokens) / float64(all)))
			q.parts[OtherPrompts] += p.PromptMs - own
		}
		q.computesAgain(own, s)
		q.parts[Decode] += p.DecodeMs
		q.parts[Host] += p.HostMs
		q.parts[LostTime] += atEnd.lostMs - atStart.lostMs
		q.at = atEnd
	}
}

// computesAgain divides the time of a request's own tokens among new ones and those that it had computed before.
func (q *spent) computesAgain(ownMs float64, s engine.PromptShare) {
	again := min(s.Tokens, max(0, int(q.computed)-s.Start))
	if q.decoded {
		again = s.Tokens
	}
	recompute := float64(ownMs * (float64(again) / float64(s.Tokens)))
	q.parts[Recompute] += recompute
	q.parts[OwnPrompt] += ownMs - recompute
	q.computed = max(q.computed, int32(s.Start+s.Tokens))
}

// tokens notes the tokens of a pass of a worker that emits them.
func (a *attribution) tokens(p *engine.Pass, atEnd passSums) {
	for _, s := range p.Started {
		a.requests[s.ID].starts(s.Index, atEnd)
	}
	for _, s := range p.Singles {
		a.requests[s.ID].starts(s.Index, atEnd)
		if a.cutShort {
			a.atSingle[s.ID] = atEnd
		}
	}
	for _, id := range p.Finished {
		a.requests[id].takesPart(atEnd)
		a.requests[id].state = ended
	}
}

// starts notes that a request begins, or goes on, to emit tokens.
func (q *spent) starts(index int, atEnd passSums) {
	if q.state == computing {
		q.takesPart(atEnd)
		q.state = decoding
	}
	if index == 0 {
		q.first = q.parts
	}
	q.decoded = true
}

// emittingPass divides the time of the requests in a pass of a worker that emits tokens.
func (a *attribution) emittingPass(worker int, p *engine.Pass) {
	if a == nil || a.attempts != nil {
		return
	}
	a.emitted(worker, p)
}

func (a *attribution) emitted(worker int, p *engine.Pass) {
	w := &a.workers[worker]
	atEnd := a.pass(w, p)
	a.tokens(p, atEnd)
	a.losesAtEnd(p, atEnd)
	if a.cutShort && p.Tokens > 0 && len(p.Singles) == 0 {
		w.log = append(w.log, atEnd)
	}
}

// prefillPass does the same for a prefill worker. Its tokens do not count; requests that have theirs wait for the next
// step.
func (a *attribution) prefillPass(worker int, p *engine.Pass) {
	if a == nil || a.attempts != nil {
		return
	}
	a.prefilled(worker, p)
}

func (a *attribution) prefilled(worker int, p *engine.Pass) {
	atEnd := a.pass(a.prefillWorker(worker), p)
	for _, id := range p.Finished {
		a.requests[id].takesPart(atEnd)
		a.requests[id].state, a.requests[id].sinceMs = spending(RouterWait), p.EndMs
	}
	a.losesAtEnd(p, atEnd)
}

// prefillWorker returns how far a prefill worker is. There may be more of them than when the run began.
func (a *attribution) prefillWorker(worker int) *progress {
	for worker >= len(a.prefill) {
		a.prefill = append(a.prefill, progress{})
	}
	return &a.prefill[worker]
}

func (a *attribution) losesAtEnd(p *engine.Pass, atEnd passSums) {
	if p.Parts == nil {
		return
	}
	for _, id := range p.Parts.LostAtEnd {
		a.loses(id, p.EndMs, atEnd)
	}
}
