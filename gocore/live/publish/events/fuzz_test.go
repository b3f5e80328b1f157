package events

import (
	"encoding/json"
	"testing"

	"dynosim/gocore/live/blocks"
	"dynosim/gocore/protocol/wire"
)

// FuzzQuery: whatever a router asks, the answer is one of the kinds that there are.
func FuzzQuery(f *testing.F) {
	busy := NewFeed(9, 0)
	for i := range uint64(5) {
		busy.Apply([]blocks.Change{stored(i, i+1)})
	}
	f.Add(false, []byte(`{"worker_id":9,"dp_rank":0,"start_event_id":2,"end_event_id":null}`))
	f.Add(true, []byte{0x80})
	f.Fuzz(func(t *testing.T, packed bool, body []byte) {
		codec := wire.JSON
		if packed {
			codec = wire.MessagePack
		}
		var q Query
		if wire.Decode(codec, body, &q) != nil {
			return
		}
		text, err := wire.Encode(wire.JSON, busy.Answer(q))
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil || len(members) != 1 {
			t.Errorf("got %s, %v", text, err)
		}
	})
}

// FuzzParseReplay: a request for a replay is two frames, the second of which is a number.
func FuzzParseReplay(f *testing.F) {
	f.Add([]byte{}, []byte("12345678"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if _, ok := ParseReplay([][]byte{first, second}); ok != (len(second) == 8) {
			t.Errorf("got %v", ok)
		}
		if _, ok := ParseReplay([][]byte{second}); ok {
			t.Error("one frame is enough")
		}
	})
}
