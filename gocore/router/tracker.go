package router

import (
	"fmt"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/timing"
)

// tracker knows what each worker is doing: the requests sent to it that have not ended, the blocks they fill, and the
// prompt tokens still to be computed.
//
// A request fills the full blocks of its prompt until it ends; what it generates is not counted. Blocks that requests
// of one worker share count once, unless the configuration says that nothing is shared.
type tracker struct {
	trackBlocks   bool
	shareBlocks   bool
	trackPrefill  bool
	estimate      Estimate // nil: the prefill load of a prompt stays whole until it is done
	busyAbove     float64  // prefill tokens
	activeBlocks  []int64  // per worker
	prefillTokens []int64  // per worker, booked and not completed
	numBusy       int      // workers whose prefillTokens exceed busyAbove

	ranking   *ranking // of the workers by their load; nil if workers are priced one by one
	blockSize int64    // for its keys

	units    unitTable // blocks of active requests, one holder per unit, worker and set
	prefill  []prefillList
	requests []tracked
	spare    []int32 // unused places in requests
	places   map[int32]int32
	decayed  []int64 // room for tokensAt
}

// tracked is an active request. What is at its place in requests is arbitrary once it has ended.
type tracked struct {
	worker  int32
	blocks  int32 // full blocks of the prompt, if blocks are tracked
	prompt  kvcache.Prompt
	prefill prefillEntry
}

func newTracker(c Config, workers int, busyAbove float64, estimate Estimate) *tracker {
	return &tracker{
		trackBlocks:   c.TrackActiveBlocks,
		shareBlocks:   c.AssumeKVReuse,
		trackPrefill:  c.TrackPrefillTokens,
		estimate:      estimate,
		busyAbove:     busyAbove,
		activeBlocks:  make([]int64, workers),
		prefillTokens: make([]int64, workers),
		prefill:       make([]prefillList, workers),
		places:        make(map[int32]int32),
	}
}

// booking is a request that starts on a worker.
type booking struct {
	id        int32
	worker    int32
	prompt    kvcache.Prompt
	tokens    int       // of the prompt
	uncached  int       // of those, not cached by the worker
	stretches []stretch // the full blocks of the prompt
	blocks    int       // their number
}

// add books a request. An id that is active already is an error.
func (t *tracker) add(b booking, nowMs float64) error {
	if _, active := t.places[b.id]; active {
		return fmt.Errorf("request %d is active already", b.id)
	}
	place := t.place()
	t.places[b.id] = place
	r := &t.requests[place]
	*r = tracked{worker: b.worker, prompt: b.prompt}
	if t.trackBlocks {
		r.blocks = int32(b.blocks)
		t.addBlocks(b.worker, b.stretches, b.blocks)
	}
	if t.trackPrefill && b.uncached > 0 {
		r.prefill = t.prefillEntry(b)
		t.prefill[b.worker].push(t.requests, place, t.nanos(nowMs))
		t.changePrefill(b.worker, int64(b.uncached))
	}
	t.rank(b.worker)
	return nil
}

func (t *tracker) place() int32 {
	if last := len(t.spare) - 1; last >= 0 {
		place := t.spare[last]
		t.spare = t.spare[:last]
		return place
	}
	t.requests = append(t.requests, tracked{})
	return int32(len(t.requests) - 1)
}

// prefillCompleted ends the prefill load of a request, if it has any. The request must be active.
func (t *tracker) prefillCompleted(id int32, nowMs float64) error {
	place, active := t.places[id]
	if !active {
		return fmt.Errorf("the prefill of request %d is done, but no such request is active", id)
	}
	t.endPrefill(place, nowMs)
	t.rank(t.requests[place].worker)
	return nil
}

func (t *tracker) endPrefill(place int32, nowMs float64) {
	r := &t.requests[place]
	if r.prefill.tokens == 0 {
		return
	}
	t.prefill[r.worker].remove(t.requests, place, t.nanos(nowMs))
	t.changePrefill(r.worker, -r.prefill.tokens)
	r.prefill = prefillEntry{}
}

// free ends a request. It reports false if no such request is active. room is for the prompt's stretches, and returned
// grown.
func (t *tracker) free(id int32, nowMs float64, room []stretch) ([]stretch, bool) {
	place, active := t.places[id]
	if !active {
		return room, false
	}
	t.endPrefill(place, nowMs)
	r := &t.requests[place]
	if r.blocks > 0 {
		room = appendStretches(room[:0], r.prompt, int(r.blocks))
		t.removeBlocks(r.worker, room, int(r.blocks))
	}
	t.rank(r.worker)
	*r = tracked{} // lets go of the prompt
	delete(t.places, id)
	t.spare = append(t.spare, place)
	return room, true
}

// changePrefill adds to the booked prefill tokens of a worker and keeps the number of busy ones.
func (t *tracker) changePrefill(worker int32, tokens int64) {
	was := t.isBusy(t.prefillTokens[worker])
	t.prefillTokens[worker] += tokens
	switch is := t.isBusy(t.prefillTokens[worker]); {
	case is && !was:
		t.numBusy++
	case was && !is:
		t.numBusy--
	}
}

func (t *tracker) isBusy(prefillTokens int64) bool {
	return float64(prefillTokens) > t.busyAbove
}

// allBusy reports whether every worker has more prefill load than busyAbove.
func (t *tracker) allBusy(nowMs float64) bool {
	if t.estimate == nil || t.numBusy < len(t.prefillTokens) { // the load can only have shrunk since it was booked
		return t.numBusy == len(t.prefillTokens)
	}
	nowNs := t.nanos(nowMs)
	for worker := range t.prefill {
		if !t.isBusy(t.tokensOf(worker, nowNs)) {
			return false
		}
	}
	return true
}

// tokensAt returns the prefill load of every worker. The slice is valid until the next call.
func (t *tracker) tokensAt(nowMs float64) []int64 {
	if t.estimate == nil {
		return t.prefillTokens
	}
	nowNs := t.nanos(nowMs)
	t.decayed = t.decayed[:0]
	for worker := range t.prefill {
		t.decayed = append(t.decayed, t.tokensOf(worker, nowNs))
	}
	return t.decayed
}

func (t *tracker) tokensOf(worker int, nowNs int64) int64 {
	return t.prefill[worker].tokensAt(t.requests, t.prefillTokens[worker], nowNs)
}

// nanos returns the time in whole nanoseconds. Only the decay of prefill load needs it.
func (t *tracker) nanos(nowMs float64) int64 {
	if t.estimate == nil {
		return 0
	}
	return timing.Nanos(max(nowMs, 0) / 1000)
}

// newBlocks returns how many blocks a prompt would add to a worker on which none of them is active.
func (t *tracker) newBlocks(blocks int) int {
	if !t.trackBlocks {
		return 0
	}
	return blocks
}

// shared returns how many leading blocks of a prompt active requests fill on each worker; workers without any are left
// out.
func (t *tracker) shared(q *query, prompt []stretch) []match {
	if !t.trackBlocks || !t.shareBlocks {
		return nil
	}
	return t.units.leading(q, prompt)
}

func (t *tracker) addBlocks(worker int32, prompt []stretch, blocks int) {
	if !t.shareBlocks {
		t.activeBlocks[worker] += int64(blocks)
		return
	}
	for i := range prompt {
		t.activeBlocks[worker] += int64(t.hold(worker, &prompt[i]))
	}
}

func (t *tracker) removeBlocks(worker int32, prompt []stretch, blocks int) {
	if !t.shareBlocks {
		t.activeBlocks[worker] -= int64(blocks)
		return
	}
	for i := range prompt {
		t.activeBlocks[worker] -= int64(t.letGo(worker, &prompt[i]))
	}
}

// hold adds a reference to a stretch and returns how many of its blocks were not active there before.
func (t *tracker) hold(worker int32, s *stretch) int {
	list := t.units.holders(s.unit)
	var present blockSet
	i := lowerBound(list, worker)
	for ; i < len(list) && list[i].worker == worker; i++ {
		present.include(&list[i].blocks)
		if list[i].blocks == s.blocks {
			list[i].refs++
			return 0
		}
	}
	t.units.insert(s.unit, i, holder{blocks: s.blocks, worker: worker, refs: 1})
	return s.blocks.without(&present)
}

// letGo removes a reference to a stretch and returns how many of its blocks are not active there any more.
//
// The sets of one worker in a unit are paths through it, so there are few: the deepest block determines a path.
func (t *tracker) letGo(worker int32, s *stretch) int {
	list := t.units.holders(s.unit)
	var present blockSet
	own := 0
	for i := lowerBound(list, worker); i < len(list) && list[i].worker == worker; i++ {
		if list[i].blocks == s.blocks {
			own = i
			continue
		}
		present.include(&list[i].blocks)
	}
	if list[own].refs--; list[own].refs > 0 {
		return 0
	}
	t.units.remove(s.unit, own)
	return s.blocks.without(&present)
}
