package sglang

import "dynosim/gocore/engine"

var _ engine.Reporter = (*Decoder)(nil)

// ReportWork implements [engine.Reporter].
func (d *Decoder) ReportWork() { d.reporting = true }

// Work implements [engine.Reporter]. All requests wait to decode: their prompts are computed elsewhere.
func (d *Decoder) Work() engine.Work {
	w := engine.Work{Scheduled: d.work}
	for i := range d.queue.Len() {
		w.Queued.AddDecode(d.queue.At(i).prompt)
	}
	for _, r := range d.loading {
		w.Queued.AddDecode(r.prompt)
	}
	for i := range d.waiting.Len() {
		w.Queued.AddDecode(d.waiting.At(i).length())
	}
	for i := range d.retracted.Len() {
		w.Queued.AddDecode(d.retracted.At(i).length())
	}
	return w
}

func (r *handed) length() int { return r.prompt + r.tokens }

// workOf counts the requests that have a share of a batch.
func (d *Decoder) workOf(b *decode) engine.Phases {
	var p engine.Phases
	for _, r := range b.members {
		p.AddDecode(r.prompt + r.begun - 1)
	}
	return p
}

// Load implements [engine.Reporter].
func (d *Decoder) Load() (waiting, running, activeBlocks int) {
	for _, r := range d.running {
		if !r.over {
			running++
		}
	}
	return d.Requests() - running, running, (d.total - d.free) / d.pageSize
}
