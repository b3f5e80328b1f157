// Package eventstest reads, for tests, messages that workers publish and that nothing else here reads.
package eventstest

import (
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// Batch is an engine-native message.
type Batch struct {
	UnixS  float64
	Events []Event
	DPRank uint64
}

// Event is stored blocks, or with Removed set blocks that are gone, of which there is only Hashes.
type Event struct {
	Removed   bool
	HasParent bool
	Hashes    []uint64
	Tokens    []uint32
	BlockSize uint64
	Medium    string // "" for the GPU
	// With several groups of layers.
	Group, Window uint64
	Kind          string
}

// Native decodes an engine-native message by the place of its fields, like vLLM's subscribers.
func Native(b []byte) (batch Batch, err error) {
	value, rest, err := msgp.ReadIntfBytes(b)
	if err != nil || len(rest) > 0 {
		return batch, fmt.Errorf("%d bytes are left: %w", len(rest), err)
	}
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("%v: %v", value, wrong)
		}
	}()
	message := value.([]any)
	batch.UnixS, batch.DPRank = message[0].(float64), number(message[2])
	for _, event := range message[1].([]any) {
		batch.Events = append(batch.Events, read(event.([]any)))
	}
	return batch, nil
}

// read decodes an event. Fields at its end may be missing.
func read(fields []any) (e Event) {
	at := func(i int) any {
		if i < len(fields) {
			return fields[i]
		}
		return nil
	}
	for _, hash := range at(1).([]any) {
		e.Hashes = append(e.Hashes, number(hash))
	}
	switch tag := at(0); tag {
	case "BlockRemoved":
		e.Removed, e.Medium, e.Group = true, text(at(2)), number(at(3))
	case "BlockStored":
		for _, token := range at(3).([]any) {
			e.Tokens = append(e.Tokens, uint32(number(token)))
		}
		e.HasParent = at(2) != nil
		e.BlockSize, e.Medium, e.Group, e.Kind, e.Window = number(at(4)), text(at(6)), number(at(9)), text(at(10)),
			number(at(11))
	default:
		panic(fmt.Sprintf("an event is called %v", tag))
	}
	return e
}

// Map decodes the payload of a message of the event plane that is a map.
func Map(b []byte) (map[string]any, error) {
	members, rest, err := msgp.ReadMapStrIntfBytes(b, nil)
	if len(rest) > 0 {
		err = errors.Join(err, fmt.Errorf("%d bytes are left", len(rest)))
	}
	return members, err
}

// number returns a number that is not negative, and 0 for nil.
func number(value any) uint64 {
	switch n := value.(type) {
	case nil:
		return 0
	case int64:
		return uint64(n)
	}
	return value.(uint64)
}

// text returns a string, and "" for nil.
func text(value any) string {
	if value == nil {
		return ""
	}
	return value.(string)
}
