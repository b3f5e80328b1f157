package fleet

import "dynosim/gocore/engine"

// direct is the way of requests that one worker serves from the first token of the prompt to the last one of the
// answer.
type direct struct {
	*Fleet
	pool  *Pool
	given []int32 // by request: the number behind that of the worker that it was given to, or 0
}

func newDirect(f *Fleet) *direct {
	return &direct{Fleet: f, pool: f.pools[0], given: make([]int32, f.Requests)}
}

// send asks the router for a worker. The request may have to wait there, or before it.
func (d *direct) send(id engine.RequestID, first bool) error {
	if first {
		d.meets(d.pool)
	}
	d.given = withRoom(d.given, id)
	d.given[id] = 0
	if d.pool.closed() {
		d.pool.keep(action{id: id})
		return nil
	}
	return d.submit(d.pool, d.World.Request(id))
}

func (d *direct) resume(_ *Pool, a action) error { return d.send(a.id, false) }

func (d *direct) assigned(p *Pool, i int, id engine.RequestID) {
	accepted := p.accepts(i, id)
	if accepted || !p.over(id) {
		d.given[id] = int32(i) + 1
	}
	if accepted {
		d.flow.receive(p, i, id)
	}
}

func (d *direct) emitter(id engine.RequestID) int { return int(d.given[id]) - 1 }

func (d *direct) needs(id engine.RequestID, _ *Pool, i int) bool { return d.emitter(id) == i }

// receive hands a request to a worker.
func (d *direct) receive(p *Pool, i int, id engine.RequestID) {
	d.halt(p, i)
	r := d.World.Request(id)
	r.SentMs, r.OnRank = d.nowMs, p.OnRank(id)
	p.workers[i].Engine.Add(r)
	d.Recorder.Joined(p, i, id)
	d.interrupt(p, i)
	p.updateReady(i)
}

// ended makes the end of a pass visible. A router that observes gets cache events first, then first and last tokens,
// then rejections.
func (d *direct) ended(p *Pool, i int, pass *engine.Pass) error {
	if !p.observes {
		if err := d.endFinished(p, pass); err != nil {
			return err
		}
		return d.reject(p, pass)
	}
	for _, s := range pass.Signals {
		if p.over(s.ID) {
			continue
		}
		var err error
		if s.Final {
			err = d.leave(p, s.ID, Completed, "")
		} else {
			admitted, failed := p.router.PrefillCompleted(int32(s.ID), d.nowMs)
			err = d.admitted(p, admitted, failed)
		}
		if err != nil {
			return err
		}
	}
	return d.reject(p, pass)
}

func (d *direct) left(id engine.RequestID) { d.gone(id) }

func (d *direct) unblock() (changed bool) {
	for p, i := range d.present() {
		if e := p.workers[i].Engine; !p.halted(i) && e.Requests() > 0 && e.Unblock() {
			changed = true
		}
	}
	return changed
}

func (d *direct) done() bool { return d.pool.ready.empty() && !d.holds() }

func (d *direct) recall(id engine.RequestID, forget func(p *Pool, i int)) error {
	d.pool.dropKept(id)
	if i := d.emitter(id); i != unassigned {
		d.halt(d.pool, i)
		forget(d.pool, i)
	} else {
		d.left(id)
	}
	return d.cancel(d.pool, id)
}

// Nothing waits for a worker to be idle, and nothing is transferred.

func (d *direct) equip(*Pool, int)                       {}
func (d *direct) started(*Pool, int, *engine.Pass) error { return nil }
func (d *direct) idle(*Worker)                           {}
func (d *direct) freed(*Pool, int)                       {}
func (d *direct) act() (changed bool, err error)         { return false, nil }
func (d *direct) transferred(engine.RequestID)           {}
func (d *direct) transfers(engine.RequestID, int64) bool { return false }
func (d *direct) retime()                                {}
