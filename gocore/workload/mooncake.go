package workload

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// loadSessions reads rows that are turns of sessions: the formats mooncake and mooncake-delta.
//
// A prompt longer than its block ids is cut to what they cover; surplus block ids are ignored.
func loadSessions(w *Workload, source Source, spec TraceSpec) error {
	l := newSessionLoader(w, spec)
	err := readRows(w, source, &spec, mooncakeKeys, nil, func(line int, r *row) error {
		l.line = line
		return l.add(r)
	})
	if err != nil {
		return err
	}
	return l.finish()
}

// sessionLoader collects rows into sessions.
type sessionLoader struct {
	spec    TraceSpec
	w       *Workload
	prompts *promptLoader
	packed  *packed // the rows so far, nil once they are turns
	line    int     // 1-based

	named map[string]int32 // session_id -> session
	tails []sessionTail    // by session
}

// sessionTail is what the next row of a session builds on.
type sessionTail struct {
	last        int32 // turn
	timestampMs float64
	timed       bool
}

func newSessionLoader(w *Workload, spec TraceSpec) *sessionLoader {
	l := &sessionLoader{spec: spec, w: w, prompts: newPromptLoader(w, spec), named: make(map[string]int32)}
	if w.Format == Mooncake {
		l.packed = newPacked(l.prompts.blocks)
	}
	return l
}

func (l *sessionLoader) finish() error {
	if l.packed != nil && l.packed.len() > 0 {
		l.packed.prompts.close()
		if l.spec.Passing {
			l.w.passing = l.packed
		} else {
			l.packed.unpackAll(l.w)
		}
		return nil
	}
	if len(l.w.Turns) == 0 {
		return noRequests(l.w.File)
	}
	return l.prompts.finish()
}

// add appends a row as a turn of its session.
func (l *sessionLoader) add(r *row) error {
	if l.packed != nil && !l.packed.takes(r) {
		l.unpack()
	}
	turn, err := l.turn(r)
	if err != nil {
		return err
	}
	if l.packed != nil {
		if l.packed.add(&turn, r) {
			return nil
		}
		l.unpack()
	}
	l.prompts.add(&turn, r)
	index := int32(len(l.w.Turns))
	if session, known := l.session(r); known {
		turn.Session = session
		if err := l.follow(&turn, r); err != nil {
			return err
		}
		l.w.Turns[l.tails[session].last].Next = index
		l.tails[session].last = index
	} else if err := l.begin(&turn, r, index); err != nil {
		return err
	}
	l.w.Turns = append(l.w.Turns, turn)
	return nil
}

// turn checks the lengths of a row, and notes its oddities.
func (l *sessionLoader) turn(r *row) (Turn, error) {
	turn := Turn{Row: int32(l.line - 1)}
	capacity, err := r.capacity(l.spec.TraceBlockSize)
	if err != nil {
		return Turn{}, err
	}
	turn.InputTokens = capacity
	if r.given&fieldInputLength != 0 {
		turn.InputTokens = int(min(r.inputLength, uint64(capacity)))
		if r.inputLength > uint64(capacity) {
			l.w.Notes.Shortened++
		}
	}
	if turn.OutputTokens, err = r.outputTokensWanted(); err != nil {
		return Turn{}, err
	}
	l.prompts.look(&turn, r)
	return turn, nil
}

// begin starts a new session with the row.
func (l *sessionLoader) begin(turn *Turn, r *row, index int32) error {
	if r.delay != 0 {
		return fmt.Errorf("delay: got %v for the first turn of session %q, want none: it has no turn to wait for",
			r.delay, l.sessionName(r))
	}
	turn.Session = int32(len(l.w.Sessions))
	timed := r.given&fieldTimestamp != 0
	session := Session{First: index, StartMs: r.timestamp, Timed: timed}
	if r.given&fieldSessionID != 0 {
		session.Name, session.Named = r.sessionID, true
		l.named[r.sessionID] = turn.Session
	}
	l.w.Sessions = append(l.w.Sessions, session)
	l.tails = append(l.tails, sessionTail{last: index, timestampMs: r.timestamp, timed: timed})
	return nil
}

// follow sets the place and the delay of a later turn: the delay given, or the distance from the latest timestamp that
// a row of the session had.
func (l *sessionLoader) follow(turn *Turn, r *row) error {
	tail := &l.tails[turn.Session]
	turn.Index = l.w.Turns[tail.last].Index + 1
	if l.prompts.delta && r.given&fieldCacheSalt != 0 {
		if salt := l.prompts.inputs[l.w.Sessions[turn.Session].First].salt; r.cacheSalt != salt {
			return fmt.Errorf("cache_salt: got %q, want %q, that of the first turn of session %q, or nothing",
				r.cacheSalt, salt, l.sessionName(r))
		}
	}
	switch {
	case r.given&fieldDelay != 0:
		turn.DelayMs = r.delay
	case r.given&fieldTimestamp != 0 && !tail.timed:
		return fmt.Errorf("timestamp: cannot infer the delay of this turn, no earlier row of session %q has a timestamp",
			l.sessionName(r))
	case r.given&fieldTimestamp != 0:
		turn.DelayMs = r.timestamp - tail.timestampMs
	}
	if !isDuration(turn.DelayMs) {
		if r.given&fieldDelay != 0 {
			return fmt.Errorf("delay: got %v, want a finite number >= 0", turn.DelayMs)
		}
		return fmt.Errorf("timestamp: got %v, which is a delay of %v ms after the session's previous timestamp, want >= 0",
			r.timestamp, turn.DelayMs)
	}
	if r.given&fieldTimestamp != 0 {
		tail.timestampMs, tail.timed = r.timestamp, true
	}
	return nil
}

// session finds the session that a row continues. A row without session_id is called request_LINE, and nothing keeps
// another row from using that very name on purpose.
func (l *sessionLoader) session(r *row) (int32, bool) {
	if r.given&fieldSessionID == 0 {
		if len(l.named) == 0 {
			return 0, false
		}
		session, known := l.named[l.sessionName(r)]
		return session, known
	}
	if session, known := l.named[r.sessionID]; known {
		return session, true
	}
	return l.unnamedSession(r.sessionID)
}

func (l *sessionLoader) sessionName(r *row) string {
	if r.given&fieldSessionID != 0 {
		return r.sessionID
	}
	return unnamedPrefix + strconv.Itoa(l.line)
}

const unnamedPrefix = "request_"

// unnamedSession finds the session of an earlier row without session_id by its generated name.
func (l *sessionLoader) unnamedSession(name string) (int32, bool) {
	digits, found := strings.CutPrefix(name, unnamedPrefix)
	if !found {
		return 0, false
	}
	line, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(line) != digits {
		return 0, false
	}
	turns := l.w.Turns
	i := sort.Search(len(turns), func(i int) bool { return int(turns[i].Row) >= line-1 })
	if i == len(turns) || int(turns[i].Row) != line-1 {
		return 0, false
	}
	session := turns[i].Session
	return session, !l.w.Sessions[session].Named && l.w.Sessions[session].First == int32(i)
}
