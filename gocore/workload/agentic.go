package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// loadAgentic reads rows that wait for each other: the format agentic_mooncake. Every row is a session of its own,
// whatever its session_id; that only labels it.
func loadAgentic(w *Workload, source Source, spec TraceSpec) error {
	l := newAgenticLoader(w, spec)
	err := readRows(w, source, &spec, agenticKeys, agenticHeader, func(line int, r *row) error {
		l.line = line
		return l.add(r)
	})
	if err != nil {
		return err
	}
	return l.finish()
}

// agenticSchema is what the first row of newer traces says, beside their version.
const agenticSchema = "dynamo.agentic_mooncake"

// agenticHeader reports whether the first line is no request but says which version of the format comes.
func agenticHeader(line []byte) (bool, error) {
	if !bytes.Contains(line, []byte(agenticSchema)) {
		return false, nil
	}
	var header struct {
		Schema  string `json:"schema"`
		Version *int   `json:"version"`
	}
	if json.Unmarshal(line, &header) != nil || header.Schema != agenticSchema {
		return false, nil // a request, or a broken line
	}
	switch {
	case header.Version == nil:
		return true, errors.New("version: missing, want 2")
	case *header.Version != 2:
		return true, fmt.Errorf("version: got %d, want 2", *header.Version)
	}
	return true, nil
}

type agenticLoader struct {
	spec    TraceSpec
	w       *Workload
	prompts *promptLoader
	line    int // 1-based

	turns   map[string]int32 // request_id -> turn
	waitFor [][]string       // by turn
	labels  map[string]int32 // session_id -> rows so far
}

func newAgenticLoader(w *Workload, spec TraceSpec) *agenticLoader {
	return &agenticLoader{
		spec:    spec,
		w:       w,
		prompts: newPromptLoader(w, spec),
		turns:   make(map[string]int32),
		labels:  make(map[string]int32),
	}
}

// add appends a row.
func (l *agenticLoader) add(r *row) error {
	index := int32(len(l.w.Turns))
	if err := l.name(r, index); err != nil {
		return err
	}
	turn, err := l.turn(r)
	if err != nil {
		return err
	}
	turn.Session = index
	session := Session{First: index, StartMs: r.timestamp, Timed: r.given&fieldTimestamp != 0}
	if r.given&fieldSessionID != 0 {
		session.Name, session.Named = r.sessionID, true
		turn.Index = l.labels[r.sessionID]
		l.labels[r.sessionID]++
	}
	if len(r.waitFor) == 0 {
		turn.DelayMs = 0 // it waits for no request after which the delay could begin
	}
	l.waitFor = append(l.waitFor, append([]string(nil), r.waitFor...))
	l.w.Turns = append(l.w.Turns, turn)
	l.w.Sessions = append(l.w.Sessions, session)
	return nil
}

// name records the name under which other rows wait for this one.
func (l *agenticLoader) name(r *row, index int32) error {
	if r.given&fieldRequestID == 0 {
		return errors.New("request_id: missing, want a name that no other row has")
	}
	if strings.TrimSpace(r.requestID) == "" {
		return fmt.Errorf("request_id: got %q, want a name that is not blank", r.requestID)
	}
	if other, taken := l.turns[r.requestID]; taken {
		return fmt.Errorf("request_id: got %q, which line %d has already", r.requestID, l.w.Turns[other].Row+1)
	}
	l.turns[r.requestID] = index
	l.w.RequestIDs = append(l.w.RequestIDs, r.requestID)
	return nil
}

// turn checks lengths and times of a row and takes its prompt. A prompt longer than its block ids is an error here.
func (l *agenticLoader) turn(r *row) (Turn, error) {
	turn := Turn{Row: int32(l.line - 1), DelayMs: r.delay + r.toolWait}
	capacity, err := r.capacity(l.spec.TraceBlockSize)
	if err != nil {
		return Turn{}, err
	}
	turn.InputTokens = capacity
	if r.given&fieldInputLength != 0 {
		if r.inputLength > uint64(capacity) {
			return Turn{}, fmt.Errorf("input_length: got %d, want at most %d: hash_ids has %d ids, each for %d "+
				"tokens (trace_block_size)",
				r.inputLength, capacity, len(r.hashIDs), l.spec.TraceBlockSize)
		}
		turn.InputTokens = int(r.inputLength)
	}
	if turn.OutputTokens, err = r.outputTokensWanted(); err != nil {
		return Turn{}, err
	}
	if !isDuration(turn.DelayMs) {
		return Turn{}, fmt.Errorf("delay: got %v and tool_wait_ms %v, want a finite sum >= 0", r.delay, r.toolWait)
	}
	if !isDuration(r.timestamp) {
		return Turn{}, fmt.Errorf("timestamp: got %v, want a finite number >= 0", r.timestamp)
	}
	l.prompts.look(&turn, r)
	l.prompts.add(&turn, r)
	return turn, nil
}

// finish finds the rows that others wait for, once all are known.
func (l *agenticLoader) finish() error {
	if len(l.w.Turns) == 0 {
		return noRequests(l.w.File)
	}
	l.w.WaitFor = make([][]int32, len(l.w.Turns))
	for turn, names := range l.waitFor {
		for _, name := range names {
			earlier, known := l.turns[name]
			var err error
			switch {
			case !known:
				err = fmt.Errorf("wait_for: request %q waits for %q, which is no row's request_id",
					l.w.RequestIDs[turn], name)
			case earlier == int32(turn):
				err = fmt.Errorf("wait_for: request %q waits for itself", name)
			}
			if err != nil {
				return l.w.fault(int32(turn), err)
			}
			l.w.WaitFor[turn] = append(l.w.WaitFor[turn], earlier)
		}
	}
	if turns := circle(l.w.WaitFor); turns != nil {
		return l.w.fault(turns[0], circleFault(l.w.RequestIDs, turns))
	}
	return l.prompts.finish()
}
