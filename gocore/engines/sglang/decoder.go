package sglang

import (
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/roster"
	"dynosim/gocore/engines/internal/transit"
	"dynosim/gocore/timing"
)

// Decoder is a decode worker by SGLang's own rules (engine.Pusher). It has no tree: a request has the pages of its own
// prompt and output, and each prompt comes whole from a prefill worker. A round, at whose end a batch may be composed:
//
//	resume     retracted requests get pages for all that they had, in order; while one waits, nothing is allocated, and
//	           no end of a transfer is noticed
//	allocate   requests get the pages of their prompts in order of arrival: their prefill workers may begin
//	notice     requests whose KV has come wait for a seat
//	join       as many as there are seats run; those that have not yet pass their first token on, which the prefill
//	           worker has made
//	compose    one token for every running request; if pages are short, requests are retracted
//
//	Add --> queue --pages--> loading --KV is there--> waiting --a seat--> running --last token--> over
//	                                                    ^                    |
//	                                                    +---- retracted <----+
//
// First tokens are visible when the round takes place, which has a pass of its own for them that takes no time. Without
// overlap scheduling a round takes place when the batch before has ended. With it, a round takes place when that batch
// starts, so it does not know that one's tokens: a request whose last token is in flight takes part once more, for
// nothing, and one that is retracted makes the token in flight again.
type Decoder struct {
	args     engineargs.Args
	pageSize int
	clock    timing.Clock
	shapes   func(engine.Shape)
	stepwise bool
	total    int // slots
	free     int
	holders  int // requests that have pages
	rows     int // the most requests that may have
	entries  int // the most requests that may load, as each has an entry for what comes besides its KV
	awake    bool

	queue     deque.Deque[*handed]
	loading   []*handed
	retracted deque.Deque[*handed]
	waiting   deque.Deque[*handed]
	running   []*handed // in batch order, with those that ended in the batch that was delivered last

	flying *decode // runs, or is about to
	next   *decode // composed behind it
	begun  bool    // the round has taken place that composes next or, without overlap scheduling, flying
	number int     // of the batch composed last
	added  int

	rejected  []engine.Rejection
	out       engine.Pass
	parts     *engine.Parts
	observed  bool
	reporting bool
	work      engine.Phases
	batches   roster.Spares[decode]
	coast     decoderCoast
}

// handed is a request on a decode worker.
type handed struct {
	id             engine.RequestID
	order          int
	prompt, output int
	tokens         int // delivered
	begun          int // delivered or in flight
	pages          int // slots
	lostIn         int // the batch that was in flight when it was retracted
	come           bool
	emits          bool // in the emitting set
	loads, runs    bool
	over           bool
	retractions    int
}

// RequestID implements [dynosim/gocore/engines/internal/transit.Request].
func (r *handed) RequestID() engine.RequestID { return r.id }

// decode is a batch.
type decode struct {
	number         int
	members        []*handed
	context, inUse int
	retracted      int
	ms             float64
	work           engine.Phases
}

// rowsUpTo is the number of seats up to which a decode worker has two more rows for each.
const rowsUpTo = 32

// NewDecoder returns an idle decode worker.
func NewDecoder(args engineargs.Args, setup engine.Setup) *Decoder {
	d := &Decoder{
		args:     args,
		pageSize: args.BlockSize,
		clock:    args.Clock(setup.Model),
		shapes:   setup.Shapes,
		stepwise: setup.Stepwise,
		total:    args.NumGPUBlocks * args.BlockSize,
		rows:     args.MaxNumSeqs,
		entries:  2 * args.MaxNumSeqs,
		parts:    engine.NewParts(setup.Explain),
	}
	if d.free = d.total; args.MaxNumSeqs <= rowsUpTo {
		d.rows += 2 * args.MaxNumSeqs
	}
	return d
}

var _ engine.Pusher = (*Decoder)(nil)

// Observe implements [engine.Engine].
func (d *Decoder) Observe() { d.observed = true }

// Add implements [engine.Engine].
func (d *Decoder) Add(req engine.Request) {
	d.awake = true
	if reason := d.cannotEverRun(req); reason != "" {
		d.rejected = append(d.rejected, engine.Rejection{ID: req.ID, Reason: reason})
		return
	}
	r := &handed{id: req.ID, order: d.added, prompt: req.PromptTokens,
		output: d.args.Output(req.PromptTokens, req.OutputTokens)}
	d.added++
	d.queue.PushBack(r)
}

// Requests implements [engine.Engine].
func (d *Decoder) Requests() int {
	return d.queue.Len() + d.retracted.Len() + d.holders + len(d.rejected)
}

// Awake implements [engine.Pusher]. A batch may be in flight in which nothing is left that gets a token.
func (d *Decoder) Awake() bool { return d.flying != nil || d.awake && d.Requests() > 0 }

// Allocated implements [engine.Pusher]. It concerns prefill workers.
func (d *Decoder) Allocated(engine.RequestID) {}

// Transferred implements [engine.Pusher].
func (d *Decoder) Transferred(id engine.RequestID) {
	if i := slices.IndexFunc(d.loading, func(r *handed) bool { return r.id == id }); i >= 0 {
		d.loading[i].come, d.awake = true, true
	}
}

// RunPass implements [engine.Engine].
func (d *Decoder) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	d.out.Reset(nowMs, d.parts)
	d.out.EndMs, d.work = nowMs, engine.Phases{}
	d.out.Rejected = append(d.out.Rejected, d.rejected...)
	d.rejected = d.rejected[:0]
	if d.flying == nil {
		if d.flying = d.rounds(); d.showsFirst() {
			return &d.out, true
		}
	}
	if d.flying == nil {
		d.awake = false
		return &d.out, !d.out.Idle() || d.Requests() == 0
	}
	if d.args.SGLang.Overlap && !d.begun {
		d.next, _ = d.round()
		if d.begun = true; d.showsFirst() {
			return &d.out, true
		}
	}
	b := d.flying
	d.flying, d.next, d.begun = d.next, nil, false
	d.deliver(b)
	d.batches.Put(b)
	return &d.out, true
}

// showsFirst reports whether the pass is to show first tokens. Nothing else may be in it that takes time.
func (d *Decoder) showsFirst() bool {
	d.out.Tokens = len(d.out.Singles)
	return d.out.Tokens > 0
}

// deliver gives every request of a batch its token, but those that were retracted since, and those that have their last
// one already.
func (d *Decoder) deliver(b *decode) {
	d.out.EndMs = d.out.StartMs + b.ms
	d.out.Scheduled = len(b.members)
	d.work = b.work
	if p := d.parts; p != nil {
		p.HostMs = min(d.clock.HostMs(len(b.members)), b.ms)
		p.DecodeMs = b.ms - p.HostMs
	}
	for _, r := range b.members {
		if r.over || r.lostIn == b.number {
			continue
		}
		if !r.emits {
			d.out.Started = append(d.out.Started, engine.TokenRun{ID: r.id, Index: r.tokens})
			r.emits = true
		}
		d.out.Tokens++
		if r.tokens++; r.tokens == r.output {
			d.finish(r)
		}
	}
	d.tell(b)
}

// finish ends a request that has its last token. Its place in the running batch stays taken until the next round.
func (d *Decoder) finish(r *handed) {
	d.out.Finished = append(d.out.Finished, r.id)
	if d.observed {
		d.out.Signals = append(d.out.Signals, engine.Signal{ID: r.id, Final: true})
	}
	d.giveBack(r)
	r.over = true
}

// tell reports the shape of a pass, if shapes are wanted.
func (d *Decoder) tell(b *decode) {
	if d.shapes == nil {
		return
	}
	d.shapes(engine.Shape{
		StartMs: d.out.StartMs, EndMs: d.out.EndMs, DecodeRequests: len(b.members), ContextSum: b.context,
		InUse: b.inUse / d.pageSize, ComputedTokens: len(b.members), PreemptedRequests: b.retracted,
	})
}

// Unblock implements [engine.Engine]. If nothing runs, and what loads leaves no room for the first retracted request,
// SGLang notices no end of a transfer any more, and waits for ever; here that request is rejected.
func (d *Decoder) Unblock() bool {
	if d.flying != nil || d.retracted.Len() == 0 {
		return false
	}
	d.rejected = append(d.rejected, engine.Rejection{ID: d.retracted.PopFront().id, Reason: "SGLang waits for ever: " +
		"it was retracted, and requests whose KV has come, but which wait behind it, leave no room for it"})
	d.awake = true
	return true
}

// Cancel implements [engine.Engine]. A batch in flight takes as long as it would have taken.
func (d *Decoder) Cancel(id engine.RequestID) {
	d.awake = true
	d.rejected = slices.DeleteFunc(d.rejected, func(r engine.Rejection) bool { return r.ID == id })
	for _, queue := range []*deque.Deque[*handed]{&d.queue, &d.retracted} {
		if _, ok := transit.TakeFrom(queue, id); ok {
			return
		}
	}
	r, ok := transit.TakeFrom(&d.waiting, id)
	if ok {
		d.giveBack(r)
		return
	}
	for _, list := range []*[]*handed{&d.loading, &d.running} {
		i := slices.IndexFunc(*list, func(r *handed) bool { return r.id == id && !r.over })
		if i >= 0 {
			d.giveBack((*list)[i])
			(*list)[i].over = true
			*list = slices.Delete(*list, i, i+1)
			return
		}
	}
}

// States implements [engine.Engine].
func (d *Decoder) States() []engine.RequestState {
	all := append(roster.Append(slices.Clone(d.running), &d.waiting), d.loading...)
	all = roster.Append(roster.Append(all, &d.retracted), &d.queue)
	all = slices.DeleteFunc(all, func(r *handed) bool { return r.over })
	return roster.States(all, func(a, b *handed) int { return a.order - b.order }, d.state)
}

// state returns where a request stands.
func (d *Decoder) state(r *handed) engine.RequestState {
	s := engine.RequestState{
		ID: r.id, State: "waiting", PromptTokens: r.prompt, OutputTokens: r.output, Generated: r.tokens,
		BlocksNeeded: d.ceil(r.prompt+r.output) / d.pageSize,
	}
	switch {
	case r.runs:
		s.State = "running"
	case r.pages > 0:
		s.BlocksHeld = r.pages / d.pageSize
		if s.State = "waiting for a seat"; r.loads {
			s.State = "loading"
		}
	case r.retractions > 0:
		s.State = "retracted"
	}
	return s
}
