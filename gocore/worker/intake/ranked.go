package intake

import "dynosim/gocore/engine"

// Ranked is an [Engine] around one with data-parallel ranks. Requests on their way to a rank do not wait there yet.
type Ranked struct {
	*Engine
	ranks engine.Ranked
	idle  engine.Pass // of each rank, while a pass only waits
}

var _ engine.Ranked = (*Ranked)(nil)

// NewRanked does what New does.
func NewRanked(inner engine.Ranked, delay Delay, blockSize int) *Ranked {
	return &Ranked{Engine: New(inner, delay, blockSize), ranks: inner}
}

// ObserveRanks implements [engine.Ranked].
func (r *Ranked) ObserveRanks() { r.ranks.ObserveRanks() }

// ChooseRank implements [engine.Ranked].
func (r *Ranked) ChooseRank(nowMs float64) int { return r.ranks.ChooseRank(nowMs) }

// Lockstep implements [engine.LockstepReporter].
func (r *Ranked) Lockstep() engine.Lockstep { return r.ranks.Lockstep() }

// RankPass implements [engine.Ranked].
func (r *Ranked) RankPass(rank int) *engine.Pass {
	if r.waited {
		r.idle = engine.Pass{StartMs: r.waiting.StartMs, EndMs: r.waiting.EndMs}
		return &r.idle
	}
	return r.ranks.RankPass(rank)
}

// RankWork implements [engine.Ranked].
func (r *Ranked) RankWork(rank int) engine.Work {
	work := r.ranks.RankWork(rank)
	if r.waited {
		work.Scheduled = engine.Phases{}
	}
	return work
}

// RankLoad implements [engine.Ranked].
func (r *Ranked) RankLoad(rank int) (waiting, running, activeBlocks int) {
	return r.ranks.RankLoad(rank)
}
