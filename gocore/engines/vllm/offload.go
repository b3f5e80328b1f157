package vllm

import (
	"math"
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/sharing"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/chunks"
	"dynosim/gocore/kvcache/paged"
)

// offload is the tier of host memory below the pool (host_cache), as vLLM's OffloadingConnector uses it. Whole chunks
// of prompts are copied to the host after they have been computed, and back when a prompt begins with them and the GPU
// has lost them:
//
//	pass    1: computes a prompt    2: decodes         ...       20: the prompt comes again, look-up   21: is admitted
//	copy          store is offered     store runs  -->                 load runs  ------>
//
// A copy that has ended when a pass starts is noticed when this pass ends. Copies run one at a time in each direction,
// in order of submission, beside the GPU. docs/tiers.md tells users of it.
type offload struct {
	s           *Scheduler
	host        *chunks.Store
	chunkBlocks int
	promptOnly  bool
	common      *common     // what it shares with other workers, nil for nothing
	number      int         // of those that share it
	prefetches  *prefetches // nil without storage behind it
	lanes       [2]*sharing.Lane
	// with common: which copies the pass that runs is going to notice, those that have ended by then
	noticeMs  float64
	untold    []engine.Copy
	announces bool
	events    []kvcache.Event // of a store of its own
	names     bool            // events tell whose names are needed
	storeMs   float64         // of a block
	loadMs    float64
	latencyMs float64

	holding []*sequence // loading, or loaded and not admitted yet, in the order in which their loads began
	leaving []*hosted   // of the requests that ended in the last pass
	noted   []*sequence // whose loaded states the pass that is composed has noted
	ghosts  []*sequence // cancelled while loading: they keep their blocks until the copy has ended

	pending []*transferring // stores of earlier passes that are not submitted yet
	fresh   []*transferring // stores of the pass that is composed
	loads   []*transferring // loads of the pass that is composed
	awaited []*transferring // that the pass that is composed has to wait for

	// Submitted copies that were not noticed to have ended, in order, and when the last one of each direction ends.
	storing, loading  deque.Deque[*transferring]
	storeEnd, loadEnd float64

	// fences are the stores that read blocks of requests that have ended, by slot. touched are slots of blocks that the
	// pass that is composed takes or finds.
	fences      []*transferring
	namedFences []*transferring
	fenced      int
	touched     []paged.Slot
	admitted    int // from there on requests are admitted by the pass that is composed

	endMs float64 // of the last pass
	use   engine.Copied
	told  engine.Copied // of use
	spans []chunks.Span // scratch
	left  int           // blocks that the last look-up found and that are not loaded, as they are less than a chunk
}

// transferring is a copy between the pool and the host.
type transferring struct {
	of      *hosted
	loading *sequence // nil for a store
	spans   []chunks.Span
	slots   []paged.Slot // that a store reads whose request has ended
	blocks  int
	beganMs float64
	endMs   float64 // both once it is submitted; with others that share the store, once it is noticed
	move    *sharing.Move
	ready   bool // others have been told that its chunks are there
}

// hosted is what the tier knows of a request. It outlives the request until its copies have ended.
type hosted struct {
	chunks.Request
	key       kvcache.Key
	next      int    // the first chunk that was not offered yet
	nextState int    // of states of linear attention
	noted     bool   // the states that it has loaded are found
	listed    int    // blocks whose windows are in unstored, or were
	unstored  []held // windows that are not stored, as their chunks are not full or were refused
	copying   []*transferring
	loaded    bool
	counted   bool // in Copied.Found, if it found anything
	onGPU     int  // tokens that the pool had when the load began
	ended     bool
	fetch     *fetch       // nil unless the prompt is being fetched from storage
	slots     []paged.Slot // when it has ended, if copies read them or are going to
	tokens    int          // to offer at the end
}

func newOffload(s *Scheduler, commons *engine.Commons, place int) *offload {
	a := s.args.HostCache
	policy := chunks.LRU
	if a.ARC {
		policy = chunks.ARC
	}
	s.pool.Watch()
	o := &offload{
		s: s, chunkBlocks: a.ChunkBlocks, promptOnly: a.PromptOnly,
		storeMs: a.StoreMsPerBlock, loadMs: a.LoadMsPerBlock, latencyMs: a.LatencyMs,
	}
	store := func() *chunks.Store {
		host := chunks.New(a.Blocks/a.ChunkBlocks, a.ChunkBlocks, a.StoreThreshold, policy)
		if s.groups.Beside > 0 {
			host.Group(s.groups.Beside + 1)
		}
		return host
	}
	if commons == nil {
		commons = &engine.Commons{}
	}
	if a.Storage.Blocks > 0 {
		o.addStorage(commons)
	}
	if !a.Shared {
		o.host = store()
		return o
	}
	if commons.HostStore == nil {
		commons.HostStore = &nodes{workers: a.SharedWorkers, stores: map[int]*common{}}
	}
	commons.HostStore.(*nodes).join(o, place, func() *common {
		return &common{store: store(), link: sharing.New(a.SharedMsPerBlock)}
	})
	return o
}

// tellEarlier tells with the pass that begins of copies that were not told.
func (o *offload) tellEarlier() {
	for _, c := range o.untold {
		o.s.parts.Copy(c)
	}
	o.untold = o.untold[:0]
}

// announce makes events tell of the store: to routers, which know single blocks only, and to those that name blocks.
func (o *offload) announce(routers, names bool) {
	o.announces, o.names = routers && o.chunkBlocks == 1, names
	if o.announces || o.names {
		o.host.Record()
	}
	if o.announces && o.prefetches != nil {
		o.prefetches.client.Record()
	}
}

// tellOf announces that the store has chunks now, or that it has them no more. Of several groups that is the one of
// full attention: routers count the leading blocks that it has on the host.
func (o *offload) tellOf(kind kvcache.EventKind, spans []chunks.Span) {
	if !o.announces || len(spans) == 0 {
		return
	}
	to, e := &o.events, kvcache.Event{Kind: kind, Tier: kvcache.Host}
	if o.common != nil {
		to, e.Tier = &o.common.events, kvcache.External
	}
	for _, span := range spans {
		if paged.GroupOf(span.Key) > 0 {
			continue
		}
		e.Blocks = e.Blocks.Append(span.Key, span.Count)
	}
	if len(e.Blocks) > 0 {
		*to = append(*to, e)
	}
}

// tellStored announces that the store has chunks of a request now.
func (o *offload) tellStored(h *hosted, spans []chunks.Span) {
	groups := o.s.groups.Beside + 1
	for i, span := range spans {
		o.tellOf(kvcache.Stored, spans[i:i+1])
		if !o.announces || span.Index < groups || span.Index%groups > 0 {
			continue
		}
		to := &o.events
		if o.common != nil {
			to = &o.common.events
		}
		e := &(*to)[len(*to)-1]
		e.Parent, e.HasParent = h.key.Block(span.Index/groups-1), true
	}
}

// tellNames announces that the store of the worker begins to keep chunks, or keeps them no more. Chunks are known by
// one of their blocks.
func (o *offload) tellNames(kind kvcache.EventKind, spans []chunks.Span) {
	if !o.names || len(spans) == 0 {
		return
	}
	byGroup := make([]kvcache.Event, o.s.groups.Beside+1)
	for _, span := range spans {
		group := paged.GroupOf(span.Key)
		e, key := &byGroup[group], span.Key&^paged.InGroup(0, group)
		for i := range span.Count {
			e.Blocks = e.Blocks.Append(key+kvcache.BlockID(i*o.chunkBlocks), 1)
		}
	}
	for group, e := range byGroup {
		if len(e.Blocks) > 0 {
			e.Kind, e.Tier, e.Group = kind, kvcache.Host, group
			o.events = append(o.events, e)
		}
	}
}

// tellEvicted announces what the store has evicted.
func (o *offload) tellEvicted() {
	evicted := o.host.TakeEvicted()
	o.tellOf(kvcache.Removed, evicted)
	o.tellNames(kvcache.LetGo, evicted)
}

// takeEvents returns the events of the store since the last call. They come before those of the pool: what has to keep
// its name may leave the pool in the same pass.
func (o *offload) takeEvents() []kvcache.Event {
	from := &o.events
	if o.common != nil {
		from = &o.common.events
	}
	events := *from
	*from = nil
	if o.prefetches != nil && o.announces {
		events = append(events, o.prefetches.client.TakeEvents()...)
	}
	return events
}

// has looks up which of the leading chunks of a span the host has, and whether any of those is being stored, or being
// loaded.
func (o *offload) has(span chunks.Span) (present int, storing, loading bool) {
	if o.common == nil {
		return o.host.Find(span)
	}
	present, storing = o.host.FindFor(o.number, span, o.s.out.StartMs)
	span.Count = present
	return present, storing, o.loadsAny(span)
}

// loadsAny reports whether this worker is loading any chunk of a span.
func (o *offload) loadsAny(span chunks.Span) bool {
	stride := kvcache.BlockID(o.chunkBlocks)
	overlaps := func(t *transferring) bool {
		return slices.ContainsFunc(t.spans, func(other chunks.Span) bool {
			return other.Key < span.Key+kvcache.BlockID(span.Count)*stride &&
				span.Key < other.Key+kvcache.BlockID(other.Count)*stride
		})
	}
	for i := range o.loading.Len() {
		if overlaps(o.loading.At(i)) {
			return true
		}
	}
	return slices.ContainsFunc(o.loads, overlaps)
}

// chunkTokens returns the length of a chunk.
func (o *offload) chunkTokens() int { return o.chunkBlocks * o.s.blockSize }

// chunksOf lists chunks from..to-1. It is valid until the next call.
func (o *offload) chunksOf(key *kvcache.Key, from, to int) []chunks.Span {
	o.spans = o.spans[:0]
	for from < to {
		first, n := key.Run((from+1)*o.chunkBlocks-1, to*o.chunkBlocks)
		span := chunks.Span{Key: first, Index: from, Count: ceilDiv(n, o.chunkBlocks)}
		o.spans = append(o.spans, span)
		from += span.Count
	}
	return o.spans
}

// find looks up what the host has of a request behind hit tokens that the pool has. A request is to be skipped in this
// pass while what it would load is on its way.
func (o *offload) find(r *sequence, hit int) (more int, skip bool) {
	if o.s.groups.Beside > 0 {
		return o.findInGroups(r, hit)
	}
	size := o.chunkTokens()
	from, to := hit/size, hit/size
	o.left = 0
	for whole := r.tokens() / size; to < whole; {
		first, n := r.key.Run((to+1)*o.chunkBlocks-1, whole*o.chunkBlocks)
		span := chunks.Span{Key: first, Count: ceilDiv(n, o.chunkBlocks)}
		present, storing, loading := o.has(span)
		to += present
		skip = skip || storing || loading
		if present < span.Count {
			break
		}
	}
	if to == from {
		return 0, false
	}
	if more = to*size - hit; more < size {
		o.left = more / o.s.blockSize
		more, skip = 0, false
	}
	return more, skip
}

// admit admits loaded requests, then those of the waiting queue; it replaces admitWaiting. The first that does not fit
// keeps all others waiting, but those whose copies run are passed over.
func (o *offload) admit(b *batch, budget int) {
	s := o.s
	o.admitted = len(s.running)
	for i := 0; i < len(o.holding); {
		if budget == 0 || len(s.running) >= s.rules.MaxActiveSeqs {
			return
		}
		r := o.holding[i]
		if !r.hosted.loaded {
			i++
			continue
		}
		o.receive(r)
		tokens := s.chunk(r, r.computed, min(b.bounded(r.tokens()-r.computed), budget))
		if tokens == 0 || !o.hasRoomFor(r, tokens) {
			if len(s.running)+len(o.ghosts) == 0 && len(o.holding) == 1 {
				o.giveUp(r)
			}
			return
		}
		o.holding = slices.Delete(o.holding, i, i+1)
		o.touched = append(o.touched, r.registered...)
		o.touched = append(o.touched, r.tables.slots...)
		if !r.hosted.counted {
			o.use.Found += max(0, min(r.computed, r.promptTokens)-r.hosted.onGPU)
		}
		budget -= o.start(b, r, tokens)
	}
	o.seek()
	if s.headWaits && o.quiet() {
		return
	}
	for i := 0; i < s.waiting.Len() && budget > 0 && len(s.running) < s.rules.MaxActiveSeqs; {
		r := s.waiting.At(i)
		if reason := s.cannotEverRun(r); reason != "" {
			s.waiting.Remove(i)
			s.out.Rejected = append(s.out.Rejected, engine.Rejection{ID: r.id, Reason: reason})
			continue
		}
		if len(r.hosted.copying) > 0 || o.awaitsFetch(r) {
			i++
			continue
		}
		hit := s.findPrefix(r)
		cached := hit.blocks * s.blockSize
		o.renew(r.hosted, 0, hit.blocks/o.chunkBlocks)
		more, skip := o.find(r, cached)
		if skip {
			i++
			continue
		}
		if more > 0 {
			if hit.fresh {
				return
			}
			if !o.load(r, hit, cached+more) {
				if s.neverFits(r) {
					continue
				}
				return
			}
			s.waiting.Remove(i)
			continue
		}
		tokens := b.bounded(r.tokens() - cached)
		if !s.args.ChunkedPrefill && tokens > budget {
			return
		}
		tokens = s.chunk(r, cached, min(tokens, budget))
		if tokens == 0 || hit.fresh {
			return
		}
		if !s.hasRoom(r, cached+tokens, hit) {
			if s.neverFits(r) {
				continue
			}
			return
		}
		s.waiting.Remove(i)
		s.hold(r, hit)
		if s.groups.Beside > 0 {
			s.holdBeside(r, hit)
		}
		r.computed = cached
		o.touched = append(o.touched, r.registered...)
		o.touched = append(o.touched, r.tables.slots...)
		o.use.Missed += o.left
		budget -= o.start(b, r, tokens)
	}
}

// giveUp rejects a loaded request for which there will never be room: nothing else is in the pool.
func (o *offload) giveUp(r *sequence) {
	o.holding = o.holding[:0]
	o.forget(r)
	o.s.release(r)
	o.s.out.Rejected = append(o.s.out.Rejected, engine.Rejection{ID: r.id, Reason: o.s.stuck(r)})
}

// receive registers what a request has loaded, when a pass has a seat and tokens for it. By then, running requests have
// registered what they fill in the same pass: of two equal blocks, theirs is found.
func (o *offload) receive(r *sequence) {
	o.s.register(r, r.computed)
	r.computed = min(r.computed, r.tokens()-1)
	o.s.noteStates(r)
}

// start makes a request run and computes its next tokens.
func (o *offload) start(b *batch, r *sequence, tokens int) int {
	s := o.s
	r.hosted.counted = true
	s.run(r, min(r.computed, r.promptTokens))
	if !s.take(r, r.computed+tokens) {
		panic("vllm: a request that fits the pool does not get its blocks")
	}
	s.serve(b, r, tokens)
	return tokens
}

// load begins to load what the host has of the first tokens of a request. It reports false, and changes nothing, if
// there is no room.
func (o *offload) load(r *sequence, hit prefix, tokens int) bool {
	s := o.s
	if s.groups.Beside > 0 {
		return o.loadGroups(r, hit, tokens)
	}
	free := s.pool.Free()
	whole, part := s.ceilBlocks(r.tokens())-hit.held, s.ceilBlocks(tokens)-hit.held
	if whole > free {
		s.headWaits = true
		return false
	}
	if part+o.reserved() > free {
		return false
	}
	s.hold(r, hit)
	o.touched = append(o.touched, r.registered...)
	cached, size := hit.blocks*s.blockSize, o.chunkTokens()
	if !s.take(r, tokens) {
		panic("vllm: a request that fits the pool does not get its blocks")
	}
	first := cached / size
	loaded := slices.Clone(o.chunksOf(&r.key, first, tokens/size))
	o.begin(r, cached, tokens, loaded, s.ceilBlocks(tokens)-hit.blocks)
	return true
}

// begin begins to load blocks of a request behind cached tokens, which are on the GPU, up to a number of tokens.
func (o *offload) begin(r *sequence, cached, tokens int, loaded []chunks.Span, blocks int) {
	o.host.Load(&r.hosted.Request, loaded...)
	o.renew(r.hosted, ceilDiv(tokens, o.chunkTokens()), r.hosted.nextState)
	r.hosted.loaded, r.hosted.noted, r.hosted.onGPU = false, false, cached
	r.computed = tokens
	r.status = loading
	o.holding = append(o.holding, r)
	t := &transferring{of: r.hosted, loading: r, spans: loaded, blocks: blocks}
	o.loads = append(o.loads, t)
	r.hosted.copying = append(r.hosted.copying, t)
}

// offers reports whether a request that decodes has chunks to offer, now or later.
func (o *offload) offers(r *sequence) bool {
	return !o.promptOnly || r.hosted.next < r.promptTokens/o.chunkTokens()
}

// quiet reports whether nothing is copied or waits for a copy.
func (o *offload) quiet() bool {
	return o.storing.Len()+o.loading.Len() == 0 && !o.outstanding() && len(o.holding) == 0 &&
		math.IsInf(o.nextFetched(), 1)
}

// reserved returns the number of blocks that requests lack whose prompts are on their way into the pool.
func (o *offload) reserved() (blocks int) {
	for _, r := range o.holding {
		blocks += o.lacks(r, r.tokens())
	}
	for _, r := range o.ghosts {
		blocks += o.lacks(r, r.tokens())
	}
	if o.s.groups.Beside == 0 {
		return blocks + o.s.owed()
	}
	for _, r := range o.s.running[o.s.steady.prefix:] {
		if r.midPrompt {
			blocks += o.lacks(r, r.tokens())
		}
	}
	return blocks
}

// launch ends the composition of a pass: what it computes is offered to the host, and what the pass has to wait for is
// waited for. It returns when the pass starts.
func (o *offload) launch(b *batch, nowMs float64) float64 {
	s := o.s
	if s.groups.Beside > 0 {
		o.launchGroups(b)
	} else {
		for _, r := range s.running[s.steady.prefix:] {
			if r.servedIn == b.number {
				o.offer(r.hosted, o.offered(r))
			}
		}
	}
	o.bidFarewell()
	return o.submit(nowMs)
}

// offered returns the number of tokens of a request that are offered once they are computed.
func (o *offload) offered(r *sequence) int {
	tokens := min(r.computed, r.tokens())
	if o.promptOnly {
		tokens = min(tokens, r.promptTokens)
	}
	return tokens
}

// bidFarewell makes the last offers of the requests that ended in the last pass, and lets the host forget them.
func (o *offload) bidFarewell() {
	for _, h := range o.leaving {
		if o.s.groups.Beside == 0 {
			o.offer(h, h.tokens)
		} else if to := h.tokens / o.chunkTokens(); h.next < to {
			h.unstored = o.without(h.unstored)
			o.offerHeld(h, o.offerings(h, to))
		}
	}
	for _, h := range o.leaving {
		o.host.Farewell(&h.Request)
	}
	o.leaving = o.leaving[:0]
}

// offer offers the chunks that the first tokens of a request fill and that were not offered yet.
func (o *offload) offer(h *hosted, tokens int) {
	to := tokens / o.chunkTokens()
	if h.next >= to {
		return
	}
	stored, taken := o.host.Offer(&h.Request, o.chunksOf(&h.key, h.next, to)...)
	o.tellEvicted()
	if !taken {
		return
	}
	h.next = to
	if len(stored) == 0 {
		return
	}
	t := &transferring{of: h, spans: slices.Clone(stored)}
	for _, span := range stored {
		t.blocks += span.Count * o.chunkBlocks
	}
	o.store(t)
}

// store has chunks be stored with the next pass.
func (o *offload) store(t *transferring) {
	o.tellNames(kvcache.Held, t.spans)
	o.fresh = append(o.fresh, t)
	t.of.copying = append(t.of.copying, t)
	if t.of.ended {
		o.fence(t)
	}
}

// fence makes passes that use a block which a store reads wait for the store: its request has given it back.
func (o *offload) fence(t *transferring) {
	for _, span := range t.spans {
		if groups := o.s.groups.Beside + 1; groups == 1 {
			t.slots = append(t.slots, t.of.slots[span.Index*o.chunkBlocks:(span.Index+span.Count)*o.chunkBlocks]...)
		} else if span.Index%groups == 0 {
			first := span.Index / groups * o.chunkBlocks
			t.slots = append(t.slots, t.of.slots[first:first+o.chunkBlocks]...)
		}
	}
	o.fenceSlots(t)
}

// fenceSlots makes passes that use one of the slots of a store wait for it.
func (o *offload) fenceSlots(t *transferring) {
	for _, slot := range t.slots {
		fences, at := o.fencesOf(slot)
		if more := at + 1 - len(*fences); more > 0 {
			*fences = append(*fences, make([]*transferring, more)...)
		}
		if (*fences)[at] == nil {
			o.fenced++
		}
		(*fences)[at] = t
	}
}

// fencesOf returns the fences among which that of a block is, and which one: those of registered blocks, or those of
// blocks with a name.
func (o *offload) fencesOf(slot paged.Slot) (fences *[]*transferring, at int) {
	if paged.IsUnregistered(slot) {
		return &o.namedFences, int(paged.PartialSlot - slot)
	}
	return &o.fences, int(slot)
}

// submit submits the stores of earlier passes, and the loads of this one, and returns when the pass starts: not before
// the copies that it has to wait for have ended.
func (o *offload) submit(nowMs float64) (startMs float64) {
	o.takeEvicted()
	if o.fenced > 0 {
		for _, slot := range o.touched {
			if t := o.fenceOf(slot); t != nil {
				o.awaited = append(o.awaited, t)
			}
		}
	}
	startMs = nowMs
	if len(o.awaited) > 0 {
		o.submitStores(nowMs)
		for _, t := range o.awaited {
			if i := slices.Index(o.fresh, t); i >= 0 {
				o.fresh = slices.Delete(o.fresh, i, i+1)
				o.pending = append(o.pending, t)
			}
		}
		o.submitStores(nowMs)
		for _, t := range o.awaited {
			startMs = max(startMs, o.awaitedEnd(t))
		}
	}
	o.submitStores(startMs)
	for _, t := range o.loads {
		o.run(t, &o.loading, &o.loadEnd, startMs, o.loadMs)
	}
	for _, t := range o.fresh {
		o.fenceSlots(t)
	}
	o.pending, o.fresh = append(o.pending, o.fresh...), o.fresh[:0]
	o.loads, o.awaited, o.touched = o.loads[:0], o.awaited[:0], o.touched[:0]
	o.use.HeldMs += startMs - nowMs
	return startMs
}

// takeEvicted takes note of the blocks that the pass that is composed takes.
func (o *offload) takeEvicted() { o.touched = append(o.touched, o.s.pool.TakeEvicted()...) }

// fenceOf returns the store that reads a block, nil if there is none for which a pass would wait.
func (o *offload) fenceOf(slot paged.Slot) *transferring {
	fences, at := o.fencesOf(slot)
	if slot == paged.PartialSlot || at >= len(*fences) {
		return nil
	}
	return (*fences)[at]
}

func (o *offload) submitStores(atMs float64) {
	for _, t := range o.pending {
		o.run(t, &o.storing, &o.storeEnd, atMs, o.storeMs)
	}
	o.pending = o.pending[:0]
}

// run submits a copy at an instant: it begins when the one before in its direction has ended.
func (o *offload) run(t *transferring, queue *deque.Deque[*transferring], lastEnd *float64, atMs, blockMs float64) {
	if t.loading == nil {
		o.use.Stored += t.blocks
	} else {
		o.use.Loaded += t.blocks
	}
	queue.PushBack(t)
	if o.common != nil {
		t.move = o.lanes[way(t)].Submit(atMs, o.latencyMs, t.blocks, blockMs)
		return
	}
	startMs := max(atMs, *lastEnd)
	tookMs := o.latencyMs + float64(float64(t.blocks)*blockMs)
	t.beganMs, t.endMs = startMs, startMs+tookMs
	*lastEnd = t.endMs
	o.passOn(t, t.endMs)
	o.count(t, startMs, tookMs)
}

// count takes note of how long a copy takes.
func (o *offload) count(t *transferring, startMs, tookMs float64) {
	if t.loading == nil {
		o.use.StoreMs += tookMs
	} else {
		o.use.LoadMs += tookMs
	}
	o.s.parts.Copy(engine.Copy{Back: t.loading != nil, StartMs: startMs, EndMs: t.endMs, Blocks: t.blocks})
}

// notice takes note of the copies that had ended at an instant, and reports whether there are any.
func (o *offload) notice(atMs float64) (any bool) {
	if o.common != nil {
		return o.noticeShared(atMs)
	}
	for _, queue := range []*deque.Deque[*transferring]{&o.storing, &o.loading} {
		for queue.Len() > 0 && queue.Front().endMs <= atMs {
			any = true
			o.finish(queue.PopFront())
		}
	}
	return any
}

func (o *offload) finish(t *transferring) {
	o.s.headWaits = false // what was passed over comes before what is the head now
	t.of.copying = slices.DeleteFunc(t.of.copying, func(q *transferring) bool { return q == t })
	r := t.loading
	if r == nil {
		o.host.Stored(t.spans)
		o.tellStored(t.of, t.spans)
		for _, slot := range t.slots {
			if fences, at := o.fencesOf(slot); (*fences)[at] == t {
				(*fences)[at] = nil
				o.fenced--
			}
		}
		return
	}
	o.host.Loaded(t.spans)
	if i := slices.Index(o.ghosts, r); i >= 0 {
		o.ghosts = slices.Delete(o.ghosts, i, i+1)
		o.s.release(r)
		return
	}
	r.hosted.loaded = true
	o.s.parts.Load(engine.HostLoad{ID: r.id, FromMs: t.beganMs, UntilMs: t.endMs})
}

// preempted makes the pass that is composed wait for the stores of a request that it preempts.
func (o *offload) preempted(r *sequence) { o.awaited = append(o.awaited, r.hosted.copying...) }

// leave notes that a running request ends, which still holds its blocks.
func (o *offload) leave(r *sequence) {
	s, h := o.s, r.hosted
	s.register(r, min(r.computed, r.tokens()-1))
	h.ended = true
	h.tokens = min(r.promptTokens, r.computed)
	if !o.promptOnly {
		h.tokens = min(max(r.promptTokens, r.tokens()-1), r.computed)
	}
	if o.s.groups.Beside > 0 {
		o.list(r, h.tokens, nil)
	}
	if len(h.copying) > 0 || h.next < h.tokens/o.chunkTokens() {
		h.slots = slices.Clone(r.registered)
	}
	for _, t := range h.copying {
		o.fence(t)
	}
	s.trim(r) // before all others
	o.leaving = append(o.leaving, h)
}

// forget lets the host forget a request that does not run, with the next pass.
func (o *offload) forget(r *sequence) {
	o.leaveFetch(r)
	r.hosted.ended = true
	o.leaving = append(o.leaving, r.hosted)
}

// cancel forgets a request that is loading or loaded, if that is one. What it has loaded is not found by others, unless
// a pass has looked at the request since.
func (o *offload) cancel(id engine.RequestID) {
	i := slices.IndexFunc(o.holding, func(r *sequence) bool { return r.id == id })
	if i < 0 {
		return
	}
	r := o.holding[i]
	o.holding = slices.Delete(o.holding, i, i+1)
	o.forget(r)
	r.computed = r.listed() * o.s.blockSize
	if r.hosted.loaded {
		o.s.release(r)
	} else {
		o.ghosts = append(o.ghosts, r)
	}
}

// outstanding reports whether another pass at the same instant, though it serves nothing, has something to do.
func (o *offload) outstanding() bool { return len(o.leaving) > 0 || len(o.pending) > 0 }

// nextEnd returns when the next copy ends.
func (o *offload) nextEnd() (atMs float64, any bool) {
	if o.common != nil {
		return o.nextEndShared()
	}
	for _, queue := range []*deque.Deque[*transferring]{&o.storing, &o.loading} {
		if queue.Len() > 0 && (!any || queue.Front().endMs < atMs) {
			atMs, any = queue.Front().endMs, true
		}
	}
	return atMs, any
}

// catchUp does what the empty passes would have done in which nothing was run because there was no request, until an
// instant.
func (o *offload) catchUp(nowMs float64) {
	if o.common != nil {
		o.catchUpShared(nowMs)
		return
	}
	for atMs := o.endMs; atMs < nowMs; {
		o.bidFarewell()
		o.submit(atMs)
		if o.notice(atMs) || o.outstanding() {
			continue
		}
		next, any := o.nextEnd()
		if !any {
			return
		}
		atMs = next
	}
}

// again looks at a pass that serves nothing. It reports whether the next one is to be composed at the same instant; if
// not, the pass lasts until the next copy ends, or until the copies have ended for which it had to wait.
func (o *offload) again(b *batch) bool {
	s := o.s
	noticed := o.notice(b.startMs)
	if b.startMs > s.out.StartMs {
		return false
	}
	if noticed || o.outstanding() || b.preempted > 0 {
		return true
	}
	if next := o.nextMs(); !math.IsInf(next, 1) && s.Requests() > 0 {
		s.out.Waits, s.out.WaitsFromMs = true, s.out.StartMs
		b.startMs = next
	}
	return false
}

// nextMs returns when the next copy ends, or the next fetch from storage, +Inf if there is none.
func (o *offload) nextMs() float64 {
	atMs := o.nextFetched()
	if endMs, any := o.nextEnd(); any {
		atMs = min(atMs, endMs)
	}
	return atMs
}

// tell reports what has been copied since the last pass.
func (o *offload) tell(out *engine.Pass) {
	o.endMs = out.EndMs
	out.Copied = o.takeUse()
	if o.prefetches != nil {
		for _, c := range o.prefetches.client.TakeCopies() {
			o.s.parts.Copy(c)
		}
	}
}

// takeUse returns what has been copied since the last call.
func (o *offload) takeUse() engine.Copied {
	o.use.Evicted = o.host.Use().Evicted * o.chunkBlocks
	now, was := o.use, o.told
	if o.common != nil { // which tells it once
		was.Evicted, o.common.evicted = o.common.evicted, now.Evicted
	}
	o.told = now
	copied := engine.Copied{
		Stored: now.Stored - was.Stored, Loaded: now.Loaded - was.Loaded, Evicted: now.Evicted - was.Evicted,
		StoreMs: now.StoreMs - was.StoreMs, LoadMs: now.LoadMs - was.LoadMs, HeldMs: now.HeldMs - was.HeldMs,
		Missed: now.Missed - was.Missed, Found: now.Found - was.Found,
	}
	if o.prefetches != nil {
		copied.Storage = o.prefetches.client.TakeUse()
	}
	return copied
}
