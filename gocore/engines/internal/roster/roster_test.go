package roster

import (
	"slices"
	"testing"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
)

type request struct {
	order int
	state engine.RequestState
}

func byOrder(a, b *request) int { return a.order - b.order }

func stateOf(r *request) engine.RequestState { return r.state }

func TestRoster(t *testing.T) {
	fresh := &request{order: 2, state: engine.RequestState{ID: 2, State: "waiting", PromptTokens: 30}}
	preempted := &request{order: 1, state: engine.RequestState{ID: 1, State: "preempted", PromptTokens: 40,
		Generated: 5}}
	retracted := &request{order: 0, state: engine.RequestState{ID: 0, State: "retracted", PromptTokens: 10,
		Generated: 1}}
	var queue deque.Deque[*request]
	for _, r := range []*request{fresh, preempted, retracted} {
		queue.PushBack(r)
	}
	p := Queued(&queue, func(r *request) (tokens int, decodes bool) {
		return r.state.PromptTokens + r.state.Generated, r.state.Preempted()
	})
	if p.PrefillRequests != 1 || p.PrefillTokens != 30 || p.DecodeRequests != 2 || p.DecodeKVTokens != 56 {
		t.Errorf("queued: %+v", p)
	}
	states := States(Append(nil, &queue), byOrder, stateOf)
	if !slices.Equal(states, []engine.RequestState{retracted.state, preempted.state, fresh.state}) {
		t.Errorf("states: %+v", states)
	}
}

func TestSpares(t *testing.T) {
	var s Spares[request]
	first := s.Take()
	s.Put(first)
	if s.Take() != first || s.Take() == first {
		t.Error("a request that is over is used once")
	}
}
