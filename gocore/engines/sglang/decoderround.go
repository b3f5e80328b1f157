package sglang

import (
	"cmp"
	"slices"

	"dynosim/gocore/engine"
)

// mostOutput is how many output tokens a request is expected to have at most when room is looked for. The setting
// clip_max_new_tokens does not change it.
const mostOutput = 4096

// rounds takes rounds until one composes a batch, or changes nothing.
func (d *Decoder) rounds() *decode {
	for {
		b, changed := d.round()
		if b != nil || !changed {
			return b
		}
	}
}

// round takes a round, and reports whether it has changed anything that another one looks at. It composes no batch if
// nothing runs.
func (d *Decoder) round() (b *decode, changed bool) {
	was := d.standing()
	d.resume()
	if d.retracted.Len() == 0 {
		d.allocate()
		d.notice()
	}
	d.join()
	b = d.compose()
	return b, was != d.standing()
}

// standing returns what a round depends on.
func (d *Decoder) standing() [6]int {
	return [...]int{d.free, d.queue.Len(), len(d.loading), d.retracted.Len(), d.waiting.Len(), len(d.running)}
}

// setAside returns the tokens that are kept for requests that have pages.
func (d *Decoder) setAside() int {
	return d.args.SGLang.Reserved * (len(d.running) + len(d.loading) + d.waiting.Len())
}

// resume gives retracted requests pages for all that they had, in order.
func (d *Decoder) resume() {
	for d.retracted.Len() > 0 && d.holders < d.rows {
		r := d.retracted.Front()
		had := r.prompt + r.tokens - 1
		if d.ceil(had)+d.args.SGLang.Reserved > d.free-d.setAside() {
			return
		}
		d.take(r, had)
		d.waiting.PushBack(d.retracted.PopFront())
	}
}

// allocate gives requests the pages of their prompts in order of arrival. The output of a request may be as long as
// what running requests would give back if they were retracted, and so may that of the longest of these.
func (d *Decoder) allocate() {
	if d.queue.Len() == 0 {
		return
	}
	retractable, longest := 0, 0
	for _, r := range d.running {
		retractable += r.prompt + r.tokens
		longest = max(longest, r.whole())
	}
	for d.queue.Len() > 0 && d.holders < d.rows && len(d.loading) < d.entries {
		r := d.queue.Front()
		need := max(d.ceil(r.prompt)+d.args.SGLang.Reserved, r.whole()-retractable)
		if kept := max(d.setAside(), longest-retractable); need > d.free-kept {
			return
		}
		d.take(r, r.prompt)
		r.loads = true
		d.loading = append(d.loading, d.queue.PopFront())
		d.out.Allocated = append(d.out.Allocated, r.id)
	}
}

// whole returns how long a request is going to be, as far as that counts.
func (r *handed) whole() int { return r.prompt + min(r.output, mostOutput) }

// notice lets requests whose KV has arrived wait for a seat, in the order in which they got their pages.
func (d *Decoder) notice() {
	d.loading = slices.DeleteFunc(d.loading, func(r *handed) bool {
		if r.come {
			r.loads = false
			d.waiting.PushBack(r)
		}
		return r.come
	})
}

// join lets as many requests run as there are seats. Those that ended in the batch before still have theirs.
func (d *Decoder) join() {
	seats := d.args.MaxNumSeqs - len(d.running)
	d.running = slices.DeleteFunc(d.running, func(r *handed) bool { return r.over })
	for ; seats > 0 && d.waiting.Len() > 0; seats-- {
		r := d.waiting.PopFront()
		d.out.Admitted = append(d.out.Admitted, engine.Admission{ID: r.id})
		d.parts.Join(r.id)
		if r.tokens == 0 {
			d.passOn(r)
		}
		if r.begun, r.lostIn = r.tokens, 0; r.tokens == r.output {
			d.finish(r)
			continue
		}
		r.runs = true
		d.running = append(d.running, r)
	}
}

// passOn emits the first token of a request, which has come with its KV.
func (d *Decoder) passOn(r *handed) {
	d.out.Singles = append(d.out.Singles, engine.TokenRun{ID: r.id})
	if r.tokens = 1; d.observed && r.output > 1 {
		d.out.Signals = append(d.out.Signals, engine.Signal{ID: r.id})
	}
}

// compose gives each running request one token.
func (d *Decoder) compose() *decode {
	if len(d.running) == 0 {
		return nil
	}
	b := d.batches.Take()
	*b = decode{members: b.members[:0]}
	if d.short() {
		d.retract(b)
	}
	if d.short() {
		d.abort()
		return nil
	}
	for _, r := range d.running {
		if d.opens(r) {
			d.take(r, d.pageSize)
		}
		b.context += r.prompt + r.begun
		r.begun++
	}
	d.number++
	b.number, b.inUse = d.number, d.total-d.free
	b.members = append(b.members, d.running...)
	count := len(b.members)
	b.ms = d.decodeMs(count, b.context)
	if d.reporting {
		b.work = d.workOf(b)
	}
	return b
}

// decodeMs returns how long a batch takes.
func (d *Decoder) decodeMs(count, context int) float64 {
	return float64(d.clock.DecodeSeconds(count, context, min(context, d.total), d.total)*1000) + d.clock.HostMs(count)
}

// abort rejects the only running request if what others have leaves no room for its next token, as SGLang does.
func (d *Decoder) abort() {
	r := d.running[0]
	d.out.Rejected = append(d.out.Rejected, engine.Rejection{ID: r.id, Reason: "SGLang aborts it: it runs alone, and " +
		"the pages of requests that load or wait leave no room for its next token"})
	d.giveBack(r)
	r.over = true
	d.running = d.running[:0]
}

// short reports whether there are too few free pages for a token of each running request.
func (d *Decoder) short() bool {
	opening := 0
	for _, r := range d.running {
		if d.opens(r) {
			opening += d.pageSize
		}
	}
	return opening > d.free
}

// opens reports whether the next token of a request takes a new page.
func (d *Decoder) opens(r *handed) bool { return (r.prompt+r.begun-1)%d.pageSize == 0 }

// retract takes the pages of running requests, at least of one, until the others can go on: the request with the fewest
// tokens first, among equals the one with the longest prompt, then the last of the batch.
func (d *Decoder) retract(b *decode) {
	slices.SortStableFunc(d.running, func(x, y *handed) int {
		return cmp.Or(y.tokens-x.tokens, x.prompt-y.prompt)
	})
	for len(d.running) > 1 && (b.retracted == 0 || d.short()) {
		last := len(d.running) - 1
		r := d.running[last]
		d.running = d.running[:last]
		d.giveBack(r)
		r.lostIn = d.number
		r.runs, r.emits = false, false
		r.retractions++
		d.retracted.PushBack(r)
		d.out.Preempted++
		d.parts.LoseAtStart(r.id)
		b.retracted++
	}
}

// take gives a request pages for more tokens.
func (d *Decoder) take(r *handed, tokens int) {
	if r.pages == 0 {
		d.holders++
	}
	r.pages += d.ceil(tokens)
	d.free -= d.ceil(tokens)
}

// giveBack takes all pages of a request.
func (d *Decoder) giveBack(r *handed) {
	d.free += r.pages
	r.pages = 0
	d.holders--
}

func (d *Decoder) ceil(tokens int) int { return (tokens + d.pageSize - 1) / d.pageSize * d.pageSize }
