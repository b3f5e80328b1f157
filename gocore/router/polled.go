package router

// polledLoads are the loads of workers as all replicas of a KV-aware router see them: those of the last poll, at 0, 1,
// 2, ... times the interval.
type polledLoads struct {
	clock         PollClock
	of            []*KV // whose requests are on the workers
	tokens, usage []int64
}

// poll brings what was polled up to date. It must be called before the loads of this instant change. A nil one does
// nothing.
func (p *polledLoads) poll(nowMs float64) {
	if p == nil || !p.clock.Due(nowMs) {
		return
	}
	p.tokens, p.usage = p.tokens[:0], p.usage[:0]
	for _, k := range p.of {
		p.tokens = addUp(p.tokens, k.tracker.tokensAt(nowMs))
		p.usage = addUp(p.usage, k.tracker.activeBlocks)
	}
}

// growTo makes room for workers with ids below workers, which have nothing to do before they are polled.
func (p *polledLoads) growTo(workers int) {
	for len(p.tokens) < workers {
		p.tokens, p.usage = append(p.tokens, 0), append(p.usage, 0)
	}
}

// addUp adds a list to another one, place by place, which it makes as long.
func addUp(sum, list []int64) []int64 {
	for len(sum) < len(list) {
		sum = append(sum, 0)
	}
	for i, n := range list {
		sum[i] += n
	}
	return sum
}
