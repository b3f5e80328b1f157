package journal

import (
	"strconv"
	"testing"

	"dynosim/gocore/engine"
)

// TestLeavesOnce: a request that is rejected by a pass without duration, and then taken from its worker, leaves once.
func TestLeavesOnce(t *testing.T) {
	j := New(Config{Requests: 2, Series: true, StepMs: 10,
		Name: func(id engine.RequestID) string { return strconv.Itoa(int(id)) }})
	for id := range engine.RequestID(2) {
		j.Arrived(engine.Request{ID: id, PromptTokens: 10, OutputTokens: 2}, 0)
		j.Joined(engine.Prefill, 0, id, 0)
	}
	j.Pass(engine.Prefill, 0, nil, &engine.Pass{Rejected: []engine.Rejection{{ID: 0}}}, nil)
	j.Left(engine.Prefill, 0, 0)
	j.Left(engine.Prefill, 1, 20)
	j.Close()
	table := j.Table()
	waiting, _ := table.Floats("waiting")
	pool, _ := table.Strings("pool")
	number, _ := table.Ints("worker")
	for i, n := range waiting {
		if pool[i] == "prefill" && number[i] == 0 && n != 1 {
			t.Errorf("row %d: %v requests wait on the worker, not the other one alone", i, n)
		}
	}
}
