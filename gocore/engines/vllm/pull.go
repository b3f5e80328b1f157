package vllm

import (
	"cmp"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/roster"
	"dynosim/gocore/engines/internal/transit"
)

// Hand-offs by vLLM's own rules (engine.Puller), those of its NixlConnector. A prefill worker keeps the blocks of a request that is
// over until a decode worker has read them. On a decode worker a request waits like any other; but what the head of the queue
// starts there is a load of its prompt, which takes blocks and neither a seat nor tokens of the budget:
//
//	waiting --blocks for the prompt--> held: loading --its KV is there--> held: loaded --seat, one token--> running
//
// The held queue comes before the waiting queue in each pass; a request whose KV is not there is passed over. The last token of a
// loaded prompt is computed on the decode worker, and gives the first token of the answer. A request that is preempted there
// computes what it lost; nothing is loaded twice.

// pulls is what a scheduler knows of the hand-offs that it takes part in.
type pulls struct {
	awake bool                           // something has happened since a pass was composed in which nothing could run
	ended []ending                       // transfers that have ended, which no pass has noticed yet
	kept  transit.Sources[*sequence]     // on a prefill worker
	held  []*sequence                    // on a decode worker: those that load, and those that have loaded and do not run yet
	loads map[engine.RequestID]*sequence // those of them that load
}

// ending is the end of a transfer.
type ending struct {
	id   engine.RequestID
	atMs float64
}

// pulled is what a request keeps of its load.
type pulled struct {
	done    bool // its KV is there
	reused  int  // tokens that were found here when it began
	runFrom int  // the batch that computes the last token of its prompt
}

var _ engine.Puller = (*Scheduler)(nil)

// Awake implements [engine.Puller].
func (s *Scheduler) Awake() bool {
	return s.pulls.awake && (s.Requests() > 0 || len(s.pulls.ended) > 0)
}

// Transferred implements [engine.Puller].
func (s *Scheduler) Transferred(id engine.RequestID, atMs float64) {
	s.pulls.awake = true
	s.pulls.ended = append(s.pulls.ended, ending{id, atMs})
}

// TransferredInPass implements [engine.Puller].
func (s *Scheduler) TransferredInPass(id engine.RequestID) {
	s.pulls.awake = true
	s.loaded(id)
}

// again reports whether an empty pass that has just been composed is followed by another one at the same instant, as it preempted
// requests or has noticed that transfers have ended.
func (s *Scheduler) again(b *batch) bool {
	noticed := s.applyTransfers(&s.out.ReleasedAtStart)
	s.pulls.awake = b.preempted > 0 || noticed
	return s.pulls.awake
}

// landTransfers applies the transfers that had ended when a pass started, at its end.
func (s *Scheduler) landTransfers(b *batch) {
	if !b.empty() {
		s.pulls.awake = true
		s.applyTransfers(&s.out.Released)
	}
}

// applyTransfers applies the ends of all transfers that are known: loaded requests may run, and what has been read elsewhere is
// given up, in order of the ends. It reports whether there were any.
func (s *Scheduler) applyTransfers(released *[]engine.RequestID) bool {
	p := &s.pulls
	if len(p.ended) == 0 {
		return false
	}
	slices.SortStableFunc(p.ended, func(a, b ending) int { return cmp.Or(cmp.Compare(a.atMs, b.atMs), cmp.Compare(a.id, b.id)) })
	for _, e := range p.ended {
		if r, ok := p.kept.Take(e.id); ok {
			s.release(r)
			s.forget(r)
			*released = append(*released, e.id)
		} else {
			s.loaded(e.id)
		}
	}
	p.ended = p.ended[:0]
	return true
}

// loaded lets a request run whose KV is there.
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

// load begins to load the prompt of r, the head of the waiting queue; false if there is no room. Beside the blocks of the prompt,
// those have to be free that prompts which are still being computed will take.
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

// admitLoaded makes those requests run whose KV is there, in the order in which they began to load, and returns what is left of
// the budget. Each computes the last token of its prompt, which counts as a decode.
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
