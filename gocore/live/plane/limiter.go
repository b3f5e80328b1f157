package plane

import (
	"sync"
	"time"

	"dynosim/gocore/guard"

	"github.com/gammazero/deque"
)

// Limits bound the requests of a process.
type Limits struct {
	Active int // served at the same time, at least 1
	Queued int // waiting for their turn
}

// StandardLimits are the limits by default.
var StandardLimits = Limits{Active: 10_000, Queued: 40_000}

// limiter admits requests in the order of their arrival.
type limiter struct {
	limits Limits
	waited func(time.Duration) // called with the time that a request was in the queue

	mu     sync.Mutex
	active int
	queue  deque.Deque[queued]
	idle   *sync.Cond // nothing is active or queued
}

// queued is a request that waits for its turn.
type queued struct {
	job   func()
	since time.Time
}

func newLimiter(limits Limits, waited func(time.Duration)) *limiter {
	limits.Active = max(limits.Active, 1)
	l := &limiter{limits: limits, waited: waited}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// submit runs job on a goroutine of its own, at once or when it is its turn. It reports false if the queue is full.
func (l *limiter) submit(job func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.active < l.limits.Active: // then no request waits
		l.active++
		go guard.Func(func() { l.run(job) })()
	case l.queue.Len() < l.limits.Queued:
		l.queue.PushBack(queued{job, time.Now()})
	default:
		return false
	}
	return true
}

// run carries out a job, and then jobs of the queue.
func (l *limiter) run(job func()) {
	for job != nil {
		job()
		job = l.next()
	}
}

func (l *limiter) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.Len() > 0 {
		next := l.queue.PopFront()
		l.waited(time.Since(next.since))
		return next.job
	}
	l.active--
	if l.active == 0 {
		l.idle.Broadcast()
	}
	return nil
}

// wait returns when nothing is active or queued.
func (l *limiter) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.active > 0 {
		l.idle.Wait()
	}
}

func (l *limiter) load() (active, queued int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active, l.queue.Len()
}
