package replay

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
)

// transferring is a transfer that has begun.
type transferring struct {
	id      engine.RequestID
	leftMs  float64 // at full speed, since sinceMs
	sinceMs float64
	rate    float64
	number  int64 // of the event that ends it, or nowhere
}

// linkRate is the speed of the link between the workers of a hand-off, 1 if nothing is wrong with it. Prefill workers are
// those of the first site.
func (f *faultRun) linkRate(prefill, decode int32) float64 {
	rate := 1.0
	for k, i := range [...]int32{prefill, decode} {
		if c := f.sites[k].cond(int(i)); c.cut > 0 || c.dead {
			return 0
		}
	}
	for _, l := range f.links {
		hit := l.Target.Pool == faults.AnyPool
		for k, i := range [...]int32{prefill, decode} {
			s := f.sites[k]
			hit = hit || l.Target.Has(s.kind, s.cond(int(i)).place)
		}
		switch {
		case !hit:
		case l.Kind == faults.LinkDown:
			return 0
		default:
			rate /= l.Factor
		}
	}
	return rate
}

// transferBegins puts a transfer on the clock that takes delayMs at full speed.
func (d *disagg) transferBegins(id engine.RequestID, delayMs float64) {
	f := d.faults
	if h := &d.handoffs[id]; delayMs == 0 && f.linkRate(h.prefill, h.decode) > 0 {
		d.transferred(id)
		return
	}
	d.Journal.Transfer(id, d.nowMs)
	f.transfers = append(f.transfers, transferring{id: id, leftMs: delayMs, sinceMs: d.nowMs, number: nowhere})
	f.setRate(&f.transfers[len(f.transfers)-1])
}

// setRate makes a transfer go on at the speed that its link has now.
func (f *faultRun) setRate(t *transferring) {
	d := f.loop.(*disagg)
	h := &d.handoffs[t.id]
	rate := f.linkRate(h.prefill, h.decode)
	if t.number != nowhere && rate == t.rate {
		return
	}
	t.leftMs = max(0, t.leftMs-(f.nowMs-t.sinceMs)*t.rate)
	t.sinceMs, t.rate, t.number = f.nowMs, rate, nowhere
	if rate > 0 {
		t.number = d.pushed
		d.push(f.nowMs+t.leftMs/rate, event{kind: transfer, index: int(t.id), seq: d.pushed})
	}
}

// retime is told that links have changed.
func (f *faultRun) retime() {
	for n := range f.transfers {
		f.setRate(&f.transfers[n])
	}
}

// transferValid reports whether an event is the end of its transfer at the speed that its link has now.
func (f *faultRun) transferValid(e event) bool {
	return slices.ContainsFunc(f.transfers, func(t transferring) bool { return int(t.id) == e.index && t.number == e.seq })
}

// transferEnds forgets a transfer.
func (f *faultRun) transferEnds(id engine.RequestID) {
	f.transfers = slices.DeleteFunc(f.transfers, func(t transferring) bool { return t.id == id })
}
