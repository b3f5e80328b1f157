package router

import (
	"fmt"
	"strings"
)

// Decision is how a worker was chosen for a request.
type Decision struct {
	AtMs       float64
	ID         int32
	Stage      string      // as in Options
	Candidates []Candidate // every worker, by ascending id; valid during the call only
	Chosen     int
	ChosenRank int     // of that worker, with Options.Ranks
	Tied       int     // workers with exactly the lowest cost, or ranks
	Pinned     bool    // Chosen came from Options.Pin
	WaitMs     float64 // in the router's queue
}

// Candidate is one worker as a decision saw it.
type Candidate struct {
	Worker        int
	Rank          int   // of that worker, with Options.Ranks
	OverlapBlocks int   // leading blocks of the prompt in its cache when the request arrived
	PrefillTokens int64 // prompt tokens it has yet to compute
	ActiveBlocks  int64 // distinct blocks that its requests fill
	NewBlocks     int   // blocks that the request would add to those
	Cost          float64
}

// PinMode says what a pinned choice has to be.
type PinMode uint8

const (
	// Checked wants a worker that the router could have chosen itself: one of the exactly cheapest, or at a temperature
	// above 0 any one whose probability is not 0.
	Checked PinMode = iota
	// Forced takes any worker, whatever it costs.
	Forced
)

// PinError says that a request is pinned to a worker that must not be chosen.
type PinError struct {
	AtMs   float64
	ID     int32
	Name   string // as messages call the request, if not by its number
	Stage  string
	Worker int
	Ranks  int       // as in Options
	Costs  []float64 // of every worker
}

func (e *PinError) Error() string {
	var b strings.Builder
	name := e.Name
	if name == "" {
		name = fmt.Sprintf("request %d", e.ID)
	}
	fmt.Fprintf(&b, "at %v ms %s", e.AtMs, name)
	if e.Stage != "" {
		fmt.Fprintf(&b, " (%s)", e.Stage)
	}
	ranks, what := max(1, e.Ranks), "workers"
	fmt.Fprintf(&b, " is pinned to worker %d, ", e.Worker/ranks)
	if ranks > 1 {
		what = "ranks of all workers"
		fmt.Fprintf(&b, "rank %d, ", e.Worker%ranks)
	}
	if e.Worker < 0 || e.Worker >= len(e.Costs) {
		fmt.Fprintf(&b, "want one from 0 to %d", len(e.Costs)/ranks-1)
		return b.String()
	}
	fmt.Fprintf(&b, "which costs %v, want one of the cheapest; the %s cost", e.Costs[e.Worker], what)
	for w, cost := range e.Costs {
		if w > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %v", cost)
	}
	return b.String()
}

// choose picks a worker among the priced candidates, or takes the pinned one. If workers come and go, the pinned one
// counts while it gets requests.
func (k *KV) choose(id int32, nowMs float64) (worker int, pinned bool, err error) {
	c := &k.candidates
	if k.pin != nil {
		if worker, pinned := k.pin(id); pinned {
			place, there := k.placeOf(worker)
			if there && !k.mayPin(place) {
				return 0, true, &PinError{AtMs: nowMs, ID: id, Stage: k.stage, Worker: worker,
					Ranks: k.ranks, Costs: append([]float64(nil), c.cost...)}
			}
			if there {
				return place, true, nil
			}
		}
	}
	if k.config.Temperature > 0 {
		return c.sample(k.config.Temperature, k.rng), false, nil
	}
	return c.pickCheapest(k.rng), false, nil
}

func (k *KV) mayPin(worker int) bool {
	c := &k.candidates
	switch {
	case worker < 0 || worker >= len(c.cost):
		return false
	case k.pinMode == Forced || c.cost[worker] == c.cheapest:
		return true
	default:
		return k.config.Temperature > 0 && c.weigh(k.config.Temperature) && c.weights[worker] > 0
	}
}

// report hands the decision to the log.
func (k *KV) report(d Decision, newBlocks int) {
	c := &k.candidates
	k.logged = k.logged[:0]
	d.Chosen, d.ChosenRank = d.Chosen/k.ranks, d.Chosen%k.ranks
	for w := range c.cost {
		id := k.workerAt(w)
		k.logged = append(k.logged, Candidate{
			Worker: id / k.ranks, Rank: id % k.ranks,
			OverlapBlocks: int(c.cached[w]),
			PrefillTokens: c.prefillTokens[w],
			ActiveBlocks:  c.activeBlocks[w],
			NewBlocks:     newBlocks - int(c.shared[w]),
			Cost:          c.cost[w],
		})
	}
	d.Candidates = k.logged
	k.log(d)
}
