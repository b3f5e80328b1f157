package report

// Latency is one that a limit may be on.
type Latency uint8

const (
	TTFT Latency = iota
	ITL          // each gap between two tokens
	TPOT         // the mean gap of a request
	E2E
)

// LateLimit is how many values of a latency may be over a limit.
type LateLimit struct {
	Of      Latency
	LimitMs float64
	Most    int64
}

// lateness counts what is over limits. Only what cannot change any more counts: requests that are over, and gaps of
// those that emit no more for now.
type lateness struct {
	limits []LateLimit
	counts []int64
	over   bool
}

// CountLate makes the collector count what is over limits. The run must not have faults, whose requests may begin
// again, and its collector no parts.
func (c *Collector) CountLate(limits []LateLimit) {
	if len(limits) > 0 {
		c.late = &lateness{limits: limits, counts: make([]int64, len(limits))}
	}
}

// TooLate reports whether more values than allowed are over one of the limits.
func (c *Collector) TooLate() bool { return c.late != nil && c.late.over }

// Late returns how many values are over each of the limits by now, at the least.
func (c *Collector) Late() []int64 {
	if c.late == nil {
		return nil
	}
	return c.late.counts
}

// add counts values over the limit with an index.
func (l *lateness) add(i int, values int64) {
	l.counts[i] += values
	l.over = l.over || l.counts[i] > l.limits[i].Most
}

// ended counts the latencies of a request that is over.
func (l *lateness) ended(r *record) {
	if l == nil || !r.counts() {
		return
	}
	for i, limit := range l.limits {
		value := 0.0
		switch {
		case limit.Of == TTFT:
			value = r.ttftMs()
		case limit.Of == E2E:
			value = r.e2eMs()
		case limit.Of == TPOT && r.tokens > 1:
			value = r.tpotMs()
		}
		if value > limit.LimitMs {
			l.add(i, 1)
		}
	}
}

// gap counts one gap between tokens.
func (l *lateness) gap(ms float64) {
	if l == nil {
		return
	}
	for i, limit := range l.limits {
		if limit.Of == ITL && ms > limit.LimitMs {
			l.add(i, 1)
		}
	}
}

// gaps counts those inside a run of a request.
func (l *lateness) gaps(line *timeline, n run) {
	if l == nil {
		return
	}
	for i, limit := range l.limits {
		if limit.Of != ITL {
			continue
		}
		found := int64(0)
		for before, pass := line.endMs(n.pass), n.pass+1; pass <= n.last; pass++ {
			ms := line.endMs(pass)
			if gap(before, ms) > limit.LimitMs {
				found++
			}
			before = ms
		}
		l.add(i, found)
	}
}
