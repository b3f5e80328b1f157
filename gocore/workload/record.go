package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// record is one line of a dynamo trace: a request that has ended, or something that happened to a tool.
type record struct {
	schema string
	kind   string // event_type
	timeMs uint64 // of the event, counted from 1970 like all times here

	hasContext bool
	session    string
	parent     string // "" = none

	request recordedRequest
	tool    recordedTool
	given   fields
}

type recordedRequest struct {
	id           string
	outputTokens uint64
	receivedMs   uint64
	totalMs      float64
	blockSize    uint64
	inputLength  uint64
	hashes       []uint64
	given        fields // of the object and of its member replay
}

type recordedTool struct {
	id, class          string
	startedMs, endedMs uint64
	durationMs         float64
	status             string
	outputBytes        uint64
	outputTokens       uint64
	errorType          string
	link               toolLink
	given              fields
}

// toolLink is what a client knows of a tool that ran a session of its own.
type toolLink struct {
	source, consumer, child string // request, request, session; "" = not given
	mode                    string
	given                   fields
}

const (
	requestTraceSchema = "dynamo.request.trace.v1"
	agentTraceSchema   = "dynamo.agent.trace.v1" // older

	eventRequest   = "request_end"
	eventToolStart = "tool_start"
	eventToolEnd   = "tool_end"
	eventToolError = "tool_error"
	eventPayload   = "request_payload" // the text of a request, of which nothing is replayed
)

var eventTypes = []string{eventRequest, eventPayload, eventToolStart, eventToolEnd, eventToolError}

const (
	recordSchema fields = 1 << iota
	recordEventType
	recordEventTime
	recordContext
	recordRequest
	recordTool
)

const (
	requestID fields = 1 << iota
	requestOutput
	requestReceived
	requestTotal
	requestReplay
	requestBlockSize
	requestInput
	requestHashes
)

const (
	toolID fields = 1 << iota
	toolClass
	toolStarted
	toolEnded
	toolDuration
	toolStatus
	toolOutputBytes
	toolOutputTokens
	toolErrorType
	toolClaude
)

const (
	linkSource fields = 1 << iota
	linkConsumer
	linkChild
	linkMode
)

// member is a key of an object and where its value goes.
type member struct {
	key   string
	field fields
	store func(value jsontext.Value) error
}

type memberTable []member

func (t memberTable) field(key []byte) (fields, bool) {
	for i := range t {
		if t[i].key == string(key) {
			return t[i].field, true
		}
	}
	return 0, false
}

func (t memberTable) set(field fields, value jsontext.Value) error {
	at := slices.IndexFunc(t, func(m member) bool { return m.field == field })
	return t[at].store(value)
}

// toText, toUnsigned and toNumber return functions that store a value of one type.
func toText(dst *string) func(jsontext.Value) error {
	return func(value jsontext.Value) (err error) { *dst, err = text(value); return err }
}

func toUnsigned(dst *uint64, limit uint64) func(jsontext.Value) error {
	return func(value jsontext.Value) (err error) { *dst, err = unsigned(value, limit); return err }
}

func toNumber(dst *float64) func(jsontext.Value) error {
	return func(value jsontext.Value) (err error) { *dst, err = number(value); return err }
}

// toObject stores the members of an object.
func toObject(table memberTable, given *fields) func(jsontext.Value) error {
	objects := newObjectDecoder()
	return func(value jsontext.Value) error {
		if value.Kind() != '{' {
			return mistyped(value, "an object")
		}
		fields, err := objects.decode(value, table)
		*given |= fields
		return err
	}
}

// recordDecoder decodes the records of a trace one after another.
type recordDecoder struct {
	objects *objectDecoder
	lines   memberTable // a line, of which only event matters
	event   []byte
	table   memberTable
	record  record

	trajectory, parentTrajectory string // older names of session and parent
	contextGiven                 fields
}

// maxTimeMs is the latest time that a double holds exactly.
const maxTimeMs = 1<<53 - 1

func newRecordDecoder() *recordDecoder {
	d := &recordDecoder{objects: newObjectDecoder()}
	r := &d.record
	d.lines = memberTable{{"event", 1, func(value jsontext.Value) error {
		d.event = append(d.event[:0],
			value...)
		return nil
	}}}
	context := memberTable{
		{"session_id", 1 << 0, toText(&r.session)},
		{"parent_session_id", 1 << 1, toText(&r.parent)},
		{"trajectory_id", 1 << 2, toText(&d.trajectory)},
		{"parent_trajectory_id", 1 << 3, toText(&d.parentTrajectory)},
	}
	q := &r.request
	replay := memberTable{
		{"trace_block_size", requestBlockSize, toUnsigned(&q.blockSize, math.MaxInt32)},
		{"input_length", requestInput, toUnsigned(&q.inputLength, math.MaxInt64)},
		{"input_sequence_hashes", requestHashes, func(value jsontext.Value) (err error) {
			q.hashes, err = hashIDList([]uint64{}, value)
			return err
		}},
	}
	request := memberTable{
		{"request_id", requestID, toText(&q.id)},
		{"output_tokens", requestOutput, toUnsigned(&q.outputTokens, math.MaxInt32)},
		{"request_received_ms", requestReceived, toUnsigned(&q.receivedMs, maxTimeMs)},
		{"total_time_ms", requestTotal, toNumber(&q.totalMs)},
		{"replay", requestReplay, toObject(replay, &q.given)},
	}
	d.table = memberTable{
		{"schema", recordSchema, toText(&r.schema)},
		{"event_type", recordEventType, toText(&r.kind)},
		{"event_time_unix_ms", recordEventTime, toUnsigned(&r.timeMs, maxTimeMs)},
		{"agent_context", recordContext, toObject(context, &d.contextGiven)},
		{"request", recordRequest, toObject(request, &q.given)},
		{"tool", recordTool, toObject(toolMembers(&r.tool), &r.tool.given)},
	}
	return d
}

func toolMembers(tool *recordedTool) memberTable {
	link := memberTable{
		{"source_request_id", linkSource, toText(&tool.link.source)},
		{"consumer_request_id", linkConsumer, toText(&tool.link.consumer)},
		{"child_session_id", linkChild, toText(&tool.link.child)},
		{"execution_mode", linkMode, toText(&tool.link.mode)},
	}
	return memberTable{
		{"tool_call_id", toolID, toText(&tool.id)},
		{"tool_class", toolClass, toText(&tool.class)},
		{"started_at_unix_ms", toolStarted, toUnsigned(&tool.startedMs, maxTimeMs)},
		{"ended_at_unix_ms", toolEnded, toUnsigned(&tool.endedMs, maxTimeMs)},
		{"duration_ms", toolDuration, toNumber(&tool.durationMs)},
		{"status", toolStatus, toText(&tool.status)},
		{"output_bytes", toolOutputBytes, toUnsigned(&tool.outputBytes, math.MaxInt64)},
		{"output_tokens", toolOutputTokens, toUnsigned(&tool.outputTokens, math.MaxInt64)},
		{"error_type", toolErrorType, toText(&tool.errorType)},
		{"claude", toolClaude, toObject(link, &tool.link.given)},
	}
}

// decode reads a line: the record, or an object that holds it under the key event. It returns nil if there is none. The
// record is valid until the next call.
func (d *recordDecoder) decode(line []byte) (*record, error) {
	d.event = d.event[:0]
	if _, err := d.objects.decode(line, d.lines); err != nil {
		return nil, err
	}
	if len(d.event) > 0 {
		if d.event[0] != '{' {
			return nil, nil
		}
		line = d.event
	}
	r := &d.record
	*r = record{}
	d.trajectory, d.parentTrajectory, d.contextGiven = "", "", 0
	given, err := d.objects.decode(line, d.table)
	if err != nil {
		return nil, err
	}
	r.given = given
	if err := r.checkSchema(); err != nil || r.kind == eventPayload {
		return nil, err
	}
	return r, d.takeContext()
}

func (r *record) checkSchema() error {
	const want = `"` + requestTraceSchema + `" or "` + agentTraceSchema + `"`
	switch {
	case r.given&recordSchema == 0:
		return errors.New("schema: missing, want " + want)
	case r.schema != requestTraceSchema && r.schema != agentTraceSchema:
		return fmt.Errorf("schema: got %q, want %s", r.schema, want)
	case r.given&recordEventType == 0:
		return errors.New("event_type: missing, want one of " + strings.Join(eventTypes, ", "))
	case r.given&recordEventTime == 0 && r.kind != eventPayload:
		return errors.New("event_time_unix_ms: missing, want an integer")
	}
	return nil
}

// takeContext finds out to which session the record belongs. In older traces that is a trajectory.
func (d *recordDecoder) takeContext() error {
	r := &d.record
	r.hasContext = r.given&recordContext != 0
	if !r.hasContext {
		return nil
	}
	key, given := "session_id", d.contextGiven&1 != 0
	if r.schema == agentTraceSchema {
		key, given = "trajectory_id", d.contextGiven&4 != 0
		r.session, r.parent = d.trajectory, d.parentTrajectory
	}
	if !given {
		return fmt.Errorf("agent_context: %s: missing, want a string", key)
	}
	return nil
}
