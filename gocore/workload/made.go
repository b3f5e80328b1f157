package workload

import "fmt"

// made is the turns of a generated workload that are created when they are asked for and not kept: only what was drawn is
// kept. Each is a session of its own, and its prompt shares nothing.
type made struct {
	g       *generator
	count   int
	speedup float64 // of arrivals
}

// Len is the number of turns.
func (w *Workload) Len() int {
	if w.made != nil {
		return w.made.count
	}
	return len(w.Turns)
}

// Lengths are the input and output tokens of a turn.
func (w *Workload) Lengths(turn int32) (input, output int) {
	if w.made != nil {
		return w.made.g.inputTokens(int(turn)), w.made.g.outputTokens(int(turn))
	}
	return w.Turns[turn].InputTokens, w.Turns[turn].OutputTokens
}

// sessions is the number of sessions.
func (w *Workload) sessions() int {
	if w.made != nil {
		return w.made.count
	}
	return len(w.Sessions)
}

// make writes a turn to t. The prompt is a new list, which an engine may keep.
func (m *made) make(t *Turn, turn int32) {
	*t = Turn{
		Row: turn, Session: turn, InputTokens: m.g.inputTokens(int(turn)), OutputTokens: m.g.outputTokens(int(turn)),
		Prompt: m.g.alone(uint32(turn)),
	}
}

// startMs is when a turn arrives.
func (m *made) startMs(turn int32) float64 { return m.g.start(int(turn)) / m.speedup }

// accelerate divides all arrivals by speedup, which must leave them finite.
func (m *made) accelerate(speedup float64) error {
	m.speedup = speedup
	for turn := range int32(m.count) {
		if !isDuration(m.startMs(turn)) {
			return fmt.Errorf("arrival_speedup_ratio: got %v, want a number that leaves all times finite: request %d starts at %v ms",
				speedup, turn, m.g.start(int(turn)))
		}
	}
	return nil
}
