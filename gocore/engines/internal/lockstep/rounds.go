package lockstep

import "dynosim/gocore/engine"

// Rounds are the passes through which a group of ranks coasts together.
type Rounds struct {
	EndsMs  []float64
	HostMs  float64   // of the slowest rank, the same in each
	waitMs  []float64 // how long all ranks together wait in each
	beganMs float64
}

// Begin forgets the rounds of the coast before.
func (r *Rounds) Begin(nowMs float64) {
	r.EndsMs, r.waitMs, r.beganMs = r.EndsMs[:0], r.waitMs[:0], nowMs
}

// Add adds a round of a group in which ranks are busy for busyMs in all, and the slowest one has this host time. It
// reports false, and adds nothing, if the rounds before have another one: engines tell one for a whole coast.
func (r *Rounds) Add(ranks int, atMs, endMs, busyMs, hostMs float64) bool {
	if len(r.EndsMs) > 0 && hostMs != r.HostMs {
		return false
	}
	r.HostMs = hostMs
	r.EndsMs = append(r.EndsMs, endMs)
	r.waitMs = append(r.waitMs, float64(float64(ranks)*(endMs-atMs))-busyMs)
	return true
}

// Settle counts the first rounds in lost, and returns when the last of them ends.
func (r *Rounds) Settle(rounds, ranks int, lost *engine.Lockstep) (endMs float64) {
	endMs = r.EndsMs[rounds-1]
	lost.PassMs += float64(ranks) * (endMs - r.beganMs)
	for _, ms := range r.waitMs[:rounds] {
		lost.WaitMs += ms
	}
	return endMs
}
