package workload

import (
	"cmp"
	"errors"
	"slices"
)

// TakeLanes bounds how many graphs of requests are in flight.
func (w *Workload) TakeLanes(count int) error {
	if w.WaitFor == nil && w.Format.String() != "weka" {
		return errors.New("want it left out, or a trace of agents: agentic_mooncake, weka, or dynamo with " +
			"agent_context; replay_concurrency bounds the sessions of others")
	}
	w.Lanes = count
	return nil
}

// lanes hold back whole graphs of requests: a number of these are in flight, and when all requests of one are over, the
// next begins. They go in the order of their recorded starts, which matter for nothing else.
type lanes struct {
	graphs  []graph
	of      []int32 // by turn: its graph
	pending int     // the first graph that has not begun
}

// graph is requests that are connected by what they wait for, or a session.
type graph struct {
	startMs float64 // of the earliest that waits for no other
	roots   []int32 // turns that wait for no other
	left    int32   // turns that are not over
}

// newLanes finds the graphs of a workload.
func newLanes(w *Workload) *lanes {
	l := &lanes{of: w.graphs()}
	number := make(map[int32]int32) // of a graph, by the turn that stands for it
	for turn, of := range l.of {
		n, known := number[of]
		if !known {
			n = int32(len(l.graphs))
			number[of] = n
			l.graphs = append(l.graphs, graph{})
		}
		l.of[turn] = n
		g := &l.graphs[n]
		g.left++
		if !w.isRoot(int32(turn)) {
			continue
		}
		if start := w.startOf(int32(turn)); len(g.roots) == 0 || start < g.startMs {
			g.startMs = start
		}
		g.roots = append(g.roots, int32(turn))
	}
	l.sort()
	return l
}

// sort puts the graphs in the order of their starts.
func (l *lanes) sort() {
	order := make([]int32, len(l.graphs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(l.graphs[a].startMs, l.graphs[b].startMs) })
	sorted, place := make([]graph, len(order)), make([]int32, len(order))
	for at, old := range order {
		sorted[at], place[old] = l.graphs[old], int32(at)
	}
	l.graphs = sorted
	for turn := range l.of {
		l.of[turn] = place[l.of[turn]]
	}
}

// graphs returns for each turn a turn that stands for its graph.
func (w *Workload) graphs() []int32 {
	if w.WaitFor != nil {
		return components(w.WaitFor)
	}
	of := make([]int32, len(w.Turns))
	for turn := range of {
		of[turn] = w.Sessions[w.Turns[turn].Session].First
	}
	return of
}

// isRoot reports whether a turn waits for no other.
func (w *Workload) isRoot(turn int32) bool {
	if w.WaitFor != nil {
		return len(w.WaitFor[turn]) == 0
	}
	return w.Sessions[w.Turns[turn].Session].First == turn
}

// components returns for each turn a turn that stands for all that it is connected with.
func components(waitFor [][]int32) []int32 {
	of := make([]int32, len(waitFor))
	for i := range of {
		of[i] = int32(i)
	}
	find := func(turn int32) int32 {
		for of[turn] != turn {
			of[turn] = of[of[turn]]
			turn = of[turn]
		}
		return turn
	}
	for turn, awaited := range waitFor {
		for _, earlier := range awaited {
			of[find(int32(turn))] = find(earlier)
		}
	}
	for turn := range of {
		of[turn] = find(int32(turn))
	}
	return of
}

// begin has the next graph begin at nowMs. Its requests that wait for no other come as far apart as they were recorded.
func (l *lanes) begin(nowMs float64, w *Workload, ready func(turn int32, atMs float64)) {
	if l.pending == len(l.graphs) {
		return
	}
	g := &l.graphs[l.pending]
	l.pending++
	for _, turn := range g.roots {
		ready(turn, nowMs+(w.startOf(turn)-g.startMs))
	}
}

// over records that a turn is over and reports whether its graph is, too.
func (l *lanes) over(turn int32) bool {
	g := &l.graphs[l.of[turn]]
	g.left--
	return g.left == 0
}

// startOf returns the start of the session of a turn.
func (w *Workload) startOf(turn int32) float64 { return w.Sessions[w.Turns[turn].Session].StartMs }
