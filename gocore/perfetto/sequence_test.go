package perfetto

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// packets splits a trace into its packets, each a map from the numbers of its fields to their values.
func packets(t *testing.T, trace []byte) []map[protowire.Number][]byte {
	t.Helper()
	var all []map[protowire.Number][]byte
	for len(trace) > 0 {
		number, kind, n := protowire.ConsumeTag(trace)
		if number != tracePacket || kind != protowire.BytesType {
			t.Fatalf("field %d of type %d in a trace", number, kind)
		}
		packet, m := protowire.ConsumeBytes(trace[n:])
		if m < 0 {
			t.Fatal(protowire.ParseError(m))
		}
		trace = trace[n+m:]
		all = append(all, fields(t, packet))
	}
	return all
}

func fields(t *testing.T, message []byte) map[protowire.Number][]byte {
	t.Helper()
	found := map[protowire.Number][]byte{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		m := protowire.ConsumeFieldValue(number, kind, message[n:])
		if n < 0 || m < 0 {
			t.Fatal("a message is damaged")
		}
		found[number] = message[n : n+m]
		message = message[n+m:]
	}
	return found
}

// TestNames: a name is defined by the first packet that uses it, and only there.
func TestNames(t *testing.T) {
	s := NewSequence(7)
	s.Describe(Track{ID: 1, Name: "track"})
	for range 3 {
		s.Begin(Event{Track: 1, AtNs: 5, Name: "slice", Args: []Arg{{"size", 3}}, Flow: 9})
		s.End(1, 8)
	}
	s.Count(2, 9, 0.5)
	s.Count(2, 9, -3)
	all := packets(t, s.Bytes())
	if len(all) != 9 {
		t.Fatalf("%d packets", len(all))
	}
	for i, p := range all {
		flags := []byte{stateNeeded}
		if i == 0 {
			flags = []byte{stateNeeded | stateCleared}
		}
		if !bytes.Equal(p[packetFlags], flags) || !bytes.Equal(p[packetSequence], []byte{7}) {
			t.Errorf("packet %d: flags %v, sequence %v", i, p[packetFlags], p[packetSequence])
		}
		if defines := p[packetInterned] != nil; defines != (i == 1) {
			t.Errorf("packet %d: defines names: %t", i, defines)
		}
	}
	event, _ := protowire.ConsumeBytes(all[8][packetEvent])
	value, _ := protowire.ConsumeVarint(fields(t, event)[eventCount])
	if int64(value) != -3 {
		t.Errorf("the counter is %d, want -3", int64(value))
	}
	if size := len(s.Bytes()) / 8; size > 60 {
		t.Errorf("%d bytes for an event", size)
	}
}
