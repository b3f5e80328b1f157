package fleet

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/router"
)

// flow is the way of requests through the pools: of a request that one worker serves, or of one that a prefill worker
// hands off to a decode worker.
type flow interface {
	// arrive sends a request on its way that comes from outside, send another attempt of one.
	arrive(r engine.Request) error
	send(id engine.RequestID) error
	// admitted hands requests to the workers that the router of a pool has chosen.
	admitted(p *Pool, a []router.Admission, err error) error
	// started carries out what a pass that starts now asks for.
	started(p *Pool, i int, pass *engine.Pass) error
	// left is called when a request is over, or was forgotten by the worker that it was taken back from.
	left(id engine.RequestID)
	// ended makes the end of a pass visible. The pass is empty at the end of a coast.
	ended(p *Pool, i int, pass *engine.Pass) error
	// idle queues what waited for a worker, freed looks for requests that may go on there.
	idle(w *Worker)
	freed(p *Pool, i int)
	// act carries out what is queued.
	act() (changed bool, err error)
	// transferred ends a transfer. transfers reports whether an event is still the end of one.
	transferred(id engine.RequestID)
	transfers(id engine.RequestID, seq int64) bool
	retime()
	// release goes on with the requests that are held because no worker of a pool is active, and held counts them.
	release(p *Pool) error
	held(p *Pool) int
	// unblock runs when no further event is due. It makes workers that cannot go on give something up.
	unblock() bool
	// done reports whether no request is left, if nothing else is going to happen.
	done() bool

	// What faults need: see hooks.go.
	receive(p *Pool, i int, id engine.RequestID)
	recall(id engine.RequestID, worker int, forget func(p *Pool, i int)) error
	decodeWorker(id engine.RequestID) int
	needs(id engine.RequestID, p *Pool, i int) bool
}

// direct is the way of requests that one worker serves from the first token of the prompt to the last one of the
// answer.
type direct struct {
	*Fleet
	pool *Pool
	kept []engine.RequestID // that arrived while no worker was active
}

var _ flow = (*direct)(nil)

func (d *direct) arrive(r engine.Request) error {
	d.meets(d.pool)
	return d.submit(r)
}

func (d *direct) send(id engine.RequestID) error { return d.submit(d.World.Request(id)) }

// submit asks the router for a worker. The request may have to wait there.
func (d *direct) submit(r engine.Request) error {
	if d.pool.closed() {
		d.kept = append(d.kept, r.ID)
		return nil
	}
	admitted, err := d.pool.router.Submit(d.World.Routed(r), d.nowMs)
	return d.admitted(d.pool, admitted, err)
}

func (d *direct) admitted(p *Pool, admitted []router.Admission, err error) error {
	d.count(admitted)
	var refused []engine.RequestID
	for _, a := range admitted {
		if id := engine.RequestID(a.ID); a.Worker == router.Refused {
			refused = append(refused, id)
		} else if p.accepts(a.Worker, id) {
			if d.Watcher != nil { // replays have no use for it
				d.Recorder.Routed(p, a.Worker, id, a.OverlapBlocks*p.Args.BlockSize)
			}
			d.receive(p, a.Worker, id)
		}
	}
	if err != nil {
		return d.World.Explain(err)
	}
	return each(refused, func(id engine.RequestID) error { return d.refuse(p, id) })
}

// receive hands a request to a worker.
func (d *direct) receive(p *Pool, i int, id engine.RequestID) {
	d.halt(p, i)
	r := d.World.Request(id)
	r.SentMs = d.nowMs
	p.workers[i].Engine.Add(r)
	d.Recorder.Joined(p, i, id)
	d.interrupt(p, i)
	p.updateReady(i)
}

// ended makes the end of a pass visible. A router that observes gets cache events first, then first and last tokens,
// then rejections.
func (d *direct) ended(p *Pool, i int, pass *engine.Pass) error {
	d.shown(p, i, pass)
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

// shown makes visible what blocks a pass has stored and removed, if anything sees that.
func (f *Fleet) shown(p *Pool, i int, pass *engine.Pass) {
	if (p.observes || f.Watcher != nil) && pass.KVEventsAtMs > pass.StartMs {
		p.cacheChanged(i, pass.KVEvents)
	}
}

// prefilled tells the router of a pool of prefill workers which prompts a pass has computed.
func (f *Fleet) prefilled(p *Pool, pass *engine.Pass) error {
	if !p.observes {
		return nil
	}
	for _, id := range pass.Finished {
		if p.over(id) {
			continue
		}
		admitted, err := p.router.PrefillCompleted(int32(id), f.nowMs)
		if err := f.flow.admitted(p, admitted, err); err != nil {
			return err
		}
	}
	return nil
}

// endFinished ends the requests that a pass has finished.
func (f *Fleet) endFinished(p *Pool, pass *engine.Pass) error {
	for _, id := range pass.Finished {
		if p.over(id) {
			continue
		}
		if err := f.leave(p, id, Completed, ""); err != nil {
			return err
		}
	}
	return nil
}

// reject ends the requests that a pass has found to be unable to run.
func (f *Fleet) reject(p *Pool, pass *engine.Pass) error {
	for _, rejected := range pass.Rejected {
		if p.over(rejected.ID) {
			continue
		}
		if err := f.leave(p, rejected.ID, Rejected, rejected.Reason); err != nil {
			return err
		}
	}
	return nil
}

func (d *direct) release(*Pool) error {
	kept := d.kept
	d.kept = nil
	for _, id := range kept {
		if err := d.send(id); err != nil {
			return err
		}
	}
	return nil
}

func (d *direct) left(id engine.RequestID) { d.gone(id) }

func (d *direct) held(*Pool) int { return len(d.kept) }

func (d *direct) unblock() (changed bool) {
	for i := range d.pool.workers {
		if e := d.pool.workers[i].Engine; e != nil && !d.pool.halted(i) && e.Requests() > 0 && e.Unblock() {
			changed = true
		}
	}
	return changed
}

func (d *direct) done() bool { return d.pool.ready.empty() && !d.holds() }

func (d *direct) recall(id engine.RequestID, worker int, forget func(p *Pool, i int)) error {
	d.kept = slices.DeleteFunc(d.kept, func(other engine.RequestID) bool { return other == id })
	if worker >= 0 {
		d.halt(d.pool, worker)
		forget(d.pool, worker)
	} else {
		d.left(id)
	}
	admitted, err := d.pool.router.Cancel(int32(id), d.nowMs)
	return d.admitted(d.pool, admitted, err)
}

// Nothing waits for a worker to be idle, and nothing is transferred.

func (d *direct) started(*Pool, int, *engine.Pass) error  { return nil }
func (d *direct) idle(*Worker)                            {}
func (d *direct) freed(*Pool, int)                        {}
func (d *direct) act() (changed bool, err error)          { return false, nil }
func (d *direct) transferred(engine.RequestID)            {}
func (d *direct) transfers(engine.RequestID, int64) bool  { return false }
func (d *direct) retime()                                 {}
func (d *direct) decodeWorker(engine.RequestID) int       { return unassigned }
func (d *direct) needs(engine.RequestID, *Pool, int) bool { return false }
