package workload

import (
	"fmt"
	"slices"
	"strings"
)

// dependencies tells when requests that wait for others may start.
type dependencies struct {
	waits   []int32   // by turn: completions it still waits for
	afterMs []float64 // by turn: the latest of those so far
	next    [][]int32 // by turn: the turns that wait for it, each once for each time that it does
}

func newDependencies(waitFor [][]int32) *dependencies {
	d := &dependencies{
		waits:   make([]int32, len(waitFor)),
		afterMs: make([]float64, len(waitFor)),
		next:    make([][]int32, len(waitFor)),
	}
	for turn, awaited := range waitFor {
		d.waits[turn] = int32(len(awaited))
		for _, earlier := range awaited {
			d.next[earlier] = append(d.next[earlier], int32(turn))
		}
	}
	return d
}

// over records that a turn is over and calls start for every turn that no longer waits for another, with the time at
// which the last turn it waited for was over.
func (d *dependencies) over(turn int32, nowMs float64, start func(turn int32, afterMs float64)) {
	for _, next := range d.next[turn] {
		d.waits[next]--
		d.afterMs[next] = max(d.afterMs[next], nowMs)
		if d.waits[next] == 0 {
			start(next, d.afterMs[next])
		}
	}
}

// circle finds turns that wait for each other in a circle: each for the one after it, and the last for the first. It
// returns nil if there are none.
func circle(waitFor [][]int32) []int32 {
	d := newDependencies(waitFor)
	var free []int32
	for turn := range waitFor {
		if d.waits[turn] == 0 {
			free = append(free, int32(turn))
		}
	}
	for i := 0; i < len(free); i++ {
		d.over(free[i], 0, func(next int32, _ float64) { free = append(free, next) })
	}
	if len(free) == len(waitFor) {
		return nil
	}
	// Every turn that is left waits for another one that is left, so following them leads back to a turn seen before.
	at := int32(slices.IndexFunc(d.waits, func(left int32) bool { return left > 0 }))
	place := make(map[int32]int)
	var path []int32
	for {
		if first, met := place[at]; met {
			return path[first:]
		}
		place[at] = len(path)
		path = append(path, at)
		at = waitFor[at][slices.IndexFunc(waitFor[at], func(earlier int32) bool { return d.waits[earlier] > 0 })]
	}
}

// circleFault returns the error for a circle.
func circleFault(names []string, turns []int32) error {
	const shown = 6
	var b strings.Builder
	for i, turn := range turns {
		if i == shown {
			fmt.Fprintf(&b, "... (%d more) -> ", len(turns)-shown)
			break
		}
		fmt.Fprintf(&b, "%q -> ", names[turn])
	}
	return fmt.Errorf("wait_for: a dependency cycle, so that none of these can start: %s%q", b.String(),
		names[turns[0]])
}
