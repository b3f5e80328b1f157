package replay

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/planner"
	"dynosim/gocore/router"
)

// What two pools do if a planner scales them.

// scaled prepares a run with a planner.
func (d *disagg) scaled() error {
	prefill, err := d.newPool("prefill", &d.prefill, d.Disagg.Prefill, engine.Prefill, d.dispatch)
	if err != nil {
		return err
	}
	decode, err := d.newPool("decode", &d.decode, d.Disagg.Decode, engine.Decode, d.reserve)
	if err != nil {
		return err
	}
	d.scale = newScaler(d.elasticPlanner(), prefill, decode)
	d.steps = append([]func() (bool, error){d.endPasses, d.becomeReady}, d.steps[1:]...)
	for _, s := range []*stage{&d.prefill, &d.decode} {
		for i := range s.workers {
			d.scale.observe(s.workers[i].Engine)
		}
	}
	if d.Faults != nil {
		d.endure()
	}
	return d.scale.begin()
}

func (d *disagg) becomeReady() (changed bool, err error) { return d.scale.becomeReady(d.nowMs) }

// finished reports whether all requests are over.
func (d *disagg) finished() bool {
	if d.faults != nil {
		return d.faults.done()
	}
	_, busy := d.topEvent()
	return !busy && d.driver.Unreleased() == 0 && d.unfinished == 0
}

// keep holds an action back that needs an active worker, and reports false if there is one.
func (s *stage) keep(a nextAction) bool {
	if s.pool == nil || s.pool.serves() {
		return false
	}
	s.kept = append(s.kept, a)
	return true
}

// stageCrew is the crew of one of two pools.
type stageCrew struct {
	d    *disagg
	s    *stage
	args engineargs.Args
	role engine.Role
	give func([]router.Admission, error) error // hands requests to workers
}

var _ crew = stageCrew{}

func (d *disagg) newPool(name string, s *stage, args engineargs.Args, role engine.Role, give func([]router.Admission, error) error) (*pool, error) {
	e, err := elastic(s.router)
	if err != nil {
		return nil, err
	}
	c := stageCrew{d: d, s: s, args: args, role: role, give: give}
	stream := uint64(prefillStartUps)
	if role == engine.Decode {
		stream = decodeStartUps
	}
	s.pool = newPool(name, len(s.workers), startUpsOf(args, d.Seed, stream), e, c)
	return s.pool, nil
}

func (c stageCrew) add(id int) {
	c.s.workers = append(c.s.workers, stageWorker{})
	c.s.ready = c.s.ready.withRoom(id)
	if c.role == engine.Decode {
		c.d.collector.AddWorker()
	}
}

func (c stageCrew) start(id int) {
	c.s.start(&c.d.Config, c.args, c.role, id)
	c.d.scale.observe(c.s.workers[id].Engine)
}

func (c stageCrew) empty(id int) bool {
	w := &c.s.workers[id]
	return w.Engine == nil || !w.Busy() && len(w.deferred) == 0 && w.Engine.Requests() == 0 && len(w.Engine.States()) == 0
}

func (c stageCrew) remove(id int) { c.s.workers[id] = stageWorker{} }

func (c stageCrew) admit(admitted []router.Admission, err error) error {
	return c.give(admitted, err)
}

// release implements [crew]. The actions wait their turn.
func (c stageCrew) release() error {
	for _, a := range c.s.kept {
		c.d.actions.PushBack(a)
	}
	c.s.kept = nil
	return nil
}

func (c stageCrew) held() int { return len(c.s.kept) }

// catchUp implements [crew]. Only decode workers coast.
func (c stageCrew) catchUp() {
	if c.role != engine.Decode {
		return
	}
	d := c.d
	for len(d.coasting) > 0 {
		i := d.coasting[0]
		w := &d.decode.workers[i]
		d.haltCoast(i)
		endMs := w.Coast[len(w.Coast)-1]
		d.settleCoast(i)
		w.Pass = d.faults.unfinished(&w.Worker, endMs)
	}
}

func (c stageCrew) gauge(id int) planner.Gauge {
	return gauge(id, c.s.workers[id].Engine, c.args.NumGPUBlocks)
}
