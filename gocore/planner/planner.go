// Package planner is what a replay and something that scales its pools tell each other.
//
// At chosen instants of simulated time, its ticks, a planner sees what the workers have done since the tick before, and
// says how many workers each pool is to have and when it wants to be asked again. The workers of an aggregated run
// count as decode workers.
package planner

import (
	"fmt"
	"math"

	"dynosim/gocore/engine"
)

// Planner decides how many workers each pool has. Its methods are called in the order of simulated time.
type Planner interface {
	// Wants tells what the ticks have to hold. It never changes.
	Wants() Wants
	// InitialTickMs is when the first tick is due: at 0 if it is negative, never if it is not finite.
	InitialTickMs() (float64, error)
	// OnTick decides. The slices of the tick are valid during the call.
	OnTick(*Tick) (Decision, error)
}

// Ender is a planner that wants to see the end of the run.
type Ender interface {
	// End sees what has happened since the last tick, once all requests are over.
	End(*Tick) error
}

// Wants is what a planner looks at. What it does not want is not collected.
type Wants struct {
	Passes bool // Pool.Passes, and the tokens and forwards of Traffic
	Gauges bool // Pool.Gauges, and the ids beside them
	TTFT   bool // Traffic.TTFTsMs
}

// Tick is what a planner sees.
type Tick struct {
	NowMs           float64
	Prefill, Decode Pool
	Traffic         Traffic
}

// Pool is the state of a pool of workers.
type Pool struct {
	Active   int // workers that get new requests
	Starting int // that will be active later
	Total    int // active, starting and draining
	// Held is the number of requests that wait in the router or, without any active worker, before it.
	Held   int
	Passes []Pass  // that ended since the tick before, in the order in which they were applied
	Gauges []Gauge // of the active workers, by ascending id
	// With Gauges, the ids of the workers that will be active later, and of those that only end the requests they have.
	StartingIDs, DrainingIDs []int
}

// Pass is a pass that has ended: what it did, and what waited when it had begun.
type Pass struct {
	Worker         int
	StartMs, EndMs float64
	engine.Work
}

// Seconds returns how long the pass took.
func (p *Pass) Seconds() float64 { return (p.EndMs - p.StartMs) / 1000 }

// Gauge is what a worker has to do at the tick.
type Gauge struct {
	Worker               int
	Waiting, Running     int // requests
	ActiveBlocks, Blocks int // those in use, and all
}

// Traffic is what happened between the tick before, or the beginning, and this one.
type Traffic struct {
	SinceMs, NowMs float64
	Arrived        int // requests
	// Requests that completed, and sums over them.
	Requests     int
	InputTokens  int
	OutputTokens int // that were asked for
	// TTFTs above 0 and their sum.
	TTFTs     int
	TTFTSumMs float64
	// Mean inter-token latencies of the requests that were to get several tokens, and their sum.
	ITLs     int
	ITLSumMs float64
	// Requests that the KV router has sent to a worker, and the sum of the shares of their prompts that were cached
	// there.
	Hits   int
	HitSum float64
	// Tokens emitted by the passes that ended, and the requests that got any, added up over the passes.
	Tokens, Forwards int
	// TTFTsMs of the requests that completed.
	TTFTsMs []float64
}

// DurationS returns the length of the window.
func (t *Traffic) DurationS() float64 { return (t.NowMs - t.SinceMs) / 1000 }

// Complete counts a request that has completed. The latencies are in milliseconds.
func (t *Traffic) Complete(inputTokens, outputTokens int, ttftMs, itlMs float64) {
	t.Requests++
	t.InputTokens += inputTokens
	t.OutputTokens += outputTokens
	if ttftMs > 0 {
		t.TTFTs++
		t.TTFTSumMs += ttftMs
	}
	if outputTokens > 1 && !math.IsNaN(itlMs) {
		t.ITLs++
		t.ITLSumMs += itlMs
	}
}

// Hit counts a request that the KV router has sent to a worker which has overlap of its blocks.
func (t *Traffic) Hit(overlap, blocks int) {
	t.Hits++
	t.HitSum += float64(overlap) / float64(blocks)
}

// Mean returns sum/n, 0 without any.
func Mean(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Decision is what a planner wants.
type Decision struct {
	// Prefill and Decode are the numbers of workers, Unchanged to leave a pool alone.
	Prefill, Decode int
	NextMs          float64 // the next tick; there is none if it is not finite
	Reason          string  // why, for the report
}

// Check reports what is wrong with a decision at a tick, in a run with one pool or two.
func (d Decision) Check(nowMs float64, twoPools bool) error {
	wrong := func(field string, got any, want string) error {
		return &DecisionError{AtMs: nowMs, Field: field, Got: got, Want: want}
	}
	switch workers := fmt.Sprintf("0 to %d", MaxWorkers); {
	case d.Prefill != Unchanged && !twoPools:
		return wrong("target_prefill", d.Prefill, "None in a run with one pool, whose workers are target_decode")
	case d.Prefill != Unchanged && (d.Prefill < 0 || d.Prefill > MaxWorkers):
		return wrong("target_prefill", d.Prefill, workers)
	case d.Decode != Unchanged && (d.Decode < 0 || d.Decode > MaxWorkers):
		return wrong("target_decode", d.Decode, workers)
	case d.NextMs <= nowMs && !math.IsInf(d.NextMs, 0):
		return wrong("next_tick_ms", d.NextMs, "a later time, or None for no further tick")
	}
	return nil
}

// DecisionError is the error of a decision that cannot be carried out.
type DecisionError struct {
	AtMs  float64 // of the tick
	Field string
	Got   any
	Want  string
}

func (e *DecisionError) Error() string {
	return fmt.Sprintf("planner: at %v ms %s: got %v, want %s", e.AtMs, e.Field, e.Got, e.Want)
}

// MaxWorkers is how many workers a planner may ask for in one pool.
const MaxWorkers = 10_000

// Unchanged leaves a pool as it is.
const Unchanged = -1

// Event is a change of the number of workers that a pool is to have.
type Event struct {
	AtMs   float64 `json:"at_ms"`
	Pool   string  `json:"pool"` // "agg", "prefill" or "decode"
	From   int     `json:"from"` // active and starting workers
	To     int     `json:"to"`
	Reason string  `json:"reason"`
}
