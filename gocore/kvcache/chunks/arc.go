package chunks

import (
	"container/list"
	"math"
	"slices"

	"dynosim/gocore/kvcache"
)

// arc is the adaptive replacement cache: chunks that were used once (recent) and those that were used again (frequent),
// each with a list of the keys that it lost last. What is asked for again after it was lost moves the share of the
// recent ones.
//
// Its runs have one chunk each.
type arc struct {
	capacity int
	share    float64 // how many chunks are to be recent

	recent, frequent         list.List // of *run, old to young
	lostRecent, lostFrequent list.List // of keys, old to young
	lost                     map[kvcache.BlockID]place
	gone                     []*run
}

// place is where a run or a lost key is.
type place struct {
	in      *list.List
	element *list.Element
}

func newARC(capacity int) *arc { return &arc{capacity: capacity, lost: map[kvcache.BlockID]place{}} }

func (a *arc) learn(r *Request, s *Store, fresh []Span) {
	if r.missed == nil {
		r.missed = map[kvcache.BlockID]bool{}
	}
	for _, span := range slices.Backward(fresh) {
		for i := span.Count - 1; i >= 0; i-- {
			if key := s.key(span, i); !r.missed[key] {
				r.missed[key] = true
				a.learnOf(key)
			}
		}
	}
}

// learnOf moves the share if a key was lost.
func (a *arc) learnOf(key kvcache.BlockID) {
	at := a.lost[key]
	lostRecent, lostFrequent := float64(a.lostRecent.Len()), float64(a.lostFrequent.Len())
	switch at.in {
	case &a.lostRecent:
		a.share = min(a.share+max(1, lostFrequent/lostRecent), float64(a.capacity))
	case &a.lostFrequent:
		a.share = max(a.share-max(1, lostRecent/lostFrequent), 0)
	default:
		return
	}
	at.in.MoveToBack(at.element)
}

func (a *arc) evict(s *Store, count int) {
	a.gone = a.gone[:0]
	next := [2]*list.Element{a.recent.Front(), a.frequent.Front()}
	oldest := func(of int) *run {
		for at := next[of]; at != nil; at = at.Next() {
			if e := at.Value.(*run); e.idle() && e.offer != s.number {
				next[of] = at.Next()
				return e
			}
		}
		next[of] = nil
		return nil
	}
	const recent, frequent = 0, 1
	left := a.recent.Len()
	for len(a.gone) < count {
		var e *run
		from := recent
		if float64(left) >= math.Floor(a.share) {
			e = oldest(recent)
		}
		if e == nil {
			e, from = oldest(frequent), frequent
		}
		if e == nil {
			e, from = oldest(recent), recent
		}
		if from == recent {
			left--
		}
		a.gone = append(a.gone, e)
	}
	for _, e := range a.gone {
		to := &a.lostRecent
		if e.in == &a.frequent {
			to = &a.lostFrequent
		}
		e.in.Remove(e.element)
		a.lost[e.key] = place{to, to.PushBack(e.key)}
		s.shorten(e, 1)
	}
	for _, lost := range []*list.List{&a.lostRecent, &a.lostFrequent} {
		for lost.Len() > a.capacity {
			delete(a.lost, lost.Remove(lost.Front()).(kvcache.BlockID))
		}
	}
}

func (a *arc) add(_ *Request, e *run, _ int) {
	if at, known := a.lost[e.key]; known {
		at.in.Remove(at.element)
		delete(a.lost, e.key)
	}
	e.place = place{&a.recent, a.recent.PushBack(e)}
}

func (a *arc) join(*Request) {}

func (a *arc) touch(*Request, *run, int) {}

func (a *arc) remove(e *run) { e.in.Remove(e.element) }

func (a *arc) split(_, _ *run, _ bool) { panic("chunks: a run of one chunk was split") }

func (a *arc) farewell(used *access, e *run) {
	switch {
	case used.reused && e.in != &a.frequent:
		e.in.Remove(e.element)
		e.place = place{&a.frequent, a.frequent.PushBack(e)}
	case used.reused || used.stored:
		e.in.MoveToBack(e.element)
	}
}

func (a *arc) forget(*Request) {}
