package vllm

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/storage"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/chunks"
)

// prefetches fetch the beginnings of waiting prompts from storage behind the host, which has what the host was given.
// Ours, not vLLM's: docs/tiers.md has the rules. To the host a chunk that is being fetched is one that is being
// stored.
type prefetches struct {
	client *storage.Client
	rules  engineargs.StorageArgs
	unseen []*sequence // that have come and were not looked up in the storage
	under  []*sequence // whose prompts are being fetched
}

// fetch is chunks of a prompt on their way.
type fetch struct {
	storage.Fetch
	spans []chunks.Span
}

// addStorage puts storage behind the host, which other workers read, too, and write.
func (o *offload) addStorage(commons *engine.Commons) {
	rules := o.s.args.HostCache.Storage
	o.prefetches = &prefetches{client: storage.ClientOf(commons, rules), rules: rules}
	o.prefetches.client.CatchUp = o.writeLeft
}

// writeLeft submits what the empty passes of a worker without requests would have submitted before an instant, so that
// it is written to the storage in time for others.
func (o *offload) writeLeft(nowMs float64) {
	switch {
	case !o.idle(nowMs):
	case o.common == nil:
		o.untellCopies(func() { o.submitLeft(o.endMs) })
	default: // copies to a store are written once they have ended
		o.submitLeft(max(o.endMs, o.common.link.Now()))
		o.common.advance(nowMs)
		o.noticeUntold(nowMs)
	}
}

// come notes that a request has joined the waiting queue.
func (o *offload) come(r *sequence) {
	if o.prefetches != nil {
		o.prefetches.unseen = append(o.prefetches.unseen, r)
	}
}

// passOn writes chunks to the storage that are on the host from an instant on.
func (o *offload) passOn(t *transferring, atMs float64) {
	if o.prefetches == nil || t.loading != nil {
		return
	}
	for _, span := range t.spans {
		o.prefetches.client.Write(atMs, &t.of.key, span.Index*o.chunkBlocks, (span.Index+span.Count)*o.chunkBlocks)
	}
}

// advanceStorage brings the storage up to an instant, and notices what has come from it.
func (o *offload) advanceStorage(nowMs float64) {
	p := o.prefetches
	if p == nil {
		return
	}
	p.client.Advance(nowMs)
	for i := 0; i < len(p.under); {
		if r := p.under[i]; r.hosted.fetch.Read.Over() {
			o.arrive(r)
		} else {
			i++
		}
	}
}

// seek begins to fetch what the storage has of the prompts that have come.
func (o *offload) seek() {
	p := o.prefetches
	if p == nil || len(p.unseen) == 0 {
		return
	}
	for _, r := range p.unseen {
		o.seekFor(r)
	}
	p.unseen = p.unseen[:0]
	o.advanceStorage(p.client.Now()) // what takes no time is there
}

func (o *offload) seekFor(r *sequence) {
	p, size := o.prefetches, o.chunkTokens()
	found, whole := o.s.findPrefix(r).blocks*o.s.blockSize/size, r.promptTokens/size
	from := o.presentOf(r, found)
	count := p.client.Find(&r.key, from*o.chunkBlocks, whole*o.chunkBlocks) / o.chunkBlocks
	if count == 0 || count*size < p.rules.Threshold {
		return
	}
	before := slices.Clone(o.chunksOf(&r.key, found, from))
	spans := slices.Clone(o.host.Fetch(&r.hosted.Request, before, o.chunksOf(&r.key, from, from+count)))
	o.tellEvicted()
	if count = countOf(spans); count == 0 {
		return
	}
	nowMs := o.s.out.StartMs
	r.hosted.fetch = &fetch{
		Fetch: storage.Fetch{
			Read:    p.client.Read(nowMs, &r.key, from*o.chunkBlocks, (from+count)*o.chunkBlocks),
			UntilMs: nowMs + p.rules.WaitMs(count*size),
		},
		spans: spans,
	}
	p.under = append(p.under, r)
	o.tellNames(kvcache.Held, spans)
}

// presentOf returns the first chunk of r from chunk from on that the host does not have.
func (o *offload) presentOf(r *sequence, from int) int {
	for whole := r.promptTokens / o.chunkTokens(); from < whole; {
		first, n := r.key.Run((from+1)*o.chunkBlocks-1, whole*o.chunkBlocks)
		span := chunks.Span{Key: first, Count: ceilDiv(n, o.chunkBlocks)}
		present, _, _ := o.host.Find(span)
		if from += present; present < span.Count {
			break
		}
	}
	return from
}

func countOf(spans []chunks.Span) (count int) {
	for _, span := range spans {
		count += span.Count
	}
	return count
}

// arrive ends the fetch of a request: what has come is on the host, the room for the rest is free.
func (o *offload) arrive(r *sequence) {
	f := r.hosted.fetch
	r.hosted.fetch = nil
	o.prefetches.under = slices.DeleteFunc(o.prefetches.under, func(q *sequence) bool { return q == r })
	o.s.headWaits = false
	came := f.Read.Arrived() / o.chunkBlocks
	for _, span := range f.spans {
		have := span
		have.Count = min(came, span.Count)
		came -= have.Count
		rest := chunks.Span{
			Key:   r.key.Block((span.Index+have.Count+1)*o.chunkBlocks - 1),
			Index: span.Index + have.Count, Count: span.Count - have.Count,
		}
		if have.Count > 0 {
			o.host.Stored([]chunks.Span{have})
			o.tellStored(r.hosted, []chunks.Span{have})
		}
		if rest.Count > 0 {
			o.host.Drop(rest)
			o.tellNames(kvcache.LetGo, []chunks.Span{rest})
		}
	}
}

// awaitsFetch reports whether a request that could be looked up is passed over, as its prompt is being fetched.
func (o *offload) awaitsFetch(r *sequence) bool {
	f := r.hosted.fetch
	if f == nil {
		return false
	}
	if o.s.out.StartMs < f.UntilMs {
		return true
	}
	f.Read.Stop()
	o.arrive(r)
	return false
}

// leaveFetch gives up the fetch of a request that waits no more.
func (o *offload) leaveFetch(r *sequence) {
	p := o.prefetches
	if p == nil {
		return
	}
	p.unseen = slices.DeleteFunc(p.unseen, func(q *sequence) bool { return q == r })
	if r.hosted.fetch != nil {
		r.hosted.fetch.Read.Stop()
		o.arrive(r)
	}
}

// nextFetched returns when the next fetch ends, or the wait for it, +Inf if there is none.
func (o *offload) nextFetched() float64 {
	atMs := math.Inf(1)
	if o.prefetches != nil {
		for _, r := range o.prefetches.under {
			atMs = min(atMs, r.hosted.fetch.NextMs(o.s.out.StartMs))
		}
	}
	return atMs
}
