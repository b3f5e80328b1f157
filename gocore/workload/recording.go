package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// recording is everything that the records of a dynamo trace say, with the requests in order of time.
type recording struct {
	requests  []call
	tools     []toolCall
	blockSize int
	older     bool // of the schema dynamo.agent.trace.v1
	parents   map[string]string
}

// call is a recorded request.
type call struct {
	id           string
	hasContext   bool
	session      string
	inputLength  int
	outputTokens int
	hashIDs      []uint64 // recorded hashes at first, then small numbers
	startMs      uint64
	endMs        uint64
	at           place
}

// place is the position of a record: its file and line.
type place struct {
	source int32
	line   int32
}

// toolCall is a call of a tool that has ended.
type toolCall struct {
	recordedTool
	session        string
	startMs, endMs uint64
}

// readRecording reads a trace that may consist of several files.
func readRecording(sources []Source, poll func() error) (*recording, error) {
	if len(sources) == 0 {
		return nil, errors.New("got no trace files, want at least one for trace_format dynamo")
	}
	b := &recordingBuilder{rec: &recording{parents: make(map[string]string)}, ids: make(map[string]place),
		sources: sources}
	decoder := newRecordDecoder()
	for i, source := range sources {
		err := readLines(source, poll, func(line int, text []byte) error {
			r, err := decoder.decode(text)
			if err != nil || r == nil {
				return err
			}
			return b.add(r, place{source: int32(i), line: int32(line)})
		})
		if err != nil {
			return nil, err
		}
	}
	if len(b.rec.requests) == 0 {
		return nil, noRequests(sourceNames(sources))
	}
	b.rec.sort()
	return b.rec, nil
}

func sourceNames(sources []Source) string {
	names := make([]string, len(sources))
	for i, source := range sources {
		names[i] = source.Name
	}
	return strings.Join(names, ", ")
}

type recordingBuilder struct {
	rec     *recording
	sources []Source
	schema  string
	ids     map[string]place
}

func (b *recordingBuilder) add(r *record, at place) error {
	if b.schema == "" {
		b.schema = r.schema
		b.rec.older = r.schema == agentTraceSchema
	}
	if r.schema != b.schema {
		return fmt.Errorf("schema: got %q, want %q as before", r.schema, b.schema)
	}
	if err := b.addParent(r); err != nil {
		return err
	}
	switch r.kind {
	case eventRequest:
		return b.addRequest(r, at)
	case eventToolEnd, eventToolError:
		return b.addTool(r)
	case eventToolStart:
		return nil
	}
	if b.rec.older {
		return nil
	}
	return fmt.Errorf("event_type: got %q, want one of %s", r.kind, strings.Join(eventTypes, ", "))
}

// addParent records which session has started the session of the record.
func (b *recordingBuilder) addParent(r *record) error {
	if r.parent == "" {
		return nil
	}
	if known, met := b.rec.parents[r.session]; met && known != r.parent {
		return fmt.Errorf("agent_context: got %q as the parent of session %q, want %q as before", r.parent, r.session,
			known)
	}
	b.rec.parents[r.session] = r.parent
	return nil
}

func (b *recordingBuilder) addRequest(r *record, at place) error {
	q := &r.request
	if err := b.checkRequest(r); err != nil {
		return err
	}
	if other, taken := b.ids[q.id]; taken {
		return fmt.Errorf("request: request_id: got %q, which %s line %d has already", q.id,
			b.sources[other.source].Name, other.line)
	}
	b.ids[q.id] = at
	b.rec.blockSize = int(q.blockSize)
	c := call{
		id:           q.id,
		hasContext:   r.hasContext,
		session:      r.session,
		inputLength:  int(q.inputLength),
		outputTokens: int(q.outputTokens),
		hashIDs:      q.hashes,
		startMs:      q.receivedMs,
		at:           at,
	}
	totalMs := float64(r.timeMs) - float64(q.receivedMs)
	if q.given&requestTotal != 0 {
		totalMs = math.Round(max(q.totalMs, 0))
	}
	if c.endMs = c.startMs + uint64(max(totalMs, 0)); totalMs > maxTimeMs || c.endMs > maxTimeMs {
		return fmt.Errorf("request: total_time_ms: got %v, want an end before %d ms", q.totalMs, uint64(maxTimeMs))
	}
	b.rec.requests = append(b.rec.requests, c)
	return nil
}

// checkRequest checks that a record has everything that a replay needs.
func (b *recordingBuilder) checkRequest(r *record) error {
	q := &r.request
	if r.given&recordRequest == 0 {
		return errors.New("request: missing, want an object")
	}
	for _, need := range []struct {
		field fields
		key   string
		want  string
	}{
		{requestID, "request_id", "a string"},
		{requestOutput, "output_tokens", "an integer >= 1"},
		{requestReceived, "request_received_ms", "an integer"},
		{requestReplay, "replay", "an object: this trace was recorded without what a replay needs"},
		{requestBlockSize, "replay: trace_block_size", "an integer >= 1"},
		{requestInput, "replay: input_length", "an integer >= 1"},
		{requestHashes, "replay: input_sequence_hashes", "a list of integers"},
	} {
		if q.given&need.field == 0 {
			return fmt.Errorf("request: %s: missing, want %s", need.key, need.want)
		}
	}
	switch {
	case strings.TrimSpace(q.id) == "":
		return fmt.Errorf("request: request_id: got %q, want a name that is not blank", q.id)
	case q.outputTokens == 0:
		return errors.New("request: output_tokens: got 0, want an integer >= 1")
	case q.blockSize == 0:
		return errors.New("request: replay: trace_block_size: got 0, want an integer >= 1")
	case q.inputLength == 0:
		return errors.New("request: replay: input_length: got 0, want an integer >= 1")
	case len(b.rec.requests) > 0 && int(q.blockSize) != b.rec.blockSize:
		return fmt.Errorf("request: replay: trace_block_size: got %d, want %d as before", q.blockSize, b.rec.blockSize)
	}
	return b.checkHashes(q)
}

func (b *recordingBuilder) checkHashes(q *recordedRequest) error {
	needed := (q.inputLength-1)/q.blockSize + 1
	switch hashes := uint64(len(q.hashes)); {
	case b.rec.older && hashes < needed:
		return fmt.Errorf("request: replay: input_sequence_hashes: got %d hashes, want at least %d for an "+
			"input_length of %d in blocks of %d",
			hashes, needed, q.inputLength, q.blockSize)
	case !b.rec.older && hashes != needed:
		return fmt.Errorf("request: replay: input_sequence_hashes: got %d hashes, want %d for an input_length of %d "+
			"in blocks of %d",
			hashes, needed, q.inputLength, q.blockSize)
	}
	return nil
}

func (b *recordingBuilder) addTool(r *record) error {
	if r.given&recordTool == 0 {
		return errors.New("tool: missing, want an object")
	}
	tool := r.tool
	switch {
	case tool.given&toolID == 0:
		return errors.New("tool: tool_call_id: missing, want a string")
	case tool.given&toolClass == 0:
		return errors.New("tool: tool_class: missing, want a string")
	}
	if tool.given&toolClaude != 0 {
		if err := tool.link.check(); err != nil {
			return fmt.Errorf("tool: claude: %w", err)
		}
	}
	if tool.given&toolStatus == 0 {
		tool.status = "succeeded"
		if r.kind == eventToolError {
			tool.status = "error"
		}
	}
	t := toolCall{recordedTool: tool, session: r.session, endMs: r.timeMs}
	if tool.given&toolEnded != 0 {
		t.endMs = tool.endedMs
	}
	t.startMs = t.endMs
	switch {
	case tool.given&toolStarted != 0:
		t.startMs = tool.startedMs
	case tool.given&toolDuration != 0:
		t.startMs -= uint64(min(float64(t.endMs), math.Round(max(tool.durationMs, 0))))
	}
	if t.endMs < t.startMs || !r.hasContext {
		return nil
	}
	if tool.given&toolDuration == 0 {
		t.durationMs = float64(t.endMs - t.startMs)
	}
	b.rec.tools = append(b.rec.tools, t)
	return nil
}

const (
	linkBlocking   = "blocking"
	linkBackground = "background"
)

func (l *toolLink) check() error {
	switch {
	case l.given&linkSource == 0:
		return errors.New("source_request_id: missing, want a string")
	case l.given&linkMode != 0 && l.mode != linkBlocking && l.mode != linkBackground:
		return fmt.Errorf("execution_mode: got %q, want %s or %s", l.mode, linkBlocking, linkBackground)
	}
	return nil
}

// sort orders the requests by time and numbers their blocks by first appearance.
func (rec *recording) sort() {
	slices.SortFunc(rec.requests, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.startMs, b.startMs), cmp.Compare(a.endMs, b.endMs), cmp.Compare(a.id, b.id))
	})
	numbers := make(map[uint64]uint64)
	for i := range rec.requests {
		for j, hash := range rec.requests[i].hashIDs {
			number, known := numbers[hash]
			if !known {
				number = uint64(len(numbers))
				numbers[hash] = number
			}
			rec.requests[i].hashIDs[j] = number
		}
	}
}
