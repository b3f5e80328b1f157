package workload

import (
	"cmp"
	"maps"
	"slices"

	"dynosim/gocore/eventheap"
)

// Driver releases the turns of a scheduled workload as their time comes.
//
// At equal times sessions go in order of their first appearance.
type Driver struct {
	w *Workload

	starts  []int32 // trace mode: sessions not started yet, by start time
	ready   eventheap.Heap[int32]
	next    int32   // instead of starts, if turns are passing: the first that has not started,
	step    int32   // the distance to the one after it,
	nextMs  float64 // and the start of next
	current Turn    // the passing one that was asked for last,
	asked   int32   // and 1 + its number
	pending int     // concurrency mode: the first session not active yet

	concurrency bool
	unreleased  int

	dependencies *dependencies   // agentic traces
	lanes        *lanes          // if whole graphs wait for each other
	blocks       *interner       // mooncake-delta traces, once a turn was rejected
	silent       map[int32]bool  // those turns
	replanned    map[int32]*Turn // and those that follow them
}

// NewDriver returns a driver in trace mode, or in concurrency mode with at most maxSessions active if that is above 0.
func NewDriver(w *Workload, maxSessions int) *Driver {
	d := &Driver{w: w, concurrency: maxSessions > 0, unreleased: w.Len(), step: 1}
	if d.concurrency {
		for d.pending < min(maxSessions, w.sessions()) {
			d.activate(0)
		}
		return d
	}
	if w.passing != nil {
		d.skipTo(0)
		return d
	}
	if w.WaitFor != nil {
		d.dependencies = newDependencies(w.WaitFor)
	}
	if w.Lanes > 0 {
		d.lanes = newLanes(w)
		for range min(w.Lanes, len(d.lanes.graphs)) {
			d.lanes.begin(0, w, d.makeReady)
		}
		return d
	}
	d.starts = make([]int32, 0, len(w.Sessions))
	for i := range w.Sessions {
		if d.dependencies == nil || len(w.WaitFor[w.Sessions[i].First]) == 0 {
			d.starts = append(d.starts, int32(i))
		}
	}
	byStart := func(a, b int32) int { return cmp.Compare(w.Sessions[a].StartMs, w.Sessions[b].StartMs) }
	if !slices.IsSortedFunc(d.starts, byStart) {
		slices.SortStableFunc(d.starts, byStart)
	}
	return d
}

// Share returns a driver that releases every n-th of the turns of d, a driver in trace mode that has released nothing
// yet, from number i on, at the same times. The workload must be flat.
func (d *Driver) Share(i, n int) *Driver {
	share := &Driver{w: d.w}
	if d.w.passing != nil {
		share.step = int32(n)
		share.skipTo(int32(i))
		share.unreleased = (d.w.Len() - i + n - 1) / n
		return share
	}
	for ; i < len(d.starts); i += n {
		share.starts = append(share.starts, d.starts[i])
	}
	share.unreleased = len(share.starts)
	return share
}

// NextMs returns the time at which the next turn becomes ready, as far as is known now.
func (d *Driver) NextMs() (float64, bool) {
	start, hasStart := d.nextStart()
	if d.ready.Len() == 0 {
		return start.AtMs, hasStart
	}
	if !hasStart {
		return d.ready.NextMs(), true
	}
	return min(d.ready.NextMs(), start.AtMs), true
}

// Next releases the next turn that is ready at nowMs and returns the time at which its client sent it: in trace mode
// the time it became ready, in concurrency mode the time of its release.
func (d *Driver) Next(nowMs float64) (turn int32, arrivalMs float64, ok bool) {
	at, ok := d.NextMs()
	if !ok || at > nowMs {
		return 0, 0, false
	}
	d.unreleased--
	start, hasStart := d.nextStart()
	if top := d.ready.Top(); top != nil && (!hasStart || top.Before(&start)) {
		turn = d.ready.Pop()
	} else {
		d.start()
		turn = start.Value
	}
	if d.concurrency {
		return turn, nowMs, true
	}
	return turn, at, true
}

// Turn returns a turn as it is now. It differs from the workload's own only if an earlier turn of its session was
// rejected and the prompt would contain the tokens that one was to generate.
func (d *Driver) Turn(turn int32) *Turn {
	if t, changed := d.replanned[turn]; changed {
		return t
	}
	if d.w.passing != nil {
		if d.asked != turn+1 {
			d.w.passing.make(&d.current, turn)
			d.asked = turn + 1
		}
		return &d.current
	}
	return &d.w.Turns[turn]
}

// Completed tells that a turn has been served at nowMs: the session's next turn follows after its delay, or the
// session's place goes to the next one; and requests that wait for no other any longer follow after their delays.
func (d *Driver) Completed(turn int32, nowMs float64) {
	if d.lanes != nil && d.lanes.over(turn) {
		d.lanes.begin(nowMs, d.w, d.makeReady)
	}
	if next := d.following(turn); next != 0 {
		d.ready.Push(nowMs+d.w.Turns[next].DelayMs, int64(d.w.Turns[next].Session), next)
		return
	}
	if d.dependencies != nil {
		d.dependencies.over(turn, nowMs, func(next int32, afterMs float64) {
			d.makeReady(next, afterMs+d.w.Turns[next].DelayMs)
		})
	}
	if d.concurrency && d.pending < d.w.sessions() {
		d.activate(nowMs)
	}
}

// makeReady has a turn of an agentic trace released at a time.
func (d *Driver) makeReady(turn int32, atMs float64) {
	d.ready.Push(atMs, int64(d.w.Turns[turn].Session), turn)
}

// Rejected tells that a turn is over at nowMs without having generated its tokens. Everything goes on as if it had been
// served, but later prompts cannot contain these tokens.
func (d *Driver) Rejected(turn int32, nowMs float64) {
	if d.w.delta != nil && d.w.Turns[turn].Next != 0 {
		d.replan(turn)
	}
	d.Completed(turn, nowMs)
}

func (d *Driver) replan(rejected int32) {
	if d.blocks == nil {
		d.blocks = onTopOf(d.w.delta.blocks)
		d.silent, d.replanned = make(map[int32]bool), make(map[int32]*Turn)
	}
	maps.Copy(d.replanned, d.w.delta.replan(rejected, d.blocks, d.Turn, d.silent))
	d.silent[rejected] = true
}

// Unreleased returns the number of turns that have not been released.
func (d *Driver) Unreleased() int { return d.unreleased }

func (d *Driver) activate(nowMs float64) {
	first := int32(d.pending)
	if d.w.passing == nil {
		first = d.w.Sessions[d.pending].First
	}
	d.ready.Push(nowMs, int64(d.pending), first)
	d.pending++
}

// nextStart returns the session start that comes next in trace mode.
func (d *Driver) nextStart() (eventheap.Event[int32], bool) {
	if p := d.w.passing; p != nil && !d.concurrency && int(d.next) < p.len() {
		return eventheap.Event[int32]{AtMs: d.nextMs, Seq: int64(d.next), Value: d.next}, true
	}
	if len(d.starts) == 0 {
		return eventheap.Event[int32]{}, false
	}
	session := d.starts[0]
	s := &d.w.Sessions[session]
	return eventheap.Event[int32]{AtMs: s.StartMs, Seq: int64(session), Value: s.First}, true
}

// start takes the session that comes next from those that have not started.
func (d *Driver) start() {
	if d.w.passing != nil {
		d.skipTo(d.next + d.step)
		return
	}
	d.starts = d.starts[1:]
}

// skipTo makes a passing turn the next one that starts, if there are enough.
func (d *Driver) skipTo(turn int32) {
	if d.next = turn; int(turn) < d.w.passing.len() {
		d.nextMs = d.w.passing.startMs(turn)
	}
}

// following returns the next turn of a turn's session, 0 if there is none.
func (d *Driver) following(turn int32) int32 {
	if d.w.passing != nil {
		return 0
	}
	return d.w.Turns[turn].Next
}
