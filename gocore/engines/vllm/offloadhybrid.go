package vllm

import (
	"cmp"
	"slices"

	"dynosim/gocore/kvcache/chunks"
	"dynosim/gocore/kvcache/paged"
)

// Host memory of a model with several KV groups. A chunk is a block of one group; all groups share the host as they
// share the pool. With windows of two blocks and a prompt of six:
//
//	full     0 1 2 3 4 5        stored: what full attention has, and of the other groups what a later prompt can hit
//	window         3 4          found: as in the pool, the longest prefix at whose end all groups have what they need
//	                            loaded: full 0 to 4, window 3 and 4
//
// States of linear attention are offered one by one, before all else, and only with the pass that ends there: what is
// refused then is not offered again.

// held is a chunk that a request has on the GPU.
type held struct {
	chunks.Span
	slot paged.Slot
}

// span returns the chunk of a block in a group. The order of spans is that of blocks, then of groups.
func (o *offload) span(h *hosted, entry, group int) chunks.Span {
	return chunks.Span{
		Key: paged.InGroup(h.key.Block(entry), group), Index: entry*(o.s.groups.Beside+1) + group, Count: 1,
	}
}

// findInGroups does what find does for several groups.
func (o *offload) findInGroups(r *sequence, hit int) (more int, skip bool) {
	s := o.s
	size := s.blockSize
	from, whole := hit/size, r.tokens()/size
	if s.groups.Linear {
		whole = (r.tokens() - 1) / size
	}
	o.left = 0
	if min(whole*size, r.tokens()-1)-hit < size {
		return 0, false
	}
	end, defers := whole, false
	for before := whole + 1; end < before; {
		before, defers = end, false
		for group := 0; group <= s.groups.Beside; group++ {
			last, storing := o.lastRun(r, from, end, group)
			if last == from {
				return 0, false
			}
			if storing {
				defers = true
			} else {
				end = last
			}
		}
	}
	if defers {
		return 0, true
	}
	more = min(end*size, r.tokens()-1) - hit
	if more < size {
		o.left = end - from
		return 0, false
	}
	busy := false
	for _, span := range o.toLoad(r, from, hit+more) {
		_, _, loading := o.has(span)
		busy = busy || loading
	}
	return more, busy
}

// hasChunk reports whether the host has a block of a request, and whether it is being stored.
func (o *offload) hasChunk(r *sequence, entry, group int) (present, storing bool) {
	n, storing, _ := o.has(o.span(r.hosted, entry, group))
	return n == 1, storing
}

// lastRun returns the end of the last blocks of a group, as many as a hit needs, in from..end-1: or of fewer that begin
// with from, as what is before them is on the GPU. It reports whether any of them is being stored.
func (o *offload) lastRun(r *sequence, from, end, group int) (last int, storing bool) {
	if group == 0 {
		for last = from; last < end; last++ {
			present, still := o.hasChunk(r, last, group)
			if !present {
				break
			}
			storing = storing || still
		}
		return last, storing
	}
	run := 0
	for entry := end - 1; entry >= from; entry-- {
		present, still := o.hasChunk(r, entry, group)
		if !present {
			run, storing = 0, false
			continue
		}
		storing = storing || still
		if run++; run == o.s.groups.found {
			return entry + run, storing
		}
	}
	return from + run, storing
}

// toLoad lists the chunks behind from blocks that are loaded for the first tokens of a request.
func (o *offload) toLoad(r *sequence, from, tokens int) (spans []chunks.Span) {
	s := o.s
	end := s.ceilBlocks(tokens)
	for entry := from; entry < end; entry++ {
		spans = append(spans, o.span(r.hosted, entry, 0))
	}
	for group := 1; group <= s.groups.Beside; group++ {
		for entry := max(from, s.dispensable(tokens)); entry < end; entry++ {
			spans = append(spans, o.span(r.hosted, entry, group))
		}
	}
	return spans
}

// loadGroups does what load does for several groups.
func (o *offload) loadGroups(r *sequence, hit prefix, tokens int) bool {
	s := o.s
	hit = s.beyond(r, hit, s.dispensable(tokens))
	whole, part := s.ceilBlocks(r.tokens()), s.ceilBlocks(tokens)
	free := s.pool.Free()
	if whole-hit.held+s.neededBeside(hit, s.mostWindow(whole)) > free ||
		part-hit.held+s.neededBeside(hit, part)+o.reserved() > free {
		return false
	}
	s.hold(r, hit)
	s.holdBeside(r, hit)
	o.touched = append(o.touched, r.registered...)
	o.touched = append(o.touched, r.tables.slots...)
	r.tables.entries = max(hit.blocks, hit.skip)
	if !s.take(r, tokens) {
		panic("vllm: a request that fits the pool does not get its blocks")
	}
	loaded := o.toLoad(r, hit.blocks, tokens)
	o.begin(r, hit.blocks*s.blockSize, tokens, loaded, len(loaded))
	return true
}

// beyond returns a hit of which the groups beside the first need no entries below skip.
func (s *Scheduler) beyond(r *sequence, hit prefix, skip int) prefix {
	if hit.skip >= skip {
		return hit
	}
	hit.skip = skip
	if s.groups.Linear {
		return hit // unused counts, though no request will hold it
	}
	hit.unused = 0
	for g := range s.groups.Beside {
		for i := skip; i < hit.blocks; i++ {
			if _, inUse, _ := s.pool.Find(paged.InGroup(r.key.Block(i), g+1)); !inUse {
				hit.unused++
			}
		}
	}
	return hit
}

// lacks returns the number of blocks that a request lacks until it has those of its first tokens.
func (o *offload) lacks(r *sequence, tokens int) int {
	s := o.s
	blocks := s.ceilBlocks(tokens)
	lacks := blocks - r.blocks()
	if s.groups.Beside > 0 {
		lacks += s.groups.Beside * s.grown(r.tables.entries, s.mostWindow(blocks))
	}
	return lacks
}

// again makes a request offer its chunks from one on, and its states.
func (h *hosted) again(next, state int) {
	h.next, h.nextState, h.listed, h.refused = next, state, next, h.refused[:0]
}

// kept lists what a request offers of its first blocks: of full attention all, of windows what is retained. What was
// refused earlier is offered again, though the request may have given the block back, as long as no pass has used it.
//
// A block that another request has found in the pass that fills it is not offered, if an earlier pass began it.
func (o *offload) kept(r *sequence, to int, found []paged.Slot) (list []held) {
	s, h, t := o.s, r.hosted, &r.tables
	for entry := h.next; entry < to; entry++ {
		list = append(list, held{Span: o.span(h, entry, 0), slot: paged.PartialSlot})
	}
	if s.groups.Linear {
		return list
	}
	list = append(list, h.refused...)
	begun := -1
	if r.share.start%s.blockSize > 0 {
		begun = r.share.start / s.blockSize
	}
	for group := 1; group <= s.groups.Beside; group++ {
		first, _ := slices.BinarySearch(t.kept, h.listed)
		for i := first; i < len(t.kept) && t.kept[i] < to; i++ {
			slot := t.slots[i*s.groups.Beside+group-1]
			if t.kept[i] == begun && slices.Contains(found, slot) {
				continue
			}
			if slot != paged.PartialSlot && s.retained(r, t.kept[i]) {
				list = append(list, held{Span: o.span(h, t.kept[i], group), slot: slot})
			}
		}
	}
	groups := s.groups.Beside + 1
	slices.SortStableFunc(list, func(a, b held) int { return cmp.Compare(a.Index%groups, b.Index%groups) })
	return list
}

// without drops what the pass that is composed uses.
func (o *offload) without(list []held) []held {
	return slices.DeleteFunc(list, func(h held) bool {
		return h.slot != paged.PartialSlot && slices.Contains(o.touched, h.slot)
	})
}

// launchGroups offers what a pass computes: states first, then the blocks of all other groups.
func (o *offload) launchGroups(b *batch) {
	s, found := o.s, o.touched
	o.takeEvicted()
	o.forgetTouched()
	served := s.running[s.steady.prefix:]
	for _, r := range served {
		if r.servedIn == b.number {
			o.offerStates(r, o.offered(r))
		}
	}
	for _, r := range o.noted {
		if r.servedIn != b.number {
			o.offerStates(r, o.offered(r))
		}
	}
	o.noted = o.noted[:0]
	for i, r := range served {
		switch {
		case r.servedIn != b.number:
		case s.steady.prefix+i < o.admitted:
			o.offerGroups(r, o.offered(r), found)
		default:
			o.offerGroups(r, o.offered(r), nil)
		}
	}
}

// forgetTouched makes requests offer no window any more that the pass that is composed uses.
func (o *offload) forgetTouched() {
	for _, r := range o.s.running {
		if h := r.hosted; len(h.refused) > 0 {
			h.refused = o.without(h.refused)
		}
	}
}

// offerStates offers the states of linear attention with which a pass ends.
func (o *offload) offerStates(r *sequence, tokens int) {
	s, h, t := o.s, r.hosted, &r.tables
	to := tokens / s.blockSize
	if !s.groups.Linear || h.nextState >= to {
		return
	}
	first, _ := slices.BinarySearch(t.kept, h.nextState)
	for group := 1; group <= s.groups.Beside; group++ {
		for i := first; i < len(t.kept) && t.kept[i] < to; i++ {
			slot := t.slots[i*s.groups.Beside+group-1]
			if slot != paged.PartialSlot && s.retained(r, t.kept[i]) {
				o.offerHeld(h, []held{{Span: o.span(h, t.kept[i], group), slot: slot}})
			}
		}
	}
	h.nextState = to
}

// offerHeld offers chunks of a request, and reports whether the host took the offer.
func (o *offload) offerHeld(h *hosted, list []held) (taken bool) {
	spans := make([]chunks.Span, len(list))
	for i := range list {
		spans[i] = list[i].Span
	}
	stored, taken := o.host.Offer(&h.Request, spans...)
	o.tellEvicted()
	if !taken || len(stored) == 0 {
		return taken
	}
	t := &transferring{of: h, spans: slices.Clone(stored), blocks: len(stored)}
	for _, span := range t.spans {
		for i := range list {
			if list[i].Index == span.Index && list[i].slot != paged.PartialSlot {
				t.slots = append(t.slots, list[i].slot)
			}
		}
	}
	o.store(t)
	return true
}

// offerGroups does what offer does for several groups.
func (o *offload) offerGroups(r *sequence, tokens int, found []paged.Slot) {
	h, to := r.hosted, tokens/o.s.blockSize
	if h.next >= to {
		return
	}
	list := o.kept(r, to, found)
	if o.offerHeld(h, list) {
		h.again(to, h.nextState)
		return
	}
	h.listed, h.refused = to, slices.DeleteFunc(list, func(h held) bool { return h.slot == paged.PartialSlot })
}

// noteStates notes that the states which a request has loaded are found from this pass on.
func (s *Scheduler) noteStates(r *sequence) {
	if !s.groups.Linear || r.hosted.noted {
		return
	}
	r.hosted.noted = true
	s.offload.noted = append(s.offload.noted, r)
	t := &r.tables
	for i, slot := range t.slots {
		if slot != paged.PartialSlot {
			s.newStates = append(s.newStates, paged.InGroup(r.key.Block(t.kept[i/s.groups.Beside]), i%s.groups.Beside+1))
		}
	}
}

// hasRoomFor reports whether a loaded request can be admitted and compute its next tokens.
func (o *offload) hasRoomFor(r *sequence, tokens int) bool {
	free := o.s.pool.Free()
	part := o.s.ceilBlocks(r.computed+tokens) - r.blocks()
	if o.s.groups.Beside > 0 {
		part += o.s.groups.Beside * o.s.grown(r.tables.entries, o.s.ceilBlocks(r.computed+tokens))
	}
	return o.lacks(r, r.tokens()) <= free && part <= free
}
