package vllm

import "math"

// balancer chooses the rank of each request as the front end of a data-parallel vLLM does. The front end knows what a
// coordinator published last of each rank, about every 100 ms under load, and what it has sent there itself since.
type balancer struct {
	known []rankCounts // as published, and raised by requests sent since
	open  []int        // requests sent to each rank that have not ended
	start int          // the rank at which the next scan starts

	coordinator
}

// coordinator collects the reports of all ranks and publishes them after a while.
type coordinator struct {
	counts      []rankCounts
	saved       []rankCounts // as they were before the pass that reported last; nil if there are none
	changed     bool         // since the last publication
	last        passNumber   // that reported last
	publishedMs float64      // whole milliseconds
	deadlineMs  float64
}

// rankCounts is what a rank reports of itself.
type rankCounts struct {
	waiting, running int
	usage            float64 // of its blocks, 0 to 1
}

// passNumber is the number of a pass in its wave.
type passNumber struct{ wave, pass int }

func (n passNumber) after(m passNumber) bool {
	return n.wave > m.wave || n.wave == m.wave && n.pass > m.pass
}

// How long the coordinator waits, in milliseconds.
const (
	publishAfterMs  = 100  // since the last publication, with changes
	publishIdleMs   = 5000 // without
	publishSettleMs = 50   // since the first report, unless older counts wait to be published
)

func newBalancer(ranks int) *balancer {
	return &balancer{
		known: make([]rankCounts, ranks),
		open:  make([]int, ranks),
		coordinator: coordinator{
			counts: make([]rankCounts, ranks), last: passNumber{-1, -1}, deadlineMs: publishIdleMs,
		},
	}
}

// choose returns the rank of a request that arrives now: the one with the lowest score, the first of equals from start
// on.
func (b *balancer) choose(nowMs float64) int {
	b.publishUntil(nowMs)
	n := len(b.known)
	best, lowest := 0, math.Inf(1)
	for i := range n {
		rank := (b.start + i) % n
		c := &b.known[rank]
		score := float64(max(b.open[rank], c.waiting+c.running)) + float64(6*float64(c.waiting)*max(0, c.usage-0.5))
		if score < lowest {
			best, lowest = rank, score
		}
	}
	b.start = (b.start + 1) % n
	b.known[best].waiting++
	return best
}

// report enters what a rank reports in a pass.
func (b *balancer) report(rank int, c rankCounts, in passNumber, nowMs float64) {
	b.publishUntil(nowMs)
	k := &b.coordinator
	if in.after(k.last) {
		if k.changed {
			k.saved = append(k.saved[:0], k.counts...)
		}
		k.last = in
	}
	k.counts[rank] = c
	k.changed = true
	settleMs := float64(publishSettleMs)
	if len(k.saved) > 0 {
		settleMs = 0
	}
	k.deadlineMs = nowMs + max(settleMs, publishAfterMs-(math.Floor(nowMs)-k.publishedMs))
}

// publishUntil publishes what is due by now. That comes before anything else of the same instant.
func (b *balancer) publishUntil(nowMs float64) {
	k := &b.coordinator
	for k.deadlineMs <= nowMs {
		if len(k.saved) > 0 {
			copy(b.known, k.saved)
			k.saved = k.saved[:0]
		} else {
			copy(b.known, k.counts)
			k.changed = false
		}
		k.publishedMs = math.Floor(k.deadlineMs)
		if k.changed {
			k.deadlineMs += publishAfterMs
		} else {
			k.deadlineMs += publishIdleMs
		}
	}
}
