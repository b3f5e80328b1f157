package openai

import (
	"sync"
	"time"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/server/cluster"
)

// Workers is what the simulated workers of a model have to do, as they report it. It may be used from several
// goroutines.
type Workers struct {
	mu   sync.Mutex
	list []*WorkerState
	at   [][]int // by pool and worker, where in the list
	now  func() time.Time
}

// WorkerState is one worker.
type WorkerState struct {
	Pool   string // prefill or decode, "" for both
	Number int    // as metrics have it
	// Blocks is the size of the KV pool in blocks of BlockSize tokens, Limit the number of requests that may run at
	// once, 0 for any.
	Blocks, BlockSize, Limit int
	cluster.Load
	// Rate is tokens of answers per second, over a second or more.
	Rate float64

	called string    // instead of Pool and Number, of workers elsewhere
	since  time.Time // of the time over which Rate is measured
	then   int       // tokens that had been generated
}

// NewWorkers returns a list without workers.
func NewWorkers() *Workers { return &Workers{now: time.Now} }

// AddPool adds workers that have no load yet.
func (w *Workers) AddPool(name string, args *engineargs.Args, workers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var at []int
	for range workers {
		at = append(at, len(w.list))
		w.list = append(w.list, &WorkerState{
			Pool: name, Number: len(w.list), Blocks: args.NumGPUBlocks, BlockSize: args.BlockSize, Limit: limitOf(args),
			since: w.now(),
		})
	}
	w.at = append(w.at, at)
}

// limitOf returns how many requests run at once at most on a worker, 0 for any number.
func limitOf(args *engineargs.Args) int {
	if args.MaxNumSeqs >= 1<<31 {
		return 0
	}
	return args.MaxNumSeqs
}

// Changed records the load of a worker.
func (w *Workers) Changed(pool, worker int, l cluster.Load) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list[w.at[pool][worker]].Load = l
}

// rateOver is the shortest time over which rates are measured.
const rateOver = time.Second

// All returns the state of every worker.
func (w *Workers) All() []WorkerState {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	all := make([]WorkerState, len(w.list))
	for i, s := range w.list {
		if past := now.Sub(s.since); past >= rateOver {
			s.Rate, s.since, s.then = float64(s.Generated-s.then)/past.Seconds(), now, s.Generated
		}
		all[i] = *s
	}
	return all
}

// Usage returns the share of the KV pool that requests hold.
func (s *WorkerState) Usage() float64 { return share(s.UsedBlocks, s.Blocks) }

// HitRate returns the share of the tokens of prompts that were found in the cache.
func (s *WorkerState) HitRate() float64 { return share(s.Reused, s.LookedUp) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
