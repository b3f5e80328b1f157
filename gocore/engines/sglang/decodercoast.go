package sglang

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/timing"
)

var (
	_ engine.CoastReporter  = (*Decoder)(nil)
	_ engine.CoastExplainer = (*Decoder)(nil)
)

// decoderCoast is passes that follow each other in which the same requests get one token each: no request waits for
// room or for a seat, none ends, and none lacks a page.
type decoderCoast struct {
	endsMs []float64
	phases []int // scratch: running requests by how full their last page is
}

// Coast implements [engine.Coaster]. How full the last page of a request is follows from its length, so the pages that
// a pass opens are known without a look at requests.
func (d *Decoder) Coast(nowMs, untilMs float64) []float64 {
	c := &d.coast
	c.endsMs = c.endsMs[:0]
	passes := d.mereDecodes()
	if passes <= 0 {
		return nil
	}
	count, context := len(d.running), d.countPhases()
	free, flyingMs := d.free, 0.0
	if d.args.SGLang.Overlap {
		flyingMs = d.flying.ms
	}
	for atMs := nowMs; atMs < untilMs && len(c.endsMs) < passes; {
		at := (d.pageSize - len(c.endsMs)%d.pageSize) % d.pageSize
		if free -= c.phases[at] * d.pageSize; free < 0 {
			break
		}
		ms := d.decodeMs(count, context)
		context += count
		if d.args.SGLang.Overlap {
			ms, flyingMs = flyingMs, ms
		}
		if atMs+ms <= atMs {
			break
		}
		atMs += ms
		c.endsMs = append(c.endsMs, atMs)
	}
	return c.endsMs
}

// countPhases counts running requests by the part of a page that their next token finds taken, and returns the length
// of all of them.
func (d *Decoder) countPhases() (context int) {
	c := &d.coast
	c.phases = slices.Grow(c.phases[:0], d.pageSize)[:d.pageSize]
	clear(c.phases)
	for _, r := range d.running {
		c.phases[(r.prompt+r.begun-1)%d.pageSize]++
		context += r.prompt + r.begun
	}
	return context
}

// mereDecodes returns how many of the next passes may be of this kind, as far as pages last.
func (d *Decoder) mereDecodes() int {
	switch {
	case d.stepwise || d.shapes != nil || !timing.Pure(d.clock.Model) || len(d.running) == 0 || d.begun:
		return 0
	case d.queue.Len() > 0 || d.retracted.Len() > 0 || len(d.rejected) > 0:
		return 0
	case d.waiting.Len() > 0 && len(d.running) < d.args.MaxNumSeqs:
		return 0
	case slices.ContainsFunc(d.loading, func(r *handed) bool { return r.come }):
		return 0
	case d.args.SGLang.Overlap != (d.flying != nil):
		return 0
	case d.flying != nil && !slices.Equal(d.flying.members, d.running):
		return 0
	}
	passes := mostCoasted
	for _, r := range d.running {
		if r.over || !r.emits {
			return 0
		}
		passes = min(passes, r.output-r.tokens-1)
	}
	return passes
}

// Settle implements [engine.Coaster].
func (d *Decoder) Settle(passes int) {
	if passes == 0 {
		return
	}
	for _, r := range d.running {
		r.tokens += passes
		r.begun += passes
		pages := d.ceil(r.prompt + r.begun - 1)
		d.free -= pages - r.pages
		r.pages = pages
	}
	d.number += passes
	b := d.flying
	if b == nil {
		return
	}
	b.number, b.context, b.inUse = d.number, 0, d.total-d.free
	for _, r := range d.running {
		b.context += r.prompt + r.begun - 1
	}
	b.ms = d.decodeMs(len(b.members), b.context)
	if d.reporting {
		b.work = d.workOf(b)
	}
}

// CoastWork implements [engine.CoastReporter]. With overlap scheduling one more batch has been composed.
func (d *Decoder) CoastWork() engine.Phases {
	ahead := 0
	if d.flying != nil {
		ahead = 1
	}
	var p engine.Phases
	for _, r := range d.running {
		p.AddDecode(r.prompt + r.begun - 1 - ahead)
	}
	return p
}

// CoastHostMs implements [engine.CoastExplainer].
func (d *Decoder) CoastHostMs() float64 { return d.clock.HostMs(len(d.running)) }
