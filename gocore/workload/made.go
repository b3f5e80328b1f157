package workload

import "fmt"

// passing is the turns of a workload that are created when they are asked for and not kept, instead of Workload.Turns
// and Workload.Sessions. Each is a session of its own. They start in their own order.
type passing interface {
	len() int
	lengths(turn int32) (input, output int)
	// row is what Turn.Row of a turn is.
	row(turn int32) int32
	// make writes a turn to t. The prompt is a new list, which an engine may keep.
	make(t *Turn, turn int32)
	// startMs is when a turn arrives.
	startMs(turn int32) float64
	// accelerate divides all arrivals by speedup, which must leave them finite.
	accelerate(w *Workload, speedup float64) error
}

// Len returns the number of turns.
func (w *Workload) Len() int {
	if w.passing != nil {
		return w.passing.len()
	}
	return len(w.Turns)
}

// Lengths returns the input and output tokens of a turn.
func (w *Workload) Lengths(turn int32) (input, output int) {
	if w.passing != nil {
		return w.passing.lengths(turn)
	}
	return w.Turns[turn].InputTokens, w.Turns[turn].OutputTokens
}

// Row does what Turn.Row does, for a turn.
func (w *Workload) Row(turn int32) int32 {
	if w.passing != nil {
		return w.passing.row(turn)
	}
	return w.Turns[turn].Row
}

// sessions returns the number of sessions.
func (w *Workload) sessions() int {
	if w.passing != nil {
		return w.passing.len()
	}
	return len(w.Sessions)
}

// made is the turns of a generated workload, of which only what was drawn is kept. Their prompts share nothing.
type made struct {
	g       *generator
	count   int
	speedup float64 // of arrivals
}

func (m *made) len() int { return m.count }

func (m *made) row(turn int32) int32 { return turn }

func (m *made) lengths(turn int32) (input, output int) {
	return m.g.inputTokens(int(turn)), m.g.outputTokens(int(turn))
}

func (m *made) make(t *Turn, turn int32) {
	*t = Turn{
		Row: turn, Session: turn, InputTokens: m.g.inputTokens(int(turn)), OutputTokens: m.g.outputTokens(int(turn)),
		Prompt: m.g.alone(uint32(turn)),
	}
}

func (m *made) startMs(turn int32) float64 { return m.g.start(int(turn)) / m.speedup }

// accelerate implements [passing].
func (m *made) accelerate(_ *Workload, speedup float64) error {
	m.speedup = speedup
	for turn := range int32(m.count) {
		if !isDuration(m.startMs(turn)) {
			return fmt.Errorf("arrival_speedup_ratio: got %v, want a number that leaves all times finite: request %d "+
				"starts at %v ms",
				speedup, turn, m.g.start(int(turn)))
		}
	}
	return nil
}
