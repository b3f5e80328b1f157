package chunks

import (
	"math"
	"math/bits"

	"dynosim/gocore/kvcache"
)

// index finds the run that a key is part of. The keys of prompts are dense and come in stretches, so pageSize of them
// live together, and the page used last is remembered: a key costs a few nanoseconds, and only what is there costs
// memory.
type index struct {
	pages  map[kvcache.BlockID]*page
	number kvcache.BlockID // of the page used last
	last   *page           // nil if it is not there
	spares []*page
}

const pageSize = 64

type page struct {
	taken uint64 // a bit for each key that is there
	runs  [pageSize]int32
}

func newIndex() index { return index{pages: map[kvcache.BlockID]*page{}, number: math.MaxUint64} }

// page returns the page of a key, nil if no key of it is there.
func (x *index) page(key kvcache.BlockID) *page {
	if number := key / pageSize; x.number != number {
		x.last, x.number = x.pages[number], number
	}
	return x.last
}

// at returns the number of the run of a key, and whether there is one.
func (x *index) at(key kvcache.BlockID) (run int32, any bool) {
	p := x.page(key)
	if p == nil || p.taken>>(key%pageSize)&1 == 0 {
		return 0, false
	}
	return p.runs[key%pageSize], true
}

// absent counts the leading ones of count keys that are not there.
func (x *index) absent(key, stride kvcache.BlockID, count int) (n int) {
	for n < count {
		k := key + kvcache.BlockID(n)*stride
		p, place := x.page(k), k%pageSize
		free := int(pageSize - place)
		if p != nil {
			free = min(free, bits.TrailingZeros64(p.taken>>place))
		}
		if free == 0 {
			return n
		}
		n += (free + int(stride) - 1) / int(stride)
	}
	return count
}

// absentLast counts the trailing ones of count keys that are not there.
func (x *index) absentLast(key, stride kvcache.BlockID, count int) (n int) {
	for n < count {
		k := key + kvcache.BlockID(count-1-n)*stride
		p, place := x.page(k), k%pageSize
		free := int(place) + 1
		if p != nil {
			free = min(free, bits.LeadingZeros64(p.taken<<(pageSize-1-place)))
		}
		if free == 0 {
			return n
		}
		n += (free + int(stride) - 1) / int(stride)
	}
	return count
}

// set makes keys part of a run.
func (x *index) set(key, stride kvcache.BlockID, count int, run int32) {
	for end := key + kvcache.BlockID(count)*stride; key < end; {
		p := x.page(key)
		if p == nil {
			p = x.add()
		}
		for next := min(end, (x.number+1)*pageSize); key < next; key += stride {
			p.taken |= 1 << (key % pageSize)
			p.runs[key%pageSize] = run
		}
	}
}

// add makes the page that was not there.
func (x *index) add() *page {
	p := &page{}
	if last := len(x.spares) - 1; last >= 0 {
		p, x.spares = x.spares[last], x.spares[:last]
	}
	x.pages[x.number], x.last = p, p
	return p
}

// clear takes keys out that are there.
func (x *index) clear(key, stride kvcache.BlockID, count int) {
	for end := key + kvcache.BlockID(count)*stride; key < end; {
		p := x.page(key)
		for next := min(end, (x.number+1)*pageSize); key < next; key += stride {
			p.taken &^= 1 << (key % pageSize)
		}
		if p.taken == 0 {
			delete(x.pages, x.number)
			x.spares, x.last = append(x.spares, p), nil
		}
	}
}
