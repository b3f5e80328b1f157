package live

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
)

// Observer records what one data-parallel rank does, at the moment when it can be seen from outside. Its methods are
// called on the engine goroutine: they must not block.
type Observer interface {
	// CacheChanged reports the blocks that were stored or removed.
	CacheChanged([]blocks.Change)
	// PassEnded reports what a pass did and how long it took. Its tokens are sent after that.
	PassEnded(work engine.Work, durationMs float64)
	// LoadChanged reports the load after a pass, or after requests were cancelled.
	LoadChanged(Load)
}

// Load is the load of a rank.
type Load = enginemetrics.Load

// rank is what is seen of one data-parallel rank from outside. It belongs to the engine goroutine.
type rank struct {
	names     *blocks.Table
	observers []Observer                    // set before the engine runs
	metrics   *enginemetrics.RequestMetrics // of its requests; nil for none

	leaving          []*request // their blocks are released with the next events
	preemptions      int        // so far
	prompted, reused int        // tokens of prompts so far, and those found in the cache
	tokens           enginemetrics.TokenCounts
}

func newRank(args *engineargs.Args) *rank {
	k := &rank{names: blocks.New(args.BlockSize)}
	groups := args.LayerGroups()
	k.names.Group(blocks.Groups{Beside: groups.Beside, Run: groups.Run})
	return k
}

// publish reports cache events to the observers, and releases the names of the blocks of requests that have ended.
func (k *rank) publish(events []kvcache.Event) {
	changes := k.names.Resolve(events)
	for _, o := range k.observers {
		if len(changes) > 0 {
			o.CacheChanged(changes)
		}
	}
	for _, q := range k.leaving {
		k.names.Release(q.blocks)
	}
	clear(k.leaving)
	k.leaving = k.leaving[:0]
}

// place says on which rank a request is, in e, too. If no router has chosen one of several, the engine does.
func (r *runner) place(q *request, e *engine.Request) *rank {
	chosen := 0
	if r.lockstep != nil {
		if chosen = q.onRank - 1; chosen < 0 {
			chosen = r.lockstep.ChooseRank(e.SentMs)
		}
		e.OnRank = chosen + 1
	}
	q.rank.Store(r.ranks[chosen])
	return r.ranks[chosen]
}

// part returns what a rank did in the last pass.
func (r *runner) part(rank int, pass *engine.Pass) *engine.Pass {
	if r.lockstep == nil {
		return pass
	}
	return r.lockstep.RankPass(rank)
}

// publish reports the cache events of the last pass.
func (r *runner) publish(pass *engine.Pass) {
	for i, k := range r.ranks {
		k.publish(r.part(i, pass).KVEvents)
	}
}

// tellPass reports the pass that has ended. For a rank that had nothing to do there was none.
func (r *runner) tellPass(pass *engine.Pass) {
	ms := pass.EndMs - pass.StartMs
	if r.lockstep == nil {
		r.ranks[0].tellPass(r.engine.Work(), ms)
		return
	}
	for i, k := range r.ranks {
		if p := r.lockstep.RankPass(i); p.Scheduled > 0 || p.Preempted > 0 || len(p.Rejected) > 0 {
			k.tellPass(r.lockstep.RankWork(i), ms)
		}
	}
}

func (k *rank) tellPass(work engine.Work, ms float64) {
	for _, o := range k.observers {
		o.PassEnded(work, ms)
	}
}

// tellLoad reports the loads of all ranks.
func (r *runner) tellLoad() {
	for i, k := range r.ranks {
		load := Load{Preemptions: k.preemptions, Tokens: k.tokens}
		if r.lockstep != nil {
			load.Waiting, load.Running, load.UsedBlocks = r.lockstep.RankLoad(i)
		} else {
			load.Waiting, load.Running, load.UsedBlocks = r.engine.Load()
		}
		if k.prompted > 0 {
			load.CacheHitRate = float64(k.reused) / float64(k.prompted)
		}
		for _, o := range k.observers {
			o.LoadChanged(load)
		}
	}
}
