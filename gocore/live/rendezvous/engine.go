package rendezvous

import (
	"fmt"
	"log/slog"
	"sync"

	"dynosim/gocore/handoff"
	"dynosim/gocore/protocol/bootstrap"
)

// Engine is one request in the engine of this side.
type Engine interface {
	// Do asks for something and does not wait for it: Submit, Release or CancelSource on a prefill worker, Reserve,
	// Activate or CancelDestination on a decode worker. The outcome follows later, in the order in which things happen,
	// from any goroutine; tell never waits either.
	Do(action handoff.Action, tell func(bootstrap.Fact))
}

// Config describes a worker, for both sides of its hand-offs.
type Config struct {
	EngineType string
	Order      handoff.Order
	Ranks      int     // engines of the worker
	PerRank    int     // hand-offs of each at the same time
	TimeoutMs  float64 // of a hand-off, the transfer not counted
	Log        *slog.Logger
}

// LimitError says that a rank has as many hand-offs as it may have.
type LimitError struct{ Rank int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("mocker handoff session limit reached for DP rank %d", e.Rank)
}

// places counts the hand-offs of each rank.
type places struct {
	mu    sync.Mutex
	limit int
	taken []int
}

func newPlaces(c *Config) *places { return &places{limit: c.PerRank, taken: make([]int, c.Ranks)} }

// take takes a place, until leave is called.
func (p *places) take(rank int) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[rank] >= p.limit {
		return nil, &LimitError{rank}
	}
	p.taken[rank]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken[rank]--
	}, nil
}
