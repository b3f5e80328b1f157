package vllm

import (
	"cmp"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/roster"
	"dynosim/gocore/engines/internal/transit"
	"dynosim/gocore/kvcache/paged"
)

// Hand-offs by vLLM's own rules (engine.Puller), those of its NixlConnector. A prefill worker keeps the blocks of a
// request that is over until a decode worker has read them. On a decode worker a request waits like any other; but what
// the head of the queue starts there is a load of its prompt, which takes blocks and neither a seat nor tokens of the
// budget:
//
//	waiting --blocks for the prompt--> held: loading --its KV is there--> held: loaded --seat, one token--> running
//
// The held queue comes before the waiting queue in each pass; a request whose KV is not there is passed over. The last
// token of a loaded prompt is computed on the decode worker, and gives the first token of the answer. A request that is
// preempted there computes what it lost; nothing is loaded twice.
//
// A transfer that has ended is noticed when a batch is composed, and takes effect when the results of that batch are
// there. With asynchronous scheduling a batch is composed when the one before it starts, and an empty one that was
// composed ahead is only waited for after the next one has been composed.

// pulls is what a scheduler knows of the hand-offs that it takes part in.
type pulls struct {
	awake bool     // something has happened since a pass was composed in which nothing could run
	ended []ending // transfers that have ended, which no batch has noticed yet
	late  []ending // those that an empty batch has noticed which was composed ahead
	trail bool     // there is such a batch, whose results are there after the next composition
	// of requests that were preempted while a batch in flight computes tokens for them
	lost []lostBlocks
	kept transit.Sources[*sequence] // on a prefill worker
	// on a decode worker: those that load, and those that have loaded and do not run yet
	held  []*sequence
	loads map[engine.RequestID]*sequence // those of them that load
	// instantly reports whether a transfer takes no time; nil if each takes some.
	instantly func(id engine.RequestID) bool
}

// ending is the end of a transfer.
type ending struct {
	id   engine.RequestID
	atMs float64
}

// lostBlocks are those of a preempted request, which go when the batch in flight has ended.
type lostBlocks struct {
	registered   []paged.Slot
	unregistered int
}

// pulled is what a request keeps of its load.
type pulled struct {
	done    bool // its KV is there
	reused  int  // tokens that were found here when it began
	runFrom int  // the batch that computes the last token of its prompt
}

var _ engine.Puller = (*Scheduler)(nil)

// Awake implements [engine.Puller].
func (s *Scheduler) Awake() bool { return s.pulls.awake && (s.Requests() > 0 || s.endsPending()) }

// endsPending reports whether any transfer has ended without having had its effect yet.
func (s *Scheduler) endsPending() bool {
	return len(s.pulls.ended) > 0 || len(s.pulls.late) > 0 || s.flying != nil && len(s.flying.noticed) > 0
}

// Transferred implements [engine.Puller].
func (s *Scheduler) Transferred(id engine.RequestID, atMs float64) {
	s.pulls.awake = true
	s.pulls.ended = append(s.pulls.ended, ending{id, atMs})
}

// Instantly implements [engine.Puller].
func (s *Scheduler) Instantly(is func(id engine.RequestID) bool) { s.pulls.instantly = is }

// notice records, for a batch just composed, which transfers have ended.
func (s *Scheduler) notice(b *batch) {
	b.noticed = append(b.noticed, s.pulls.ended...)
	s.pulls.ended = s.pulls.ended[:0]
}

// setAside keeps what an empty batch has noticed until another one, waited for first, is done.
func (s *Scheduler) setAside(b *batch) {
	s.pulls.trail = s.handsOff
	s.pulls.late = append(s.pulls.late, b.noticed...)
}

// applyLate applies what such a batch has noticed, after another one has been composed. It reports whether there was
// such a batch, and whether it has noticed anything.
func (s *Scheduler) applyLate() (trail, some bool) {
	trail, some = s.pulls.trail, len(s.pulls.late) > 0
	s.apply(s.pulls.late, &s.out.ReleasedAtStart)
	s.pulls.trail, s.pulls.late = false, s.pulls.late[:0]
	return trail, some
}

// again reports whether an empty pass that has just been composed is followed by another one at the same instant. It is
// if it preempted requests or noticed ends of transfers, or if the pass that was waited for before it (trail) has
// noticed some.
func (s *Scheduler) again(b *batch, trail, some bool) bool {
	some = some || b.preempted > 0 || len(b.noticed) > 0
	switch {
	case !trail:
		s.apply(b.noticed, &s.out.ReleasedAtStart)
	case some:
		s.setAside(b)
	}
	b.noticed = b.noticed[:0]
	return some
}

// land applies what a pass has noticed, at its end. The part that a rank has of a common pass may be empty.
func (s *Scheduler) land(b *batch) {
	if !b.empty() || len(b.noticed) > 0 {
		s.pulls.awake = true
		s.apply(b.noticed, &s.out.Released)
	}
}

// apply applies ends of transfers: loaded requests may run, and what has been read elsewhere is given up, in order of
// the ends.
func (s *Scheduler) apply(ended []ending, released *[]engine.RequestID) {
	slices.SortStableFunc(ended, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.atMs, b.atMs),
			cmp.Compare(a.id, b.id))
	})
	for _, e := range ended {
		if r, ok := s.pulls.kept.Take(e.id); ok {
			s.release(r)
			s.forget(r)
			*released = append(*released, e.id)
		} else {
			s.loaded(e.id)
		}
	}
}

// overlook forgets that a transfer has ended.
func (s *Scheduler) overlook(id engine.RequestID) {
	isIt := func(e ending) bool { return e.id == id }
	s.pulls.ended = slices.DeleteFunc(s.pulls.ended, isIt)
	s.pulls.late = slices.DeleteFunc(s.pulls.late, isIt)
	if b := s.flying; b != nil {
		b.noticed = slices.DeleteFunc(b.noticed, isIt)
	}
}

// loaded lets a request run, as its KV has arrived.
func (s *Scheduler) loaded(id engine.RequestID) {
	if r := s.pulls.loads[id]; r != nil {
		r.pulled.done = true
		delete(s.pulls.loads, id)
	}
}

// keep takes a request that is over out of the running list, and keeps its blocks.
func (s *Scheduler) keep(r *sequence) {
	s.leaveRunning(r)
	r.status = kept
	s.pulls.kept.Keep(r)
}

// load begins to load the prompt of r, the head of the waiting queue; false if there is no room. Beside the blocks of
// the prompt, those have to be free that prompts which are still being computed will take.
func (s *Scheduler) load(r *sequence, hit prefix) bool {
	if s.ceilBlocks(r.promptTokens)-hit.held+s.owed() > s.freeAbove() {
		s.headWaits = true
		return false
	}
	s.waiting.PopFront()
	s.hold(r, hit)
	if !s.take(r, r.promptTokens) {
		panic("vllm: a prompt that fits the pool does not get its blocks")
	}
	r.pull, r.status = false, loading
	r.pulled.reused = hit.blocks * s.blockSize
	s.pulls.held = append(s.pulls.held, r)
	s.pulls.loads[r.id] = r
	s.out.Loads = append(s.out.Loads, engine.Load{ID: r.id, Blocks: r.unregistered})
	if s.pulls.instantly != nil && s.pulls.instantly(r.id) {
		s.pulls.ended = append(s.pulls.ended, ending{r.id, s.out.StartMs})
	}
	return true
}

// owed returns the number of blocks that running requests lack which have prompts, or tokens that they lost, to
// compute.
func (s *Scheduler) owed() (blocks int) {
	for _, r := range s.running[s.steady.prefix:] {
		if r.midPrompt {
			blocks += s.ceilBlocks(r.tokens()) - r.blocks()
		}
	}
	return blocks
}

// admitLoaded runs the requests whose KV has arrived, in the order in which they began to load, and returns what is
// left of the budget. Each computes the last token of its prompt, which counts as a decode.
func (s *Scheduler) admitLoaded(b *batch, budget int) int {
	held := s.pulls.held
	for i := 0; s.pulls.mayRun() && i < len(held) && budget > 0 && len(s.running) < s.rules.MaxActiveSeqs; {
		r := held[i]
		if !r.pulled.done {
			i++
			continue
		}
		if s.freeAbove() < 0 { // below the watermark
			return 0
		}
		held = slices.Delete(held, i, i+1)
		s.pulls.held = held
		r.computed = r.promptTokens - 1
		r.pulled.runFrom = b.number
		s.run(r, r.pulled.reused)
		s.serve(b, r, 1)
		budget--
	}
	return budget
}

// mayRun reports whether the KV of a held request is there.
func (p *pulls) mayRun() bool { return len(p.held) > len(p.loads) }

// sparesFromPreemption reports whether a request is not preempted although blocks are short, as the pass in flight
// computes a token for it. Then the request that lacks blocks waits for the next pass, with all behind it.
func (s *Scheduler) sparesFromPreemption(r *sequence) bool {
	return s.differs.sparesFlying && s.pulls.loads != nil && s.flying != nil && r.servedIn == s.flying.number
}

// giveBackLost gives back the blocks of requests that were preempted while the batch that ends now was in flight.
func (s *Scheduler) giveBackLost() {
	for _, lost := range s.pulls.lost {
		s.pool.Release(lost.registered, lost.unregistered)
		s.headWaits = false
	}
	s.pulls.lost = s.pulls.lost[:0]
}

// lose takes the blocks of a request that is preempted. A batch in flight that computes tokens for it keeps them until
// it ends: they might be written by then, while others load into them.
func (s *Scheduler) lose(r *sequence) {
	if !s.handsOff || s.flying == nil || r.servedIn != s.flying.number {
		s.release(r)
		return
	}
	s.registerLast(r)
	s.pulls.lost = append(s.pulls.lost, lostBlocks{slices.Clone(r.registered), r.unregistered})
	r.registered, r.unregistered = r.registered[:0], 0
}

// drop takes a request out of the held queue.
func (p *pulls) drop(r *sequence) {
	p.held = slices.DeleteFunc(p.held, func(q *sequence) bool { return q == r })
	delete(p.loads, r.id)
}

// append appends the requests that are held or kept to list.
func (p *pulls) append(list []*sequence) []*sequence {
	return p.kept.Append(append(list, p.held...))
}

// queued counts requests that wait. Those that load or have loaded have their prompts: they wait to decode.
func (s *Scheduler) queued() engine.Phases {
	p := roster.Queued(&s.waiting, (*sequence).waits)
	for _, r := range s.pulls.held {
		p.AddDecode(r.tokens())
	}
	return p
}

// prefills reports whether the share that r has of a batch is part of its prompt, as far as durations go.
func (r *sequence) prefills(b *batch) bool {
	return r.share.start < r.promptTokens && r.pulled.runFrom != b.number
}
