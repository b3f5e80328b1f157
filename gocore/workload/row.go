package workload

import (
	"maps"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// row is one line of a Mooncake trace, plain, delta or agentic, as written.
type row struct {
	keys   map[string]fields // what keys mean in this format
	strays *strayKeys        // keys that mean nothing

	timestamp    float64
	delay        float64
	inputLength  uint64
	outputLength uint64
	hashIDs      []uint64 // reused for the next row
	outputTokens []uint32 // reused for the next row
	sessionID    string
	requestID    string
	cacheSalt    string // "" for none
	hints        RouterHints

	toolWait float64
	waitFor  []string // reused for the next row
	branches []string // reused for the next row

	given fields // keys with a value other than null
}

// fields is a set of the keys that mean something in a line; an alias counts as its field.
type fields uint32

const (
	fieldTimestamp fields = 1 << iota
	fieldInputLength
	fieldOutputLength
	fieldHashIDs
	fieldSessionID
	fieldDelay
	fieldRequestID
	fieldOutputTokenIDs
	fieldPriority
	fieldStrictPriority
	fieldPolicyClass

	fieldWaitFor
	fieldBranches
	fieldPrefixReset
	fieldToolWait
	fieldRequestKind
	fieldToolEvents

	fieldTenant
	fieldDeadline
	fieldCacheSalt

	// queueFields say something to the queue of a KV router.
	queueFields = fieldPriority | fieldStrictPriority | fieldPolicyClass
	hintFields  = queueFields | fieldTenant | fieldDeadline
	// notNullFields have a value when they are given.
	notNullFields = fieldWaitFor | fieldBranches | fieldToolEvents
)

var mooncakeKeys = map[string]fields{
	"timestamp": fieldTimestamp, "created_time": fieldTimestamp,
	"input_length": fieldInputLength, "input_tokens": fieldInputLength,
	"output_length": fieldOutputLength, "output_tokens": fieldOutputLength,
	"hash_ids":   fieldHashIDs,
	"session_id": fieldSessionID,
	"delay":      fieldDelay, "delay_ms": fieldDelay,
	"request_id":       fieldRequestID,
	"output_token_ids": fieldOutputTokenIDs,
	"priority":         fieldPriority,
	"strict_priority":  fieldStrictPriority,
	"policy_class":     fieldPolicyClass,
	"tenant":           fieldTenant,
	"deadline_ms":      fieldDeadline,
	"cache_salt":       fieldCacheSalt,
}

var agenticKeys = withKeys(mooncakeKeys, map[string]fields{
	"wait_for":     fieldWaitFor,
	"branches":     fieldBranches,
	"prefix_reset": fieldPrefixReset,
	"tool_wait_ms": fieldToolWait,
	"request_kind": fieldRequestKind,
	"tool_events":  fieldToolEvents,
})

func withKeys(base, more map[string]fields) map[string]fields {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

// rowDecoder decodes rows one after another, reusing its buffers.
type rowDecoder struct {
	objects *objectDecoder
	row     row
}

// readRows hands every row to add, with its 1-based line number, and records misspelt keys. The row is valid until add
// returns.
func readRows(w *Workload, source Source, spec *TraceSpec, keys map[string]fields, header func([]byte) (bool, error),
	add func(line int, r *row) error) error {
	decoder := newRowDecoder(keys)
	defer func() { w.Notes.Strays = decoder.row.strays.found }()
	lengths := lengthsOnly{w: w, traceBlock: spec.TraceBlockSize}
	first := true
	return readLines(source, spec.Poll, func(line int, text []byte) error {
		if first && header != nil {
			first = false
			if found, err := header(text); found || err != nil {
				return err
			}
		}
		r, err := decoder.decode(text)
		if err == nil {
			err = lengths.complete(line, r)
		}
		if err != nil {
			return err
		}
		return add(line, r)
	})
}

func newRowDecoder(keys map[string]fields) *rowDecoder {
	d := &rowDecoder{objects: newObjectDecoder(), row: row{keys: keys, strays: newStrayKeys(keys)}}
	d.objects.notNull = notNullFields
	return d
}

// decode reads one line that must hold exactly one JSON object. The row is valid until the next call.
func (d *rowDecoder) decode(line []byte) (*row, error) {
	r := &d.row
	if r.clear(); r.scan(line) {
		return r, nil
	}
	r.clear()
	given, err := d.objects.decode(line, r)
	r.given = given
	return r, err
}

// clear makes r a row without values, whose lists have room.
func (r *row) clear() {
	*r = row{keys: r.keys, strays: r.strays, hashIDs: r.hashIDs[:0], outputTokens: r.outputTokens[:0],
		waitFor: r.waitFor[:0], branches: r.branches[:0]}
}

func (r *row) field(key []byte) (fields, bool) {
	field, known := r.keys[string(key)]
	if !known {
		r.strays.record(key)
	}
	return field, known
}

// set stores the value of a known field; it is null only for fields that must not be.
func (r *row) set(field fields, value jsontext.Value) (err error) {
	switch field {
	case fieldTimestamp:
		r.timestamp, err = number(value)
	case fieldDelay:
		r.delay, err = number(value)
	case fieldInputLength:
		r.inputLength, err = unsigned(value, math.MaxInt64)
	case fieldOutputLength:
		r.outputLength, err = unsigned(value, math.MaxInt32)
	case fieldHashIDs:
		r.hashIDs, err = hashIDList(r.hashIDs[:0], value)
	case fieldOutputTokenIDs:
		r.outputTokens, err = unsignedList(r.outputTokens[:0], value, math.MaxUint32)
	case fieldSessionID:
		r.sessionID, err = text(value)
	case fieldRequestID:
		r.requestID, err = text(value)
	case fieldPolicyClass:
		r.hints.PolicyClass, err = text(value)
	case fieldTenant:
		r.hints.Tenant, err = text(value)
	case fieldCacheSalt:
		r.cacheSalt, err = text(value)
	case fieldDeadline:
		if r.hints.DeadlineMs, err = number(value); err == nil && r.hints.DeadlineMs <= 0 {
			err = mistyped(value, "a number above 0")
		}
	case fieldPriority:
		r.hints.Priority, err = signed32(value)
	case fieldStrictPriority:
		var x uint64
		x, err = unsigned(value, math.MaxUint32)
		r.hints.StrictPriority = uint32(x)
	default:
		err = r.setAgentic(field, value)
	}
	return err
}

// setAgentic stores the fields that only agentic rows have. Some of them are for other readers of such traces, not for
// a replay: they are checked and otherwise ignored.
func (r *row) setAgentic(field fields, value jsontext.Value) (err error) {
	switch field {
	case fieldWaitFor:
		r.waitFor, err = textList(r.waitFor[:0], value)
	case fieldBranches:
		r.branches, err = textList(r.branches[:0], value)
	case fieldToolWait:
		r.toolWait, err = number(value)
	case fieldRequestKind:
		_, err = text(value)
	case fieldPrefixReset:
		if kind := value.Kind(); kind != 't' && kind != 'f' {
			err = mistyped(value, "true or false")
		}
	case fieldToolEvents:
		const want = "a list of objects"
		err = eachElement(value, want, func(element jsontext.Value) error {
			if element.Kind() != '{' {
				return mistyped(value, want)
			}
			return nil
		})
	}
	return err
}
