package chunks

import (
	"container/list"
	"math"

	"dynosim/gocore/kvcache"
)

// arc is the adaptive replacement cache: chunks that were used once (recent) and those that were used again (frequent), each with a
// list of the keys that it lost last. What is asked for again after it was lost moves the share of the recent ones.
type arc struct {
	capacity int
	share    float64 // how many chunks are to be recent

	recent, frequent         list.List // of *Chunk, old to young
	lostRecent, lostFrequent list.List // of keys, old to young
	lost                     map[kvcache.BlockID]place
	gone                     []*Chunk
}

// place is where a chunk or a lost key is.
type place struct {
	in      *list.List
	element *list.Element
}

func newARC(capacity int) *arc { return &arc{capacity: capacity, lost: map[kvcache.BlockID]place{}} }

func (a *arc) learn(r *Request, fresh []*Chunk) {
	if r.missed == nil {
		r.missed = map[kvcache.BlockID]bool{}
	}
	for i := len(fresh) - 1; i >= 0; i-- {
		key := fresh[i].key
		if r.missed[key] {
			continue
		}
		r.missed[key] = true
		at := a.lost[key]
		lostRecent, lostFrequent := float64(a.lostRecent.Len()), float64(a.lostFrequent.Len())
		switch at.in {
		case &a.lostRecent:
			a.share = min(a.share+max(1, lostFrequent/lostRecent), float64(a.capacity))
		case &a.lostFrequent:
			a.share = max(a.share-max(1, lostRecent/lostFrequent), 0)
		default:
			continue
		}
		at.in.MoveToBack(at.element)
	}
}

func (a *arc) evict(count, offer int) []*Chunk {
	a.gone = a.gone[:0]
	next := [2]*list.Element{a.recent.Front(), a.frequent.Front()}
	oldest := func(of int) *Chunk {
		for e := next[of]; e != nil; e = e.Next() {
			if c := e.Value.(*Chunk); c.idle() && c.offer != offer {
				next[of] = e.Next()
				return c
			}
		}
		next[of] = nil
		return nil
	}
	const recent, frequent = 0, 1
	left := a.recent.Len()
	for len(a.gone) < count {
		var c *Chunk
		from := recent
		if float64(left) >= math.Floor(a.share) {
			c = oldest(recent)
		}
		if c == nil {
			c, from = oldest(frequent), frequent
		}
		if c == nil {
			c, from = oldest(recent), recent
		}
		if from == recent {
			left--
		}
		a.gone = append(a.gone, c)
	}
	for _, c := range a.gone {
		to := &a.lostRecent
		if c.in == &a.frequent {
			to = &a.lostFrequent
		}
		c.in.Remove(c.element)
		a.lost[c.key] = place{to, to.PushBack(c.key)}
	}
	for _, lost := range []*list.List{&a.lostRecent, &a.lostFrequent} {
		for lost.Len() > a.capacity {
			delete(a.lost, lost.Remove(lost.Front()).(kvcache.BlockID))
		}
	}
	return a.gone
}

func (a *arc) add(_ *Request, c *Chunk) {
	if at, known := a.lost[c.key]; known {
		at.in.Remove(at.element)
		delete(a.lost, c.key)
	}
	c.place = place{&a.recent, a.recent.PushBack(c)}
}

func (a *arc) touch(*Request, *Chunk, int) {}

func (a *arc) farewell(used *access, c *Chunk) {
	switch {
	case used.reused && c.in != &a.frequent:
		c.in.Remove(c.element)
		c.place = place{&a.frequent, a.frequent.PushBack(c)}
	case used.reused || used.stored:
		c.in.MoveToBack(c.element)
	}
}

func (a *arc) forget(*Request) {}
