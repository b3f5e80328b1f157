package replay

import (
	"math/bits"

	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
	"dynosim/gocore/router"
)

// cluster is the event loop of several workers behind a router.
type cluster struct {
	*run
	router   router.Router
	observes bool // the router does

	ends    eventheap.Heap[int] // workers whose pass ends, or coasting; see nextEnd
	started int64               // passes, the sequence number of their ends
	ready   workerSet           // idle workers that own a request

	// What coasting needs; see coast.go.
	due      []int64 // by worker: the sequence number of its valid end
	swept    int     // workers below have been asked to start a pass at this instant
	stepwise bool    // no worker may coast

	// What a planner needs; nil and empty without one. See elastic.go.
	scale *scaler
	pool  *pool              // the only one of scale
	kept  []engine.RequestID // that arrived while no worker was active
}

// cluster runs several workers.
func (r *run) cluster(setups []engine.Setup) error { return r.newCluster(setups).loop() }

func (r *run) newCluster(setups []engine.Setup) *cluster {
	r.makeWorkers(setups)
	c := &cluster{run: r, router: r.Router.Make(r.Workers), ready: newWorkerSet(r.Workers), due: make([]int64, r.Workers)}
	if c.observes = c.router.Traits().Observes; c.observes {
		for i := range r.workers {
			r.workers[i].Engine.Observe()
		}
	}
	return c
}

func (c *cluster) loop() error {
	for {
		if err := c.instant(); err != nil {
			return err
		}
		if c.done() {
			break
		}
		next, ok := c.nextMs()
		if !ok && c.unblock() {
			continue
		}
		next, ok = c.scale.sooner(next, ok)
		next, ok = c.faults.sooner(next, ok)
		if !ok && c.faults.giveUp() {
			continue
		}
		if !ok && c.scale.holds() {
			return c.scale.deadEnd(c.nowMs)
		}
		if !ok {
			return c.deadEnd()
		}
		if next > c.MaxSimTimeMs {
			break
		}
		c.advance(next)
	}
	last := c.lastInstant()
	c.pool.elapse(last - c.nowMs)
	c.nowMs = last
	return nil
}

// instant handles everything that happens at this instant.
func (c *cluster) instant() error {
	for {
		ended, err := c.endPasses()
		if err != nil {
			return err
		}
		ready, err := c.scale.becomeReady(c.nowMs)
		if err != nil {
			return err
		}
		struck, err := c.faults.strike()
		if err != nil {
			return err
		}
		arrived, err := c.releaseArrivals()
		if err != nil {
			return err
		}
		started, err := c.startPasses()
		if err != nil {
			return err
		}
		if ended || arrived || started {
			c.faults.goesOn()
		}
		if ended || ready || struck || arrived || started {
			c.scale.goesOn()
			continue
		}
		if again, err := c.scale.afterwards(c.nowMs, c.done); err != nil || !again {
			return err
		}
	}
}

func (c *cluster) done() bool {
	if c.faults != nil {
		return c.faults.done()
	}
	_, busy := c.nextEnd()
	return !busy && c.driver.Unreleased() == 0 && c.ready.empty() && !c.scale.holds()
}

func (c *cluster) nextMs() (float64, bool) {
	arrival, hasArrival := c.driver.NextMs()
	end, hasEnd := c.nextEnd()
	if hasEnd && (!hasArrival || end.AtMs < arrival) {
		return end.AtMs, true
	}
	return arrival, hasArrival
}

func (c *cluster) advance(toMs float64) {
	c.pool.elapse(toMs - c.nowMs)
	c.nowMs, c.swept = toMs, 0
}

// endPasses applies the passes that end now, in the order in which they started.
func (c *cluster) endPasses() (changed bool, err error) {
	for {
		top, ok := c.nextEnd()
		if !ok || top.AtMs != c.nowMs {
			return changed, nil
		}
		i := c.ends.Pop()
		changed = true
		pass := c.workers[i].Pass
		if pass == nil {
			c.settle(i, len(c.workers[i].Coast))
			c.faults.cancelDue(0, i)
			c.updateReady(i)
			continue
		}
		c.workers[i].Pass = nil
		if err := c.endPass(i, pass); err != nil {
			return changed, err
		}
	}
}

// endPass makes the end of a pass visible.
func (c *cluster) endPass(i int, pass *engine.Pass) error {
	defer c.updateReady(i)
	c.pool.ended(i)
	if c.faults != nil {
		return c.faults.passEnds(0, i, pass)
	}
	return c.apply(i, pass)
}

func (c *cluster) releaseArrivals() (changed bool, err error) {
	for {
		turn, arrivalMs, ok := c.driver.Next(c.nowMs)
		if !ok {
			return changed, nil
		}
		changed = true
		req := c.arrive(turn, arrivalMs)
		c.faults.arrived(turn)
		c.scale.arrived(c.pool)
		if c.pool.closed() {
			c.kept = append(c.kept, req.ID)
			continue
		}
		if err := c.submit(req); err != nil {
			return changed, err
		}
	}
}

// dispatch hands a request to the worker that was chosen for it.
func (c *cluster) dispatch(turn int32, to int) {
	if !c.faults.accepts(0, to, engine.RequestID(turn)) {
		return
	}
	c.haltCoast(to)
	c.assign(turn, to, c.nowMs)
	c.updateReady(to)
}

// startPasses starts a pass on every ready worker, by ascending index. After each pass the search begins again, because the pass may
// have made another worker ready. A pass without duration is applied at once, and its worker may start the next one; but if it had
// no effect either, the worker is tried again only after something else has happened.
func (c *cluster) startPasses() (changed bool, err error) {
	for i, ok := c.ready.next(0); ok; {
		c.swept = max(c.swept, i)
		if coasts, err := c.coast(i); err != nil {
			return changed, err
		} else if coasts {
			changed = true
			i, ok = c.ready.next(0)
			continue
		}
		pass, alive, err := c.runPass(i)
		if err != nil {
			return changed, err
		}
		if !alive || pass.Idle() {
			if c.asksOnce {
				return changed, errDepends
			}
			i, ok = c.ready.next(i + 1)
			continue
		}
		c.faults.stretch(0, i, pass)
		c.pool.began(i, c.workers[i].Engine, pass)
		if c.observes && pass.KVEventsAtMs == c.nowMs {
			c.tellRouter(i, pass.KVEvents)
		}
		if pass.EndMs > c.nowMs {
			c.workers[i].Pass = pass
			c.pushEnd(i, pass.EndMs)
		} else if err := c.endPass(i, pass); err != nil {
			return changed, err
		}
		changed = true
		i, ok = c.ready.next(0)
	}
	c.swept = len(c.workers)
	c.stepwise = !c.ready.empty()
	if c.stepwise {
		c.haltAll()
	}
	return changed, nil
}

// pushEnd adds the time when a worker will be idle again.
func (c *cluster) pushEnd(i int, atMs float64) {
	c.ready.remove(i)
	c.ends.Push(atMs, c.started, i)
	c.due[i] = c.started
	c.started++
}

// nextEnd is the earliest end. It skips ends of coasts that were cut short.
func (c *cluster) nextEnd() (eventheap.Event[int], bool) {
	for {
		top, ok := c.ends.Top()
		if !ok || c.due[top.Value] == top.Seq {
			return top, ok
		}
		c.ends.Pop()
	}
}

// updateReady updates whether worker i can start a pass.
func (c *cluster) updateReady(i int) {
	if w := &c.workers[i]; !c.faults.stands(0, i) && !w.Busy() && w.Engine.Requests() > 0 {
		c.ready.add(i)
	} else {
		c.ready.remove(i)
	}
}

// workerSet is a set of worker indices that can be walked in ascending order.
type workerSet []uint64

func newWorkerSet(workers int) workerSet { return make(workerSet, (workers+63)/64) }

func (s workerSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s workerSet) remove(i int)   { s[i/64] &^= 1 << (i % 64) }
func (s workerSet) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func (s workerSet) empty() bool {
	_, ok := s.next(0)
	return !ok
}

// next is the smallest member that is at least from.
func (s workerSet) next(from int) (int, bool) {
	for word := from / 64; word < len(s); word++ {
		members := s[word]
		if word == from/64 {
			members &= ^uint64(0) << (from % 64)
		}
		if members != 0 {
			return word*64 + bits.TrailingZeros64(members), true
		}
	}
	return 0, false
}
