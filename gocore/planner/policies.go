package planner

import "math"

// keda is the rule of KEDA, after its documentation: a poll switches a pool on and off, and from one worker on
// Kubernetes' autoscaler has it.
type keda struct {
	poll                  every
	metric                Metric
	activation            int64 // thousandths; above it the pool is needed
	cooldownMs, initialMs float64
	floor, idle           int // workers of a pool that is needed, and of one that is not
	lastActiveMs          float64
	scaler                hpa
}

func (k *keda) prefill() bool   { return k.scaler.ofPrefill }
func (k *keda) nextMs() float64 { return min(k.poll.nextMs(), k.scaler.nextMs()) }

// decide polls first, if both are due.
func (k *keda) decide(p *Pool, ttftsMs []float64, nowMs float64) (int, string) {
	current := p.Active + p.Starting
	if k.poll.due(nowMs) {
		perWorker, extra := k.metric.values(p, ttftsMs)
		active := total(perWorker, extra) > k.activation
		switch {
		case active && current == 0:
			k.lastActiveMs = nowMs
			k.scaler.clock.due(nowMs)
			return max(1, k.floor), "keda: activated"
		case active:
			k.lastActiveMs = nowMs
		case k.idle < max(1, k.floor) && current > k.idle && nowMs > k.lastActiveMs+k.cooldownMs && nowMs > k.initialMs:
			k.scaler.clock.due(nowMs)
			return k.idle, "keda: idle"
		}
	}
	if !k.scaler.clock.due(nowMs) {
		return Unchanged, ""
	}
	return k.scaler.decideNow(p, ttftsMs, nowMs)
}

// queue asks for a worker for every target waiting requests.
type queue struct {
	clock     every
	ofPrefill bool
	min, max  int
	target    float64
}

func (q *queue) prefill() bool   { return q.ofPrefill }
func (q *queue) nextMs() float64 { return q.clock.nextMs() }

func (q *queue) decide(p *Pool, _ []float64, nowMs float64) (int, string) {
	q.clock.due(nowMs)
	waiting := p.Held
	for _, g := range p.Gauges {
		waiting += g.Waiting
	}
	return min(max(int(math.Ceil(float64(waiting)/q.target)), q.min), q.max), "queue: num_requests_waiting"
}

// timetable asks for numbers of workers at given times.
type timetable struct {
	ofPrefill bool
	rows      []row // by time
	done      int
}

type row struct {
	atMs  float64
	count int
}

func (s *timetable) prefill() bool { return s.ofPrefill }

func (s *timetable) nextMs() float64 {
	if s.done == len(s.rows) {
		return math.Inf(1)
	}
	return s.rows[s.done].atMs
}

func (s *timetable) decide(_ *Pool, _ []float64, nowMs float64) (int, string) {
	count := Unchanged
	for s.nextMs() <= nowMs {
		count = s.rows[s.done].count
		s.done++
	}
	return count, "schedule"
}
