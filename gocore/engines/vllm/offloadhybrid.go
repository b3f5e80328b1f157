package vllm

import (
	"slices"

	"dynosim/gocore/kvcache/chunks"
	"dynosim/gocore/kvcache/paged"
)

// Host memory of a model with several KV groups. A chunk has blocks of one group; all groups share the host as they
// share the pool. With windows of two blocks and a prompt of six, by chunks of one block and of three:
//
//	full     0 1 2 3 4 5      (0 1 2)(3 4 5)      stored: what full attention has, and of the other groups what a later
//	window         3 4        (0 1 2)             prompt can hit, by whole chunks
//	                                              found: as in the pool, the longest prefix at whose end all groups have
//	                                              what they need
//	full     0 1 2 3 4         0 1 2              loaded: what is found, and of windows only what the next token sees
//	window         3 4           1 2
//
// States of linear attention are offered one by one, before all else, and only with the pass that ends there: what is
// refused then is not offered again.

// held is a block of a group beside the first that a request has, or had, on the GPU.
type held struct {
	entry, group int
	slot         paged.Slot
	ends         bool // a later prompt needs it at the end of a hit
	needed       int  // blocks of its chunk that later prompts need so
}

// offering is a chunk that a request offers.
type offering struct {
	chunks.Span
	slots []paged.Slot // of its blocks, if it is not of full attention
	lacks int          // of the blocks that later prompts need, those that the request lacks
}

// span returns a chunk of a group. The order of spans is that of their tokens, then of groups.
func (o *offload) span(h *hosted, chunk, group int) chunks.Span {
	last := (chunk+1)*o.chunkBlocks - 1
	return chunks.Span{
		Key: paged.InGroup(h.key.Block(last), group), Index: chunk*(o.s.groups.Beside+1) + group, Count: 1,
	}
}

// findInGroups does what find does for several groups.
func (o *offload) findInGroups(r *sequence, hit int) (more int, skip bool) {
	s := o.s
	size := o.chunkTokens()
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
		o.left = max(0, more) / s.blockSize
		return 0, false
	}
	busy := false
	for _, span := range o.toLoad(r, hit/s.blockSize, hit+more) {
		_, _, loading := o.has(span)
		busy = busy || loading
	}
	return more, busy
}

// hasChunk reports whether the host has a chunk of a request, and whether it is being stored.
func (o *offload) hasChunk(r *sequence, chunk, group int) (present, storing bool) {
	n, storing, _ := o.has(o.span(r.hosted, chunk, group))
	return n == 1, storing
}

// lastRun returns the end of the last chunks of a group, as many as a hit needs, in from..end-1: or of fewer that begin
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
	needed := o.neededToHit()
	for chunk := end - 1; chunk >= from; chunk-- {
		present, still := o.hasChunk(r, chunk, group)
		if !present {
			run, storing = 0, false
			continue
		}
		storing = storing || still
		if run++; run == needed {
			return chunk + run, storing
		}
	}
	return from + run, storing
}

// neededToHit returns the number of chunks of a group beside the first that a hit on the host needs at its end.
func (o *offload) neededToHit() int {
	if o.s.groups.Linear {
		return 1
	}
	return ceilDiv(o.s.groups.Window, o.chunkTokens())
}

// toLoad lists the chunks of which blocks are loaded for the first tokens of a request, whose first blocks the pool
// has.
func (o *offload) toLoad(r *sequence, blocks, tokens int) (spans []chunks.Span) {
	end := ceilDiv(tokens, o.chunkTokens())
	for group := 0; group <= o.s.groups.Beside; group++ {
		for chunk := o.firstToLoad(blocks, tokens, group) / o.chunkBlocks; chunk < end; chunk++ {
			spans = append(spans, o.span(r.hosted, chunk, group))
		}
	}
	return spans
}

// firstToLoad returns the first block of a group that is loaded for the first tokens of a request.
func (o *offload) firstToLoad(blocks, tokens, group int) int {
	if group == 0 {
		return blocks
	}
	return max(blocks, o.s.dispensable(tokens))
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
	blocks := 0
	for group := 0; group <= s.groups.Beside; group++ {
		blocks += part - o.firstToLoad(hit.blocks, tokens, group)
	}
	o.begin(r, hit.blocks*s.blockSize, tokens, o.toLoad(r, hit.blocks, tokens), blocks)
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

// renew makes a request offer its chunks from one on, and its states.
func (o *offload) renew(h *hosted, next, state int) {
	h.next, h.nextState, h.listed, h.unstored = next, state, next*o.chunkBlocks, h.unstored[:0]
}

// list notes which blocks of windows a request has that are to be stored once they fill a chunk, of its first tokens.
// They are stored though the request may have given them back, as long as no pass has used them.
//
// A block that another request has found in the pass that fills it is left out, if an earlier pass began it.
func (o *offload) list(r *sequence, tokens int, found []paged.Slot) {
	s, h, t := o.s, r.hosted, &r.tables
	if o.promptOnly {
		tokens = min(tokens, r.promptTokens/o.chunkTokens()*o.chunkTokens())
	}
	to := tokens / s.blockSize
	if s.groups.Linear || h.listed >= to {
		return
	}
	begun := -1
	if r.share.start%s.blockSize > 0 {
		begun = r.share.start / s.blockSize
	}
	first, _ := slices.BinarySearch(t.kept, h.listed)
	counted, needed := -1, 0
	for i := first; i < len(t.kept) && t.kept[i] < to; i++ {
		entry := t.kept[i]
		if chunk := entry / o.chunkBlocks; chunk != counted {
			counted, needed = chunk, o.needed(r, chunk)
		}
		if needed == 0 {
			continue
		}
		ends := s.endsHit(r, entry, o.chunkBlocks)
		for group := 1; group <= s.groups.Beside; group++ {
			slot := o.named(&t.slots[i*s.groups.Beside+group-1])
			if entry != begun || !slices.Contains(found, slot) {
				h.unstored = append(h.unstored, held{entry, group, slot, ends, needed})
			}
		}
	}
	h.listed = to
}

// needed counts the blocks of a chunk of a window that a later prompt needs at the end of a hit. If there are any, the
// chunk is stored.
func (o *offload) needed(r *sequence, chunk int) (count int) {
	for entry := chunk * o.chunkBlocks; entry < (chunk+1)*o.chunkBlocks; entry++ {
		if o.s.endsHit(r, entry, o.chunkBlocks) {
			count++
		}
	}
	return count
}

// named gives a block a name, though the pool does not retain it, so that it is known when a pass takes it.
func (o *offload) named(slot *paged.Slot) paged.Slot {
	if *slot == paged.PartialSlot {
		*slot = o.s.pool.Name()
	}
	return *slot
}

// offerings lists the chunks that a request offers, up to one of them: of full attention all, of windows those of which
// it has what later prompts need.
func (o *offload) offerings(h *hosted, to int) (list []offering) {
	for chunk := h.next; chunk < to; chunk++ {
		list = append(list, offering{Span: o.span(h, chunk, 0)})
	}
	for group := 1; group <= o.s.groups.Beside; group++ {
		list = append(list, o.windows(h, to, group)...)
	}
	return list
}

// windows lists the chunks of a window that a request offers.
func (o *offload) windows(h *hosted, to, group int) (list []offering) {
	for _, b := range h.unstored {
		chunk := b.entry / o.chunkBlocks
		if b.group != group || chunk >= to {
			continue
		}
		if span := o.span(h, chunk, group); len(list) == 0 || list[len(list)-1].Index != span.Index {
			list = append(list, offering{Span: span, lacks: b.needed})
		}
		c := &list[len(list)-1]
		c.slots = append(c.slots, b.slot)
		if b.ends {
			c.lacks--
		}
	}
	return slices.DeleteFunc(list, func(c offering) bool { return c.lacks > 0 })
}

// without drops what the pass that is composed uses.
func (o *offload) without(list []held) []held {
	return slices.DeleteFunc(list, func(h held) bool { return slices.Contains(o.touched, h.slot) })
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
		r.hosted.unstored = o.without(r.hosted.unstored)
	}
}

// offerStates offers the states of linear attention with which a pass ends.
func (o *offload) offerStates(r *sequence, tokens int) {
	s, h, t := o.s, r.hosted, &r.tables
	to := tokens / o.chunkTokens()
	if !s.groups.Linear || h.nextState >= to {
		return
	}
	for group := 1; group <= s.groups.Beside; group++ {
		for chunk := h.nextState; chunk < to; chunk++ {
			entry := (chunk+1)*o.chunkBlocks - 1
			i, found := slices.BinarySearch(t.kept, entry)
			if !found {
				continue
			}
			if slot := t.slots[i*s.groups.Beside+group-1]; slot != paged.PartialSlot && s.retained(r, entry) {
				o.offerHeld(h, []offering{{Span: o.span(h, chunk, group), slots: []paged.Slot{slot}}})
			}
		}
	}
	h.nextState = to
}

// offerHeld offers chunks of a request, and reports whether the host took the offer.
func (o *offload) offerHeld(h *hosted, list []offering) (taken bool) {
	spans := make([]chunks.Span, len(list))
	for i := range list {
		spans[i] = list[i].Span
	}
	stored, taken := o.host.Offer(&h.Request, spans...)
	o.tellEvicted()
	if !taken || len(stored) == 0 {
		return taken
	}
	t := &transferring{of: h, spans: slices.Clone(stored)}
	for _, span := range t.spans {
		if span.Index%(o.s.groups.Beside+1) == 0 {
			t.blocks += o.chunkBlocks
			continue
		}
		i := slices.IndexFunc(list, func(c offering) bool { return c.Index == span.Index })
		t.blocks += len(list[i].slots)
		t.slots = append(t.slots, list[i].slots...)
	}
	o.store(t)
	return true
}

// offerGroups does what offer does for several groups.
func (o *offload) offerGroups(r *sequence, tokens int, found []paged.Slot) {
	h, to := r.hosted, tokens/o.chunkTokens()
	o.list(r, tokens, found)
	if h.next >= to || !o.offerHeld(h, o.offerings(h, to)) {
		return
	}
	h.next = to
	h.unstored = slices.DeleteFunc(h.unstored, func(b held) bool { return b.entry < to*o.chunkBlocks })
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
		if !paged.IsUnregistered(slot) {
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
