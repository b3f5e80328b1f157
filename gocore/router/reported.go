package router

// workerLoads are what an [Asked] router tells of workers, by worker.
type workerLoads struct{ requests, queued, tokens, blocks []int64 }

// own returns the loads that the requests of this router make.
func (a *Asked) own() workerLoads {
	return workerLoads{a.requests, a.queued, a.kv.tracker.prefillTokens, a.kv.tracker.activeBlocks}
}

// seen returns the loads that a question tells.
func (a *Asked) seen() workerLoads {
	if a.reports == nil {
		return a.own()
	}
	return a.reports.loads(len(a.requests))
}

// reported are loads that workers report: those of the requests of all replicas of a router.
type reported struct {
	clock  PollClock // without an interval for loads of this instant
	of     []*Asked
	polled workerLoads
}

// poll brings what was polled up to date, as [polledLoads.poll] does. A nil one does nothing.
func (r *reported) poll(nowMs float64) {
	if r != nil && r.clock.EveryMs > 0 && r.clock.Due(nowMs) {
		r.read()
	}
}

// read adds the loads of all replicas up.
func (r *reported) read() {
	p := &r.polled
	p.requests, p.queued, p.tokens, p.blocks = p.requests[:0], p.queued[:0], p.tokens[:0], p.blocks[:0]
	for _, a := range r.of {
		own := a.own()
		p.requests, p.queued = addUp(p.requests, own.requests), addUp(p.queued, own.queued)
		p.tokens, p.blocks = addUp(p.tokens, own.tokens), addUp(p.blocks, own.blocks)
	}
}

// loads returns what is known of the first workers; those that have not been polled have nothing to do.
func (r *reported) loads(workers int) workerLoads {
	if r.clock.EveryMs == 0 {
		r.read()
	}
	idle := make([]int64, max(0, workers-len(r.polled.requests)))
	p := &r.polled
	p.requests, p.queued = append(p.requests, idle...), append(p.queued, idle...)
	p.tokens, p.blocks = append(p.tokens, idle...), append(p.blocks, idle...)
	return *p
}

// ShareReports makes routers that are replicas of each other report the loads of all of them together.
func ShareReports(of []*Asked) { shareReports(of, 0) }

// shareReports makes routers report the loads of all of them together: those of the last poll, or of this instant
// without an interval.
func shareReports(of []*Asked, everyMs float64) {
	r := &reported{clock: PollClock{EveryMs: everyMs}, of: of}
	for _, a := range of {
		a.reports = r
	}
}
