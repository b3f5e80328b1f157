package router

import (
	"math"
	"slices"

	"github.com/gammazero/deque"
)

// queue holds the requests that wait because all workers are busy. Those with the highest key go first, and the key is
// fixed when a request joins: strict priority, then the score of the policy, then order of joining.
//
// A request that goes after all others of the line joins it at its end, as all do that come first and have the same
// priority. The rest is in the heap.
type queue struct {
	policy QueuePolicy
	line   deque.Deque[*waiting]
	heap   []*waiting
	spare  []*waiting
	joined int64 // requests that ever did
	fair   fair  // for WFQ
}

// fair orders requests so that tenants get prompt tokens in the ratio of their weights, whatever the others ask for
// (start-time fair queueing): every tenant has a clock of its own, which a request moves on by its tokens divided by
// the weight, and the request goes first whose clock stands earliest. A tenant that had nothing to ask for begins where
// the others are.
type fair struct {
	weights map[string]float64
	clocks  map[string]float64
	now     float64 // the clock of the request that was admitted last
}

func newFair(c Config) fair {
	weights, _ := parseWeights(c.TenantWeights) // ParseConfig has checked them
	return fair{weights: weights}
}

// start returns the clock of a tenant at which its request may start, and moves that on.
func (f *fair) start(tenant string, tokens int) float64 {
	weight, given := f.weights[tenant]
	if !given {
		weight = 1
	}
	if f.clocks == nil {
		f.clocks = map[string]float64{}
	}
	start := max(f.clocks[tenant], f.now)
	f.clocks[tenant] = start + float64(tokens)/weight
	return start
}

// waiting is a request in the queue.
type waiting struct {
	request  Request
	overlaps []match // as of its arrival
	sinceMs  float64
	score    float64
	order    int64
}

// push adds a request; bestCached is the most tokens of its prompt that any worker has cached. overlaps is copied.
func (q *queue) push(r Request, overlaps []match, bestCached int, nowMs float64) {
	w := q.unused()
	*w = waiting{
		request:  r,
		overlaps: append(w.overlaps[:0], overlaps...),
		sinceMs:  nowMs,
		score:    q.policy.score(r, bestCached, nowMs),
		order:    q.joined,
	}
	if q.policy == WFQ {
		w.score = -q.fair.start(r.Tenant, max(r.PromptTokens-bestCached, 1))
	}
	q.joined++
	if q.line.Len() == 0 || q.line.Back().before(w) {
		q.line.PushBack(w)
		return
	}
	q.heap = append(q.heap, w)
	q.up(len(q.heap) - 1)
}

// len returns how many requests wait.
func (q *queue) len() int { return q.line.Len() + len(q.heap) }

func (q *queue) unused() *waiting {
	if last := len(q.spare) - 1; last >= 0 {
		w := q.spare[last]
		q.spare = q.spare[:last]
		return w
	}
	return new(waiting)
}

// score returns what the policy orders by. Times count in seconds, so that a priority of 1 is worth a second of
// waiting.
func (p QueuePolicy) score(r Request, bestCached int, nowMs float64) float64 {
	jump := float64(max(r.Priority, 0))
	arrivalS := max(nowMs, 0) / 1000
	switch p {
	case LCFS:
		return jump + arrivalS
	case ByPriority:
		return float64(r.Priority)
	case EDF:
		if r.DeadlineMs == 0 {
			return math.Inf(-1)
		}
		return -r.DeadlineMs
	case WFQ: // see queue.push
		return 0
	case WSPT:
		return (1 + jump) / float64(max(r.PromptTokens-bestCached, 1))
	default:
		return jump - arrivalS
	}
}

// pop removes the first request. There must be one. Give it back to recycle after use.
func (q *queue) pop() *waiting {
	w := q.first()
	if q.policy == WFQ {
		q.fair.now = -w.score
		if q.len() == 0 {
			clear(q.fair.clocks)
			q.fair.now = 0
		}
	}
	return w
}

// first takes out the request that goes first.
func (q *queue) first() *waiting {
	if q.line.Len() == 0 || len(q.heap) > 0 && q.heap[0].before(q.line.Front()) {
		return q.take(0)
	}
	return q.line.PopFront()
}

// remove takes a request out wherever it is, and reports false if it does not wait. Its cost grows with the queue: only
// requests that fail early are removed.
func (q *queue) remove(id int32) bool {
	is := func(w *waiting) bool { return w.request.ID == id }
	if i := q.line.Index(is); i >= 0 {
		q.recycle(q.line.Remove(i))
		return true
	}
	i := slices.IndexFunc(q.heap, is)
	if i < 0 {
		return false
	}
	q.recycle(q.take(i))
	return true
}

// recycle keeps the room of a request that has left the queue.
func (q *queue) recycle(w *waiting) {
	w.request = Request{} // lets go of the prompt
	q.spare = append(q.spare, w)
}

// take removes a request from the heap.
func (q *queue) take(i int) *waiting {
	taken, last := q.heap[i], len(q.heap)-1
	q.heap[i] = q.heap[last]
	q.heap[last] = nil
	q.heap = q.heap[:last]
	if i < last {
		q.down(i)
		q.up(i)
	}
	return taken
}

func (w *waiting) before(other *waiting) bool {
	switch {
	case w.request.StrictPriority != other.request.StrictPriority:
		return w.request.StrictPriority > other.request.StrictPriority
	case w.score != other.score:
		return w.score > other.score
	default:
		return w.order < other.order
	}
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.heap[i].before(q.heap[parent]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if child+1 < len(q.heap) && q.heap[child+1].before(q.heap[child]) {
			child++
		}
		if !q.heap[child].before(q.heap[i]) {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}
