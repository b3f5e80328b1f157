package replay

import (
	"math/bits"

	"dynosim/gocore/eventheap"
	"dynosim/gocore/router"
)

// cluster is the event loop of several workers behind a round-robin router.
type cluster struct {
	*run
	router  router.RoundRobin
	ends    eventheap.Heap[int] // workers whose pass ends
	started int64               // passes, the sequence number of their ends
	ready   workerSet           // idle workers that own a request
}

// cluster runs several workers.
func (r *run) cluster() error {
	c := &cluster{run: r, ready: newWorkerSet(r.Workers)}
	for {
		if err := c.settle(); err != nil {
			return err
		}
		if c.done() {
			return nil
		}
		next, ok := c.nextMs()
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
		ended := c.endPasses()
		arrived := c.releaseArrivals()
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
func (c *cluster) endPasses() bool {
	changed := false
	for {
		top, ok := c.ends.Top()
		if !ok || top.AtMs != c.nowMs {
			return changed
		}
		i := c.ends.Pop()
		w := &c.workers[i]
		c.apply(w.Pass)
		w.Pass = nil
		c.noteReady(i)
		changed = true
	}
}

func (c *cluster) releaseArrivals() bool {
	changed := false
	for {
		turn, arrivalMs, ok := c.driver.Next(c.nowMs)
		if !ok {
			return changed
		}
		to := c.router.Pick(c.Workers)
		c.arrive(turn, arrivalMs, to)
		c.noteReady(to)
		changed = true
	}
}

// startPasses starts a pass on every ready worker, by ascending index. A pass of no length is applied at once and the
// worker runs again; one that had no effect either is tried again only when something else has happened.
func (c *cluster) startPasses() (changed bool, err error) {
	for i, ok := c.ready.next(0); ok; i, ok = c.ready.next(i + 1) {
		for c.ready.has(i) {
			pass, err := c.runPass(i)
			if err != nil {
				return changed, err
			}
			if pass.EndMs > c.nowMs {
				c.workers[i].Pass = pass
				c.ends.Push(pass.EndMs, c.started, i)
				c.started++
				c.ready.remove(i)
				changed = true
				break
			}
			if pass.Idle() {
				break
			}
			c.apply(pass)
			c.noteReady(i)
			changed = true
		}
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
