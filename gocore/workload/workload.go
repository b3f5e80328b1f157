package workload

import (
	"cmp"
	"fmt"
	"strconv"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/workload/traffic"
)

// Workload is all turns of a run, in the order of the trace or of generation, and the sessions they form.
type Workload struct {
	Turns    []Turn
	Sessions []Session

	File        string                // the trace, "" if generated; several are joined by ", "
	Format      Format                // of the trace
	RouterHints bool                  // whether any row has hints for the queue of a router
	Tenants     bool                  // whether any row has a tenant
	Hints       map[int32]RouterHints // those, by turn
	Notes       Notes

	// WaitFor lists, for each turn of an agentic trace, the turns that must be over before it may start, in the order
	// of the trace and with its repetitions; nil for other workloads. Each turn is then a session of its own.
	WaitFor    [][]int32
	RequestIDs []string // the names under which turns of an agentic trace wait for each other
	// Lanes is how many graphs of requests that wait for each other, or sessions, are in flight at most; 0 for all, at
	// their times.
	Lanes int

	sources []string // the files of a trace that has several, and where in them each turn stands
	places  []place
	untimed bool          // no session has a start
	unit    string        // what Turn.Row counts, "" for lines
	passing passing       // instead of Turns and Sessions, nil for most
	delta   *accumulation // of a mooncake-delta trace with sessions of several turns
}

// RouterHints are the fields of a row that only routers and reports of tenants read.
type RouterHints struct {
	Priority       int32
	StrictPriority uint32
	PolicyClass    string
	Tenant         string  // who has sent the request, "" if the row does not say
	DeadlineMs     float64 // after its arrival, by when the first token should be there; 0 for no deadline
}

// queues reports whether the hints say anything to the queue of a KV router.
func (h *RouterHints) queues() bool {
	return h.Priority != 0 || h.StrictPriority != 0 || h.PolicyClass != ""
}

// Deadlines reports whether any request has a deadline.
func (w *Workload) Deadlines() bool {
	for _, hints := range w.Hints {
		if hints.DeadlineMs > 0 {
			return true
		}
	}
	return false
}

// Notes counts rows of a trace with oddities that are no errors.
type Notes struct {
	Shortened int // prompts cut to what their block ids cover
	Surplus   int // more block ids than the prompt needs
	WideIDs   int // block ids beyond 32 bits, of which only the low 32 bits count
	// LengthsOnly counts prompts without block ids, of which only the length is known.
	LengthsOnly int
	Imported    []traffic.Note
	Strays      []Stray
}

// Texts describes them for a trace of the given number of requests.
func (n Notes) Texts(requests int) []string {
	texts := []string{}
	for _, note := range []struct {
		count int
		what  string
	}{
		{n.Shortened, "input_length is more than hash_ids cover, the prompt is cut to that"},
		{n.Surplus, "hash_ids has more ids than the prompt needs with this trace_block_size, the last ones are ignored"},
		{n.LengthsOnly, "there are no hash_ids, so that prompts share no prefixes"},
		{n.WideIDs, "hash_ids beyond 32 bits: only the low 32 bits tell blocks apart"},
	} {
		if note.count > 0 {
			texts = append(texts, fmt.Sprintf("%d of %d requests: %s", note.count, requests, note.what))
		}
	}
	for _, note := range n.Imported {
		texts = append(texts, note.String())
	}
	for _, stray := range n.Strays {
		texts = append(texts, fmt.Sprintf("%d of %d requests: the key %q is not read, did you mean %q?", stray.Rows,
			requests, stray.Key, stray.Meant))
	}
	return texts
}

func (w *Workload) hint(turn int32, given fields, hints RouterHints) {
	if w.Hints == nil {
		w.Hints = make(map[int32]RouterHints)
	}
	w.Hints[turn] = hints
	w.RouterHints = w.RouterHints || given&queueFields != 0
	w.Tenants = w.Tenants || hints.Tenant != ""
}

// Turn is one request.
type Turn struct {
	Row          int32 // 0-based line in the trace, or number of generation
	Session      int32
	Index        int32   // within the session, from 0
	Next         int32   // the session's next turn, none if 0 (turn 0 follows no other)
	DelayMs      float64 // from the completion of the previous turn; 0 for the first
	InputTokens  int
	OutputTokens int
	// Prompt is the ids of the leading full blocks of prompt and output together: all full blocks of the prompt, and
	// NamedBlocks blocks if those are more. Other requests can find them; the remaining blocks belong to this request
	// alone.
	Prompt      kvcache.Prompt
	NamedBlocks int
}

// Session is an ordered list of turns, linked by Turn.Next.
type Session struct {
	Name    string
	Named   bool // Name was given, and may be empty
	First   int32
	StartMs float64
	Timed   bool // StartMs was given
}

// Flat reports whether no turn waits for another one.
func (w *Workload) Flat() bool {
	return w.WaitFor == nil && w.Lanes == 0 && len(w.Sessions) == len(w.Turns)
}

// SessionName returns the name of a turn's session: the trace's own, or one made from the place where it first appears.
func (w *Workload) SessionName(turn int32) string {
	session := &w.Sessions[w.Turns[turn].Session]
	if session.Named {
		return session.Name
	}
	return unnamedPrefix + strconv.Itoa(int(w.Turns[session.First].Row)+1)
}

// SessionKey returns the name of a turn's session as routers know it, "" in a workload without sessions.
func (w *Workload) SessionKey(turn int32) string {
	if w.passing != nil || w.Flat() && !w.Sessions[w.Turns[turn].Session].Named {
		return ""
	}
	return w.SessionName(turn)
}

// fault names the turn an error is about.
func (w *Workload) fault(turn int32, err error) error {
	return fmt.Errorf("%s: %w", w.TurnName(turn), err)
}

// TurnName returns how messages call a turn: by file and 1-based line or number, or by the 0-based number of its
// generation.
func (w *Workload) TurnName(turn int32) string {
	row := w.Row(turn)
	unit := cmp.Or(w.unit, "line")
	switch {
	case w.File == "":
		return fmt.Sprintf("request %d", row)
	case w.places != nil:
		at := w.places[turn]
		return fmt.Sprintf("%s %s %d", w.sources[at.source], unit, at.line)
	}
	return fmt.Sprintf("%s %s %d", w.File, unit, row+1)
}
