package workload

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/kvcache"
)

// appliedRow is one line of an applied_compute_agentic trace, a whole session: a prompt, then some turns in which the
// assistant answers and a tool adds its output, and a final answer.
type appliedRow struct {
	numTurns    uint64
	prompt      uint64 // tokens, as the next ones
	responses   []uint64
	toolOutputs []uint64
	latencies   []float64 // of the tools, seconds
	final       uint64
}

const (
	fieldNumTurns fields = 1 << iota
	fieldInputPrompt
	fieldResponses
	fieldToolOutputs
	fieldLatencies
	fieldFinal
)

// appliedKeys are all required.
var appliedKeys = []struct {
	key   string
	field fields
	want  string
}{
	{"num_turns", fieldNumTurns, "an integer"},
	{"input_prompt_length", fieldInputPrompt, "an integer >= 1"},
	{"assistant_response_length", fieldResponses, "a list of integers"},
	{"tool_call_output_length", fieldToolOutputs, "a list of integers"},
	{"tool_call_latency", fieldLatencies, "a list of numbers"},
	{"final_assistant_response_length", fieldFinal, "an integer >= 1"},
}

func (r *appliedRow) field(key []byte) (fields, bool) {
	for _, known := range appliedKeys {
		if string(key) == known.key {
			return known.field, true
		}
	}
	return 0, false
}

func (r *appliedRow) set(field fields, value jsontext.Value) (err error) {
	switch field {
	case fieldNumTurns:
		r.numTurns, err = unsigned(value, math.MaxInt32)
	case fieldInputPrompt:
		r.prompt, err = unsigned(value, maxPromptTokens)
	case fieldResponses:
		r.responses, err = unsignedList(r.responses[:0], value, math.MaxInt32)
	case fieldToolOutputs:
		r.toolOutputs, err = unsignedList(r.toolOutputs[:0], value, math.MaxInt32)
	case fieldLatencies:
		r.latencies, err = numberList(r.latencies[:0], value)
	case fieldFinal:
		r.final, err = unsigned(value, math.MaxInt32)
	}
	return err
}

// check checks that the fields agree with each other.
func (r *appliedRow) check(given fields) error {
	for _, known := range appliedKeys {
		if given&known.field == 0 {
			return fmt.Errorf("%s: missing, want %s", known.key, known.want)
		}
	}
	switch {
	case r.prompt == 0:
		return errors.New("input_prompt_length: got 0, want an integer >= 1")
	case r.final == 0:
		return errors.New("final_assistant_response_length: got 0, want an integer >= 1")
	}
	for _, list := range []struct {
		key    string
		length int
	}{
		{"assistant_response_length", len(r.responses)},
		{"tool_call_output_length", len(r.toolOutputs)},
		{"tool_call_latency", len(r.latencies)},
	} {
		if uint64(list.length) != r.numTurns {
			return fmt.Errorf("%s: got %d elements, want as many as num_turns, %d", list.key, list.length, r.numTurns)
		}
	}
	for i, tokens := range r.responses {
		if tokens == 0 {
			return fmt.Errorf("assistant_response_length: got 0 as element %d, want an integer >= 1", i)
		}
	}
	for i, seconds := range r.latencies {
		if !isDuration(seconds * 1000) {
			return fmt.Errorf("tool_call_latency: got %v as element %d, want finite seconds >= 0", seconds, i)
		}
	}
	return nil
}

// loadApplied reads whole sessions: the format applied_compute_agentic. The prompt of a turn is that of the turn
// before, the answer to it and the output of the tool. Generated tokens are never prefix hits: the trace does not say
// what they are, so the next prompt has blocks of its own in their place.
func loadApplied(w *Workload, source Source, spec TraceSpec) error {
	if err := spec.checkShared(); err != nil {
		return err
	}
	l := &appliedLoader{w: w, spec: spec, blocks: newInterner(spec.TraceBlockSize, spec.EngineBlockSize)}
	objects := newObjectDecoder()
	var row appliedRow
	err := readLines(source, spec.Poll, func(line int, text []byte) error {
		given, err := objects.decode(text, &row)
		if err == nil {
			err = row.check(given)
		}
		if err != nil {
			return err
		}
		l.line = line
		return l.add(&row)
	})
	switch {
	case err != nil:
		return err
	case len(w.Turns) == 0:
		return noRequests(source.Name)
	case l.blocks.overflows(false):
		return l.blocks.tooMany(w)
	}
	return nil
}

type appliedLoader struct {
	w       *Workload
	spec    TraceSpec
	blocks  *interner
	line    int    // 1-based
	fresh   uint64 // block ids handed out
	hashIDs []uint64
}

// add appends the session of a row. Prompts of its turns share one list of blocks.
func (l *appliedLoader) add(r *appliedRow) error {
	first := int32(len(l.w.Turns))
	session := int32(len(l.w.Sessions))
	input, turns := int(r.prompt), len(r.responses)
	for k := 0; k <= turns; k++ {
		turn := Turn{Row: int32(l.line - 1), Session: session, Index: int32(k), InputTokens: input,
			OutputTokens: int(r.final)}
		if k > 0 {
			turn.DelayMs = r.latencies[k-1] * 1000
		}
		if k < turns {
			turn.OutputTokens = int(r.responses[k])
			turn.Next = first + int32(k) + 1
			input += int(r.responses[k] + r.toolOutputs[k])
		}
		if input > maxPromptTokens {
			return fmt.Errorf("tool_call_output_length: the prompts grow beyond %d tokens, the limit", maxPromptTokens)
		}
		l.w.Turns = append(l.w.Turns, turn)
	}
	l.w.Sessions = append(l.w.Sessions, Session{
		Name:  fmt.Sprintf("applied_compute_agentic_session_%d", l.line),
		Named: true,
		First: first,
	})
	whole := l.prompt(int(r.prompt), input)
	for i := range l.w.Turns[first:] {
		turn := &l.w.Turns[int(first)+i]
		chunks := (turn.InputTokens/l.spec.EngineBlockSize + whole.PerSegment - 1) / whole.PerSegment
		turn.Prompt = kvcache.Prompt{Segments: whole.Segments[:chunks:chunks], PerSegment: whole.PerSegment}
	}
	return nil
}

// maxPromptTokens bounds the memory that one line can ask for.
const maxPromptTokens = 1 << 27

// prompt makes the last prompt of a session, which contains those before it. first is the length of the first one.
func (l *appliedLoader) prompt(first, last int) kvcache.Prompt {
	blocksOf := func(tokens int) int { return (tokens + l.spec.TraceBlockSize - 1) / l.spec.TraceBlockSize }
	shared := 0
	if l.spec.NumPrefixGroups > 0 {
		shared = int(math.Round(float64(blocksOf(first)) * l.spec.SharedPrefixRatio))
	}
	l.hashIDs = l.hashIDs[:0]
	for i := range blocksOf(last) {
		if i < shared {
			l.hashIDs = append(l.hashIDs, l.sharedID(i))
			continue
		}
		l.fresh++
		l.hashIDs = append(l.hashIDs, l.fresh)
	}
	return l.blocks.prompt(noParent, l.hashIDs, last)
}

// sharedID returns block i of the prefix of the session's group. Groups take turns by line. Their prefixes differ in
// the first block and therefore in all; the reference means to keep groups apart too, but reads only the low half of
// its ids, which is i in every group.
func (l *appliedLoader) sharedID(i int) uint64 {
	if group := (l.line - 1) % l.spec.NumPrefixGroups; i == 0 && group > 0 {
		return uint64(math.MaxUint32 - (group - 1))
	}
	return uint64(i)
}
