package job

import (
	"encoding/json"
	"sync"

	"dynosim/gocore/planner"
)

// scalingNews are changes of the number of workers that the caller of a run has not been told of yet.
type scalingNews struct {
	mu     sync.Mutex
	events []planner.Event
}

// take returns the changes as a JSON list, and forgets them.
func (n *scalingNews) take() []byte {
	n.mu.Lock()
	events := n.events
	n.events = nil
	n.mu.Unlock()
	if len(events) == 0 {
		return []byte("[]")
	}
	text, err := json.Marshal(events)
	if err != nil {
		panic("job: changes of the number of workers do not marshal: " + err.Error())
	}
	return text
}

// add keeps what a decision changes in a pool.
func (n *scalingNews) add(pool string, state *planner.Pool, target int, t *planner.Tick, d planner.Decision) {
	from := state.Active + state.Starting
	if target == planner.Unchanged || target == from {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, planner.Event{AtMs: t.NowMs, Pool: pool, From: from, To: target, Reason: d.Reason})
}

// toldPlanner is a planner whose decisions are shown while the run goes on.
type toldPlanner struct {
	planner.Planner
	news     *scalingNews
	twoPools bool
}

// OnTick implements [planner.Planner].
func (p toldPlanner) OnTick(t *planner.Tick) (planner.Decision, error) {
	d, err := p.Planner.OnTick(t)
	switch {
	case err != nil:
	case p.twoPools:
		p.news.add("prefill", &t.Prefill, d.Prefill, t, d)
		p.news.add("decode", &t.Decode, d.Decode, t, d)
	default:
		p.news.add("agg", &t.Decode, d.Decode, t, d)
	}
	return d, err
}
