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
	inTurn  router.RoundRobin
	kv      *router.KV          // nil if workers get requests in turn
	ends    eventheap.Heap[int] // workers whose pass ends
	started int64               // passes, the sequence number of their ends
	ready   workerSet           // idle workers that own a request
}

// cluster runs several workers.
func (r *run) cluster() error {
	c := &cluster{run: r, ready: newWorkerSet(r.Workers)}
	if r.Router != nil {
		c.kv = router.New(*r.Router)
		for i := range r.workers {
			r.workers[i].Engine.Observe()
		}
	}
	for {
		if err := c.settle(); err != nil {
			return err
		}
		if c.done() {
			return nil
		}
		next, ok := c.nextMs()
		if !ok && c.unblock() {
			continue
		}
		if !ok {
			return c.deadEnd()
		}
		if next > c.MaxSimTimeMs {
			return nil
		}
		c.advance(next)
	}
}

// settle does everything that happens at this instant.
func (c *cluster) settle() error {
	for {
		ended, err := c.endPasses()
		if err != nil {
			return err
		}
		arrived, err := c.releaseArrivals()
		if err != nil {
			return err
		}
		started, err := c.startPasses()
		if err != nil || !ended && !arrived && !started {
			return err
		}
	}
}

func (c *cluster) done() bool {
	if c.ends.Len() > 0 || c.driver.Unreleased() > 0 {
		return false
	}
	return c.ready.empty()
}

func (c *cluster) nextMs() (float64, bool) {
	arrival, hasArrival := c.driver.NextMs()
	end, hasEnd := c.ends.Top()
	if hasEnd && (!hasArrival || end.AtMs < arrival) {
		return end.AtMs, true
	}
	return arrival, hasArrival
}

func (c *cluster) advance(toMs float64) {
	if elapsed := toMs - c.nowMs; elapsed > 0 {
		c.workerSeconds += float64(c.Workers) * elapsed / 1000
	}
	c.nowMs = toMs
}

// endPasses applies the passes that end now, in the order in which they started.
func (c *cluster) endPasses() (changed bool, err error) {
	for {
		top, ok := c.ends.Top()
		if !ok || top.AtMs != c.nowMs {
			return changed, nil
		}
		i := c.ends.Pop()
		pass := c.workers[i].Pass
		c.workers[i].Pass = nil
		if err := c.endPass(i, pass); err != nil {
			return changed, err
		}
		changed = true
	}
}

// endPass makes the end of a pass visible.
func (c *cluster) endPass(i int, pass *engine.Pass) error {
	defer c.noteReady(i)
	if c.kv == nil {
		c.apply(pass)
		return nil
	}
	return c.applyToRouter(i, pass)
}

func (c *cluster) releaseArrivals() (changed bool, err error) {
	for {
		turn, arrivalMs, ok := c.driver.Next(c.nowMs)
		if !ok {
			return changed, nil
		}
		c.arrive(turn, arrivalMs)
		if c.kv == nil {
			c.dispatch(turn, c.inTurn.Pick(c.Workers))
		} else if err := c.submit(turn); err != nil {
			return changed, err
		}
		changed = true
	}
}

// dispatch hands a request to the worker that was chosen for it.
func (c *cluster) dispatch(turn int32, to int) {
	c.assign(turn, to)
	c.noteReady(to)
}

// startPasses starts a pass on every ready worker, by ascending index; after each one the search begins anew, as whatever
// the pass did may have made another worker ready. A pass of no length is applied at once and its worker goes again; one
// that had no effect either is tried again only when something else has happened.
func (c *cluster) startPasses() (changed bool, err error) {
	for i, ok := c.ready.next(0); ok; {
		pass, alive, err := c.runPass(i)
		if err != nil {
			return changed, err
		}
		if !alive || pass.Idle() {
			i, ok = c.ready.next(i + 1)
			continue
		}
		if c.kv != nil && pass.KVEventsAtMs == c.nowMs {
			c.kv.Apply(i, pass.KVEvents)
		}
		if pass.EndMs > c.nowMs {
			c.workers[i].Pass = pass
			c.ends.Push(pass.EndMs, c.started, i)
			c.started++
			c.ready.remove(i)
		} else if err := c.endPass(i, pass); err != nil {
			return changed, err
		}
		changed = true
		i, ok = c.ready.next(0)
	}
	return changed, nil
}

// noteReady updates whether worker i can start a pass.
func (c *cluster) noteReady(i int) {
	if w := &c.workers[i]; w.Pass == nil && w.Engine.Requests() > 0 {
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
