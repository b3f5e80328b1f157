package radix

import "dynosim/gocore/kvcache"

type page = kvcache.BlockID

// recorder keeps the events of a pool. A page is announced from the moment its first copy is complete, wherever that
// is, until its last copy is gone: requests announce pages they have computed before the tree adopts them.
type recorder struct {
	copies map[page]int
	events []kvcache.Event
	// withdrawn are pages of the tree whose slots were over-returned: the tree's copy does not count any more.
	withdrawn map[page]bool
	leaked    []page // pages of leaked slots, which still count
}

// Record makes the pool keep its events until TakeEvents fetches them. It must be called while the pool is unused.
func (p *Pool) Record() {
	p.recorder = &recorder{copies: make(map[page]int), withdrawn: make(map[page]bool)}
}

// Recording tells whether Record was called.
func (p *Pool) Recording() bool { return p.recorder != nil }

// TakeEvents returns the events since the last call, in order. The slice is valid until the pool changes again.
func (p *Pool) TakeEvents() []kvcache.Event {
	if p.recorder == nil {
		return nil
	}
	events := p.recorder.events
	p.recorder.events = events[:0]
	return events
}

// announce puts the complete pages of h from token firstNew on on record. If any of them had no copy before, an event
// tells of it and of all that follow.
func (p *Pool) announce(h *Holding, firstNew int) {
	rec := p.recorder
	shared, complete := h.hit/p.pageSize, h.tokens/p.pageSize
	var announced []page
	parent := -1
	for i := firstNew / p.pageSize; i < complete; i++ {
		id := h.Key.Page(i)
		if i < h.announced && !(i < shared && rec.withdrawn[id]) {
			continue
		}
		if i < shared {
			delete(rec.withdrawn, id)
		}
		rec.copies[id]++
		if announced == nil && rec.copies[id] > 1 {
			continue
		}
		if announced == nil {
			parent = i - 1
		}
		announced = append(announced, id)
	}
	h.announced = max(h.announced, complete)
	if announced == nil {
		return
	}
	e := kvcache.Event{Kind: kvcache.Stored, Blocks: announced}
	if parent >= 0 {
		e.Parent, e.HasParent = h.Key.Page(parent), true
	}
	rec.events = append(rec.events, e)
}

// withdraw takes one copy of each page off the record, and tells of those that had no other.
func (p *Pool) withdraw(pages []page) {
	var gone []page
	for _, id := range pages {
		p.recorder.copies[id]--
		if p.recorder.copies[id] == 0 {
			delete(p.recorder.copies, id)
			gone = append(gone, id)
		}
	}
	if gone != nil {
		p.recorder.events = append(p.recorder.events, kvcache.Event{Kind: kvcache.Removed, Blocks: gone})
	}
}

// withdrawEvicted withdraws pages that left the tree.
func (p *Pool) withdrawEvicted(pages []page) {
	counted := pages[:0]
	for _, id := range pages {
		if p.recorder.withdrawn[id] {
			delete(p.recorder.withdrawn, id)
			continue
		}
		counted = append(counted, id)
	}
	p.withdraw(counted)
}

// noteQuirks is the part of Retract that concerns the record: the leaked copies stay on it, the slots returned too many
// are taken off it.
func (p *Pool) noteQuirks(h *Holding) {
	rec := p.recorder
	rec.leaked = append(rec.leaked, h.duplicatePages...)
	h.duplicatePages = nil
	if h.cached >= h.hit {
		return
	}
	var returned []page
	for _, id := range h.appendPages(nil, 0, h.hit/p.pageSize) {
		if !rec.withdrawn[id] {
			rec.withdrawn[id] = true
			returned = append(returned, id)
		}
	}
	p.withdraw(returned)
}

// appendPages appends the ids of pages from..to-1 of h to dst.
func (h *Holding) appendPages(dst []page, from, to int) []page {
	for i := from; i < to; i++ {
		dst = append(dst, h.Key.Page(i))
	}
	return dst
}
