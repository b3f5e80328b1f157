package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
)

// TraceSpec says how to read a trace.
type TraceSpec struct {
	TraceBlockSize  int // tokens per block id
	EngineBlockSize int // tokens per block of the engine
	// Poll is called now and then; an error it returns ends the reading and is passed on.
	Poll func() error
}

// pollEvery is the number of lines or sessions between two calls of Poll.
const pollEvery = 256

// LoadMooncake reads a Mooncake JSONL trace: one request a line, its prompt given as block ids, its output as a length.
// Rows with the same session_id are the turns of one session. name is how errors call the file.
//
// Lines that are empty are skipped but counted. A prompt longer than its block ids is cut to what they cover; surplus
// block ids are ignored.
func LoadMooncake(r io.Reader, name string, spec TraceSpec) (*Workload, error) {
	l := &mooncakeLoader{
		spec:   spec,
		w:      &Workload{File: name, Hints: make(map[int32]Hints)},
		blocks: newInterner(spec.TraceBlockSize, spec.EngineBlockSize),
		named:  make(map[string]int32),
	}
	lines, err := newLineReader(r)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	if err := l.read(lines); err != nil {
		return nil, err
	}
	if len(l.w.Turns) == 0 {
		return nil, fmt.Errorf("%s: holds no requests", name)
	}
	return l.w, nil
}

type mooncakeLoader struct {
	spec   TraceSpec
	w      *Workload
	blocks *interner
	line   int // 1-based

	named map[string]int32 // session_id -> session
	tails []sessionTail    // by session
}

// sessionTail is what the next row of a session builds on.
type sessionTail struct {
	last        int32 // turn
	timestampMs float64
	timed       bool
}

func (l *mooncakeLoader) read(lines *lineReader) error {
	decoder := newRowDecoder()
	for {
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		l.line++
		if err != nil {
			return l.fault(err)
		}
		if l.spec.Poll != nil && l.line%pollEvery == 0 {
			if err := l.spec.Poll(); err != nil {
				return err
			}
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		row, err := decoder.decode(text)
		if err == nil {
			err = l.add(row)
		}
		if err != nil {
			return l.fault(err)
		}
	}
}

func (l *mooncakeLoader) fault(err error) error {
	return fmt.Errorf("%s line %d: %w", l.w.File, l.line, err)
}

// add appends a row as a turn of its session.
func (l *mooncakeLoader) add(r *row) error {
	turn, err := l.turn(r)
	if err != nil {
		return err
	}
	if l.line > math.MaxInt32 {
		return fmt.Errorf("more lines than %d, the limit", math.MaxInt32)
	}
	index := int32(len(l.w.Turns))
	if r.given&(fieldPriority|fieldStrictPriority) != 0 {
		l.w.Hints[index] = r.hints
	}
	l.w.PolicyClasses = l.w.PolicyClasses || r.given&fieldPolicyClass != 0
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

// turn checks the lengths of a row and interns its prompt.
func (l *mooncakeLoader) turn(r *row) (Turn, error) {
	if r.given&fieldHashIDs == 0 {
		return Turn{}, errors.New("hash_ids: missing, want the list of the prompt's block ids")
	}
	if len(r.hashIDs) == 0 {
		return Turn{}, errors.New("hash_ids: got [], want at least one block id")
	}
	capacity := len(r.hashIDs) * l.spec.TraceBlockSize
	input := capacity
	if r.given&fieldInputLength != 0 {
		if r.inputLength == 0 {
			return Turn{}, errors.New("input_length: got 0, want an integer >= 1")
		}
		input = int(min(r.inputLength, uint64(capacity)))
	}
	if r.given&fieldOutputLength == 0 {
		return Turn{}, errors.New("output_length: missing, want an integer >= 1")
	}
	if r.outputLength == 0 {
		return Turn{}, errors.New("output_length: got 0, want an integer >= 1")
	}
	return Turn{
		Row:          int32(l.line - 1),
		InputTokens:  input,
		OutputTokens: int(r.outputLength),
		Prompt:       l.blocks.prompt(r.hashIDs, input),
	}, nil
}

// begin starts a new session with the row.
func (l *mooncakeLoader) begin(turn *Turn, r *row, index int32) error {
	if r.delay != 0 {
		return fmt.Errorf("delay: got %v for the first turn of session %q, want none: it has no turn to wait for", r.delay, l.sessionName(r))
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

// follow sets the place and the delay of a later turn: the delay given, or the distance from the latest timestamp that a
// row of the session had.
func (l *mooncakeLoader) follow(turn *Turn, r *row) error {
	tail := &l.tails[turn.Session]
	turn.Index = l.w.Turns[tail.last].Index + 1
	switch {
	case r.given&fieldDelay != 0:
		turn.DelayMs = r.delay
	case r.given&fieldTimestamp != 0 && !tail.timed:
		return fmt.Errorf("timestamp: cannot infer the delay of this turn, no earlier row of session %q has a timestamp", l.sessionName(r))
	case r.given&fieldTimestamp != 0:
		turn.DelayMs = r.timestamp - tail.timestampMs
	}
	if !isDuration(turn.DelayMs) {
		if r.given&fieldDelay != 0 {
			return fmt.Errorf("delay: got %v, want a finite number >= 0", turn.DelayMs)
		}
		return fmt.Errorf("timestamp: got %v, which is a delay of %v ms after the session's previous timestamp, want >= 0", r.timestamp, turn.DelayMs)
	}
	if r.given&fieldTimestamp != 0 {
		tail.timestampMs, tail.timed = r.timestamp, true
	}
	return nil
}

// session finds the session that a row continues. A row without session_id is called request_LINE, and nothing keeps
// another row from using that very name on purpose.
func (l *mooncakeLoader) session(r *row) (int32, bool) {
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

func (l *mooncakeLoader) sessionName(r *row) string {
	if r.given&fieldSessionID != 0 {
		return r.sessionID
	}
	return unnamedPrefix + strconv.Itoa(l.line)
}

const unnamedPrefix = "request_"

// unnamedSession finds the session of an earlier row without session_id by its generated name.
func (l *mooncakeLoader) unnamedSession(name string) (int32, bool) {
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
