package workload

import (
	"fmt"
	"strconv"

	"dynosim/gocore/kvcache"
)

// Workload is all turns of a run, in the order of the trace or of generation, and the sessions they form.
type Workload struct {
	Turns    []Turn
	Sessions []Session

	File string // the trace, "" if generated

	Hints         map[int32]Hints // by turn, for those whose row has some
	PolicyClasses bool            // rows name a class of a router policy
}

// Hints is what a turn asks of a router's queue.
type Hints struct {
	Priority       int64
	StrictPriority uint64
}

// Turn is one request.
type Turn struct {
	Row          int32 // 0-based line in the trace, or number of generation
	Session      int32
	Index        int32   // within the session, from 0
	Next         int32   // the session's next turn, none if 0 (turn 0 follows nobody)
	DelayMs      float64 // from the completion of the previous turn; 0 for the first
	InputTokens  int
	OutputTokens int
	Prompt       kvcache.Prompt
}

// Session is an ordered list of turns, linked by Turn.Next.
type Session struct {
	Name    string
	Named   bool // Name was given, and may be empty
	First   int32
	StartMs float64
	Timed   bool // StartMs was given
}

// SessionName is the name of a turn's session: the trace's own, or one made from the place where it first appears.
func (w *Workload) SessionName(turn int32) string {
	session := &w.Sessions[w.Turns[turn].Session]
	if session.Named {
		return session.Name
	}
	return unnamedPrefix + strconv.Itoa(int(w.Turns[session.First].Row)+1)
}

// TurnName is how messages call a turn: by file and 1-based line, or by the 0-based number of its generation.
func (w *Workload) TurnName(turn int32) string {
	row := w.Turns[turn].Row
	if w.File == "" {
		return fmt.Sprintf("request %d", row)
	}
	return fmt.Sprintf("%s line %d", w.File, row+1)
}
