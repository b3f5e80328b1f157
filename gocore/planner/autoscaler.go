package planner

import (
	"math"
	"slices"
)

// Autoscaler is a planner made of policies, each of which looks at one pool on its own.
type Autoscaler struct {
	policies []*observed
	wants    Wants
}

// policy decides about one pool.
type policy interface {
	// prefill tells that it is about prefill workers; otherwise it is about the pool that emits tokens.
	prefill() bool
	// nextMs is when it wants to decide next, +Inf for never.
	nextMs() float64
	// decide is called at that time, with all latencies since the last call. Unchanged leaves the pool as it is.
	decide(p *Pool, ttftsMs []float64, nowMs float64) (target int, reason string)
}

// observed is a policy and what has happened since it last decided.
type observed struct {
	policy
	ttftsMs []float64
}

// Wants implements [Planner].
func (a *Autoscaler) Wants() Wants { return a.wants }

// InitialTickMs implements [Planner].
func (a *Autoscaler) InitialTickMs() (float64, error) { return a.nextMs(), nil }

func (a *Autoscaler) nextMs() float64 {
	next := math.Inf(1)
	for _, p := range a.policies {
		next = min(next, p.nextMs())
	}
	return next
}

// OnTick implements [Planner]. Policies that are due at the same instant decide in their order.
func (a *Autoscaler) OnTick(t *Tick) (Decision, error) {
	d := Decision{Prefill: Unchanged, Decode: Unchanged}
	for _, p := range a.policies {
		p.ttftsMs = append(p.ttftsMs, t.Traffic.TTFTsMs...)
		if p.nextMs() > t.NowMs {
			continue
		}
		pool, target := &t.Decode, &d.Decode
		if p.prefill() {
			pool, target = &t.Prefill, &d.Prefill
		}
		wanted, reason := p.decide(pool, p.ttftsMs, t.NowMs)
		p.ttftsMs = p.ttftsMs[:0]
		if wanted == Unchanged || wanted == pool.Active+pool.Starting {
			continue
		}
		*target = wanted
		if d.Reason != "" {
			d.Reason += "; "
		}
		d.Reason += reason
	}
	d.NextMs = a.nextMs()
	return d, nil
}

// every is a clock of a policy: it decides at n*period, from n = 1 on.
type every struct {
	periodMs float64
	ticks    int // that were
}

func (e *every) nextMs() float64 { return float64(e.ticks+1) * e.periodMs }

// due reports whether the clock ticks now, and goes on to the next tick.
func (e *every) due(nowMs float64) bool {
	if e.nextMs() > nowMs {
		return false
	}
	e.ticks++
	return true
}

// Metric is what a policy looks at.
type Metric string

// The metrics.
const (
	Waiting  Metric = "num_requests_waiting" // requests in the queues of engines, and held by the router
	Running  Metric = "num_requests_running"
	CacheUse Metric = "kv_cache_usage" // blocks in use of all blocks, 0 to 1
	TTFTP95  Metric = "ttft_p95_ms"    // of the requests that completed since the last decision
)

var metrics = []Metric{Waiting, Running, CacheUse, TTFTP95}

// values returns those of the active workers, in thousandths, as metric adapters send them. extra is what no worker
// has: the requests that the router holds. There are none if nothing was measured.
func (m Metric) values(p *Pool, ttftsMs []float64) (perWorker []int64, extra int64) {
	for _, g := range p.Gauges {
		switch m {
		case Waiting:
			perWorker = append(perWorker, thousandths(float64(g.Waiting)))
		case Running:
			perWorker = append(perWorker, thousandths(float64(g.Running)))
		case CacheUse:
			perWorker = append(perWorker, thousandths(float64(g.ActiveBlocks)/float64(g.Blocks)))
		case TTFTP95:
			if len(ttftsMs) > 0 {
				perWorker = append(perWorker, thousandths(percentile95(ttftsMs)))
			}
		}
	}
	if m == Waiting {
		extra = thousandths(float64(p.Held))
	}
	return perWorker, extra
}

func thousandths(v float64) int64 { return int64(v * 1000) }

// percentile95 returns the smallest value that is at least as large as 95 % of all. It sorts the values.
func percentile95(values []float64) float64 {
	slices.Sort(values)
	return values[(len(values)*95+99)/100-1]
}

func total(perWorker []int64, extra int64) int64 {
	for _, v := range perWorker {
		extra += v
	}
	return extra
}
