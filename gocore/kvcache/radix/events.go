package radix

import (
	"iter"

	"dynosim/gocore/kvcache"
)

type page = kvcache.BlockID

// recorder keeps the events of a pool. A page is announced from the moment its first copy is complete, wherever that
// is, until its last copy is gone: requests announce pages they have computed before the tree adopts them. Pages that
// only one request can have are left out, as no other could look for them.
type recorder struct {
	copies copies
	events []kvcache.Event
	// withdrawn are pages of the tree whose slots were over-returned: the tree's copy does not count any more.
	withdrawn map[page]bool
	leaked    []stretch // pages of leaked slots, which still count

	evicted []stretch // scratch
}

// stretch is pages from to end-1 of the sequence that key names.
type stretch struct {
	key       kvcache.Key
	from, end int
}

// runs yields the pages of the stretch that others may have, as runs of consecutive ids.
func (s *stretch) runs() iter.Seq2[page, int] {
	return s.key.Prompt.Runs(s.from, min(s.end, s.key.Shareable))
}

// Record makes the pool keep its events until TakeEvents fetches them. It must be called while the pool is unused.
func (p *Pool) Record() {
	p.recorder = &recorder{withdrawn: make(map[page]bool)}
}

// Recording tells whether Record was called.
func (p *Pool) Recording() bool { return p.recorder != nil }

// TakeEvents returns the events since the last call, in order. They are valid until the pool changes again.
func (p *Pool) TakeEvents() []kvcache.Event {
	if p.recorder == nil {
		return nil
	}
	rec := p.recorder
	events := rec.events
	rec.events = events[:0]
	return events
}

// announce puts the complete pages of h from token firstNew on on record. If any of them had no copy before, an event
// tells of it and of all that follow.
func (p *Pool) announce(h *Holding, firstNew int) {
	rec := p.recorder
	at, complete := firstNew/p.pageSize, min(h.tokens/p.pageSize, h.Key.Shareable)
	if len(rec.withdrawn) > 0 {
		p.announceEach(h, at, complete)
		return
	}
	at = max(at, h.announced)
	if at >= complete {
		return
	}
	h.announced = complete
	firstUnknown, found := at, false
	for first, n := range h.Key.Prompt.Runs(at, complete) {
		known := rec.copies.add(first, n)
		if !found {
			firstUnknown += known
			found = known < n
		}
	}
	if found {
		rec.store(h, firstUnknown, h.Key.Prompt.Blocks(firstUnknown, complete))
	}
}

// announceEach does what announce does, page by page, from page at to page complete-1, when some that h shares were
// withdrawn: those are announced again.
func (p *Pool) announceEach(h *Holding, at, complete int) {
	rec := p.recorder
	shared := h.hit / p.pageSize
	var stored kvcache.Blocks
	firstUnknown := at
	for i := at; i < complete; i++ {
		id := h.Key.Block(i)
		if i < h.announced && !(i < shared && rec.withdrawn[id]) {
			continue
		}
		if i < shared {
			delete(rec.withdrawn, id)
		}
		known := rec.copies.add(id, 1) == 1
		if len(stored) == 0 {
			if known {
				continue
			}
			firstUnknown = i
		}
		stored = stored.Append(id, 1)
	}
	h.announced = max(h.announced, complete)
	if len(stored) > 0 {
		rec.store(h, firstUnknown, stored)
	}
}

// store notes an event of pages of h. The first of them is page at of h.
func (rec *recorder) store(h *Holding, at int, pages kvcache.Blocks) {
	e := kvcache.Event{Kind: kvcache.Stored, Blocks: pages}
	if at > 0 {
		e.Parent, e.HasParent = h.Key.Block(at-1), true
	}
	rec.events = append(rec.events, e)
}

// withdraw takes one copy of each page off the record, and tells of those that had no other.
func (rec *recorder) withdraw(pages ...stretch) {
	var gone kvcache.Blocks
	for i := range pages {
		for first, n := range pages[i].runs() {
			gone = rec.copies.remove(first, n, gone)
		}
	}
	rec.tellGone(gone)
}

// tellGone notes an event of pages that are gone, if there are any.
func (rec *recorder) tellGone(gone kvcache.Blocks) {
	if len(gone) > 0 {
		rec.events = append(rec.events, kvcache.Event{Kind: kvcache.Removed, Blocks: gone})
	}
}

// withdrawEvicted withdraws pages that left the tree.
func (rec *recorder) withdrawEvicted(pages []stretch) {
	if len(rec.withdrawn) == 0 {
		rec.withdraw(pages...)
		return
	}
	var gone kvcache.Blocks
	for i := range pages {
		for first, n := range pages[i].runs() {
			for id := first; id < first+page(n); id++ {
				if rec.withdrawn[id] {
					delete(rec.withdrawn, id)
					continue
				}
				gone = rec.copies.remove(id, 1, gone)
			}
		}
	}
	rec.tellGone(gone)
}

// noteQuirks does the part of Retract that concerns the record: the leaked copies stay on it, the slots returned too
// many are taken off it.
func (rec *recorder) noteQuirks(h *Holding, pageSize int) {
	rec.leaked = append(rec.leaked, h.duplicatePages...)
	h.duplicatePages = nil
	if h.cached >= h.hit {
		return
	}
	var gone kvcache.Blocks
	shared := stretch{h.Key, 0, h.hit / pageSize}
	for first, n := range shared.runs() {
		for id := first; id < first+page(n); id++ {
			if !rec.withdrawn[id] {
				rec.withdrawn[id] = true
				gone = rec.copies.remove(id, 1, gone)
			}
		}
	}
	rec.tellGone(gone)
}
