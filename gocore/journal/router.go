package journal

import (
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/perfetto"
)

// router is the journal of what stands before the workers: decisions, and requests that wait for one.
type router struct {
	journal   *Journal
	out       *perfetto.Sequence // nil without a timeline
	waiting   int
	countedMs float64 // up to when waiting is in the series
	waits     counter
	lanes     slots // of slices of requests that wait
}

func (r *router) arrived(ms float64) { r.change(ms, +1) }

// change counts a request that begins or ends to wait.
func (r *router) change(ms float64, by int) {
	if totals := r.journal.totals; totals != nil && ms > r.countedMs {
		if waiting := float64(r.waiting); waiting > 0 {
			totals.over(r.countedMs, ms, func(in *window, partMs, _,
				_ float64) {
				in.waitingMs += float64(waiting * partMs)
			})
		}
		r.countedMs = ms
	}
	r.waiting += by
	r.waits.set(ms, r.waiting)
}

// sent notes the decision on a request.
func (r *router) sent(id engine.RequestID, to *worker, ms float64) {
	r.change(ms, -1)
	if r.out == nil {
		return
	}
	life := &r.journal.lives[id]
	from, at, ok := r.journal.cfg.within(life.arrivedMs, ms)
	if !ok {
		return
	}
	e := perfetto.Event{
		Track: decisionsTrack, AtNs: at, Name: "request ", Label: r.journal.label(id), Flow: flow(id),
		Args: []perfetto.Arg{{Name: "to worker", Value: int64(to.number)}},
	}
	if life.arrivedMs == ms {
		r.out.Instant(e)
		return
	}
	e.Track, e.AtNs = r.lane(life.arrivedMs, ms), from
	r.out.Begin(e)
	r.out.End(e.Track, at)
}

// lane returns the first lane that is free from one time to another, which is now.
func (r *router) lane(fromMs, toMs float64) perfetto.TrackID {
	i, fresh := r.lanes.take(fromMs, toMs)
	track := waitsTrack + perfetto.TrackID(i)
	if fresh {
		r.out.Describe(perfetto.Track{ID: track, Parent: routerTrack, Name: fmt.Sprintf("waiting %d", i+1),
			Rank: 2 + i})
	}
	return track
}

// slots are tracks side by side, for slices that may overlap: by track, the end of its last slice.
type slots []float64

// take gives a slice the first track that is free, and tells whether that is a new one.
func (s *slots) take(fromMs, toMs float64) (i int, fresh bool) {
	for i, endMs := range *s {
		if endMs <= fromMs {
			(*s)[i] = toMs
			return i, false
		}
	}
	*s = append(*s, toMs)
	return len(*s) - 1, true
}

func (r *router) close(ms float64) {
	r.change(ms, 0)
	if r.waits.begun || r.waiting > 0 { // no track without anything to see
		r.waits.close()
	}
}
