package router

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"

	"dynosim/gocore/kvcache"
)

// naive is the router once more, slow and obvious: sets of blocks, lists of requests, everything counted afresh for
// each decision, as the rules are written. Only the draws are the same by agreement: one number per decision that needs
// one.
type naive struct {
	Options
	cached  []map[naiveBlock]bool // per worker
	active  []*naiveRequest       // in the order of booking
	waiting []*naiveWaiting       // in the order of arrival
	prefill []naivePrefill        // per worker
	fresh   kvcache.BlockID       // last id given to a block that is never shared
}

type naiveBlock struct {
	group int
	id    kvcache.BlockID
}

type naiveRequest struct {
	id      int32
	worker  int
	blocks  []kvcache.BlockID
	prefill *naiveEntry // nil if there is none (any more)
}

type naiveWaiting struct {
	Request
	overlap []int // per worker
	sinceMs float64
	score   float64
}

type naivePrefill struct {
	entries []*naiveEntry
	sinceNs int64 // of entries[0]
}

type naiveEntry struct {
	tokens     int
	durationNs int64
	modelled   bool
}

func newNaive(o Options) *naive {
	n := &naive{Options: o, prefill: make([]naivePrefill, o.Workers)}
	for range o.Workers {
		n.cached = append(n.cached, map[naiveBlock]bool{})
	}
	n.fresh = 1 << 63
	return n
}

func (n *naive) apply(worker int, events []kvcache.Event) {
	for _, e := range events {
		for id := range e.Blocks.All() {
			if e.Kind == kvcache.Stored {
				n.cached[worker][naiveBlock{e.Group, id}] = true
			} else {
				delete(n.cached[worker], naiveBlock{e.Group, id})
			}
		}
	}
}

func (n *naive) submit(r Request, nowMs float64) []naiveDecision {
	w := &naiveWaiting{Request: r, sinceMs: nowMs}
	blocks := r.Prompt.AppendBlocks(nil, 0, r.PromptTokens/n.BlockSize)
	best := 0
	for worker := range n.Workers {
		overlap := 0
		for overlap < len(blocks) && n.cached[worker][naiveBlock{0, blocks[overlap]}] {
			overlap++
		}
		for !n.goesOn(worker, blocks[:overlap]) {
			overlap--
		}
		w.overlap = append(w.overlap, overlap)
		best = max(best, overlap)
	}
	if !n.Config.Queueing || len(n.waiting) == 0 && !n.allBusy(nowMs) {
		return []naiveDecision{n.dispatch(w, nowMs)}
	}
	jump := float64(max(r.Priority, 0))
	switch n.Config.QueuePolicy {
	case FCFS:
		w.score = jump - nowMs/1000
	case LCFS:
		w.score = jump + nowMs/1000
	case WSPT:
		w.score = (1 + jump) / float64(max(r.PromptTokens-best*n.BlockSize, 1))
	}
	n.waiting = append(n.waiting, w)
	return nil
}

// has returns what a worker has cached in a group.
func (n *naive) has(worker, group int) map[kvcache.BlockID]bool {
	blocks := map[kvcache.BlockID]bool{}
	for b := range n.cached[worker] {
		if b.group == group {
			blocks[b.id] = true
		}
	}
	return blocks
}

// goesOn reports whether a worker has the last blocks of a prefix in all groups beside the first.
func (n *naive) goesOn(worker int, prefix []kvcache.BlockID) bool {
	for _, id := range prefix[max(0, len(prefix)-n.Groups.Run):] {
		for group := 1; group <= n.Groups.Beside; group++ {
			if !n.cached[worker][naiveBlock{group, id}] {
				return false
			}
		}
	}
	return true
}

func (n *naive) prefillCompleted(id int32, nowMs float64) (decisions []naiveDecision, known bool) {
	r := n.find(id)
	if r == nil {
		return nil, false
	}
	n.endPrefill(r, nowMs)
	return n.drain(nowMs), true
}

func (n *naive) free(id int32, nowMs float64) []naiveDecision {
	if r := n.find(id); r != nil {
		n.endPrefill(r, nowMs)
		n.active = slices.DeleteFunc(n.active, func(other *naiveRequest) bool { return other == r })
	}
	return n.drain(nowMs)
}

func (n *naive) cancel(id int32, nowMs float64) []naiveDecision {
	if n.find(id) != nil {
		return n.free(id, nowMs)
	}
	n.waiting = slices.DeleteFunc(n.waiting, func(w *naiveWaiting) bool { return w.ID == id })
	return nil
}

func (n *naive) find(id int32) *naiveRequest {
	for _, r := range n.active {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (n *naive) drain(nowMs float64) []naiveDecision {
	var decisions []naiveDecision
	for len(n.waiting) > 0 && !n.allBusy(nowMs) {
		first := 0
		for i, w := range n.waiting {
			f := n.waiting[first]
			if w.StrictPriority > f.StrictPriority || w.StrictPriority == f.StrictPriority && w.score > f.score {
				first = i
			}
		}
		w := n.waiting[first]
		n.waiting = slices.Delete(n.waiting, first, first+1)
		decisions = append(decisions, n.dispatch(w, nowMs))
	}
	return decisions
}

func (n *naive) allBusy(nowMs float64) bool {
	limit := float64(n.MaxNumBatchedTokens)
	if n.MaxNumBatchedTokens == math.MaxInt {
		limit = 10_000_000
	}
	for worker := range n.Workers {
		if float64(n.prefillTokens(worker, nowMs)) <= n.Config.QueueThreshold*limit {
			return false
		}
	}
	return true
}

// naiveDecision is a Decision with what the admission should say.
type naiveDecision struct {
	Decision
	admission Admission
}

func (n *naive) dispatch(w *naiveWaiting, nowMs float64) naiveDecision {
	d := Decision{AtMs: nowMs, ID: w.ID, Stage: n.Stage, WaitMs: nowMs - w.sinceMs}
	tracked := n.tracked(w.Request)
	least := math.MaxInt
	for worker := range n.Workers {
		least = min(least, n.prefillTokens(worker, nowMs))
	}
	var costs []float64
	for worker := range n.Workers {
		c := Candidate{Worker: worker, OverlapBlocks: w.overlap[worker],
			PrefillTokens: int64(n.prefillTokens(worker, nowMs))}
		held := n.held(worker)
		c.ActiveBlocks = int64(len(held))
		c.NewBlocks = len(tracked)
		for _, id := range tracked {
			if !held[id] {
				break
			}
			c.NewBlocks--
		}
		c.Cost = n.cost(c, w.PromptTokens, least)
		costs = append(costs, c.Cost)
		d.Candidates = append(d.Candidates, c)
	}
	var cheapest []int
	for worker, cost := range costs {
		if cost == slices.Min(costs) {
			cheapest = append(cheapest, worker)
		}
	}
	d.Tied = len(cheapest)
	d.Chosen, d.Pinned = n.choose(w.ID, costs, cheapest)
	overlap := w.overlap[d.Chosen]
	n.book(w.Request, d.Chosen, w.PromptTokens-overlap*n.BlockSize, tracked, nowMs)
	return naiveDecision{d, Admission{
		ID: w.ID, Worker: d.Chosen, OverlapBlocks: overlap,
		PromptBlocks: int(math.Ceil(float64(w.PromptTokens) / float64(n.BlockSize))), WaitMs: d.WaitMs,
	}}
}

func (n *naive) cost(c Candidate, tokens, least int) float64 {
	size, k := float64(n.BlockSize), 1.0
	cached := c.OverlapBlocks * n.BlockSize
	raw := 0
	if n.Config.TrackPrefillTokens {
		raw = int(c.PrefillTokens) + max(tokens-cached, 0) + cached
		if n.Config.OverlapCreditDecay > 0 {
			excess := float64(int(c.PrefillTokens)-least) / size
			share := excess / math.Ceil(float64(tokens)/size)
			decay := n.Config.OverlapCreditDecay * share
			k = 1.0 / (1.0 + decay)
		}
	}
	credit := (n.Config.OverlapCredit * k) * float64(c.OverlapBlocks)
	prefill := n.Config.PrefillLoadScale * math.Max(float64(raw)/size-credit, 0)
	return prefill + float64(int(c.ActiveBlocks)+c.NewBlocks)
}

func (n *naive) choose(id int32, costs []float64, cheapest []int) (worker int, pinned bool) {
	if n.Pin != nil {
		if worker, ok := n.Pin(id); ok {
			return worker, true
		}
	}
	temperature, low, high := n.Config.Temperature, slices.Min(costs), slices.Max(costs)
	if temperature == 0 || low == high {
		if len(cheapest) == 1 {
			return cheapest[0], false
		}
		return cheapest[n.Rand.IntN(len(cheapest))], false
	}
	scale := -1 / ((high - low) * temperature)
	offset := low * scale
	var weights []float64
	sum := 0.0
	for _, cost := range costs {
		product := cost * scale
		weights = append(weights, math.Exp(product-offset))
		sum += weights[len(weights)-1]
	}
	u, cumulative := n.Rand.Float64(), 0.0
	for worker, weight := range weights {
		cumulative += weight / sum
		if u <= cumulative {
			return worker, false
		}
	}
	return len(weights) - 1, false
}

func (n *naive) tracked(r Request) []kvcache.BlockID {
	if !n.Config.TrackActiveBlocks {
		return nil
	}
	blocks := r.Prompt.AppendBlocks(nil, 0, r.PromptTokens/n.BlockSize)
	if !n.Config.AssumeKVReuse {
		for i := range blocks {
			n.fresh++
			blocks[i] = n.fresh
		}
	}
	return blocks
}

func (n *naive) held(worker int) map[kvcache.BlockID]bool {
	held := map[kvcache.BlockID]bool{}
	for _, r := range n.active {
		if r.worker == worker {
			for _, id := range r.blocks {
				held[id] = true
			}
		}
	}
	return held
}

func (n *naive) book(r Request, worker, uncached int, tracked []kvcache.BlockID, nowMs float64) {
	booked := &naiveRequest{id: r.ID, worker: worker, blocks: tracked}
	n.active = append(n.active, booked)
	if !n.Config.TrackPrefillTokens || uncached == 0 {
		return
	}
	e := &naiveEntry{tokens: uncached}
	if n.Estimate != nil {
		e.durationNs, e.modelled = n.Estimate(uncached, r.PromptTokens-uncached)
	}
	booked.prefill = e
	p := &n.prefill[worker]
	if len(p.entries) == 0 {
		p.sinceNs = naiveNanos(nowMs)
	}
	p.entries = append(p.entries, e)
}

func (n *naive) endPrefill(r *naiveRequest, nowMs float64) {
	if r.prefill == nil {
		return
	}
	p := &n.prefill[r.worker]
	switch i := slices.Index(p.entries, r.prefill); {
	case i == 0:
		p.sinceNs = naiveNanos(nowMs)
	case r.prefill.modelled:
		p.sinceNs = min(p.sinceNs+r.prefill.durationNs, naiveNanos(nowMs))
	}
	p.entries = slices.DeleteFunc(p.entries, func(e *naiveEntry) bool { return e == r.prefill })
	r.prefill = nil
}

func (n *naive) prefillTokens(worker int, nowMs float64) int {
	p := n.prefill[worker]
	if len(p.entries) == 0 {
		return 0
	}
	sum, modelled := 0, true
	for _, e := range p.entries {
		sum += e.tokens
		modelled = modelled && e.modelled
	}
	front := p.entries[0]
	elapsed := max(naiveNanos(nowMs)-p.sinceNs, 0)
	switch {
	case n.Estimate == nil, !front.modelled:
		return sum
	case front.durationNs == 0:
		return sum - front.tokens
	case !modelled:
		left := 1 - (float64(elapsed)/1e9)/(float64(front.durationNs)/1e9)
		return sum - front.tokens + int(math.Ceil(float64(front.tokens)*min(max(left, 0), 1)))
	default:
		done := new(big.Int).Mul(big.NewInt(int64(front.tokens)), big.NewInt(elapsed))
		done.Div(done, big.NewInt(front.durationNs))
		if done.Cmp(big.NewInt(int64(sum))) > 0 {
			return 0
		}
		return sum - int(done.Int64())
	}
}

// naiveNanos is exact for the times of the tests, which are multiples of 1/8 ms.
func naiveNanos(ms float64) int64 { return int64(ms * 1e6) }

// naiveRand gives both routers equal generators.
func naiveRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 5)) }
