package wire

import (
	"bytes"
	"reflect"
	"testing"
)

const fuzzLimit = 1 << 16

func FuzzReadFrame(f *testing.F) {
	data, _ := AppendFrame(nil, Frame{Path: "a/generate", Headers: map[string]string{"k": "v"},
		Payload: []byte("body")})
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := ReadFrame(bytes.NewReader(data), fuzzLimit, nil)
		if err == nil && len(frame.Payload) > len(data) {
			t.Fatalf("%d bytes of payload from %d", len(frame.Payload), len(data))
		}
	})
}

func FuzzReadMessage(f *testing.F) {
	f.Add(AppendSignal(nil, Kill))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := ReadMessage(bytes.NewReader(data), fuzzLimit)
		if err != nil {
			return
		}
		size := messageStart + len(read.Header) + len(read.Body)
		decoded, err := DecodeMessage(data[:size])
		if err != nil || !bytes.Equal(decoded.Header, read.Header) || !bytes.Equal(decoded.Body, read.Body) {
			t.Fatalf("read %q, decoded %q, %v", read, decoded, err)
		}
	})
}

func FuzzDecodeControl(f *testing.F) {
	f.Add(EncodeControl(Control{ID: "a", Address: "h:1", Subject: "s", Codec: MessagePack}))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeControl(data)
		if err != nil {
			return
		}
		if again, err := DecodeControl(EncodeControl(c)); err != nil || again != c {
			t.Fatalf("got %+v, %v from %+v", again, err, c)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	most := uint32(7)
	for _, codec := range []Codec{JSON, MessagePack} {
		body, _ := EncodeRequest(codec, Request{TokenIDs: []uint32{1, 70000},
			StopConditions: StopConditions{MaxTokens: &most}})
		f.Add(codec == MessagePack, body)
	}
	f.Fuzz(func(t *testing.T, packed bool, data []byte) {
		codec := JSON
		if packed {
			codec = MessagePack
		}
		r, err := DecodeRequest(codec, data)
		if err != nil {
			return
		}
		body, err := EncodeRequest(codec, r)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeRequest(codec, body); err != nil || !reflect.DeepEqual(again.TokenIDs, r.TokenIDs) {
			t.Fatalf("got %+v, %v from %+v", again, err, r)
		}
	})
}

func FuzzDecodeChunk(f *testing.F) {
	for _, codec := range []Codec{JSON, MessagePack} {
		m, _ := DecodeMessage(AppendOutput(nil, codec,
			Output{TokenIDs: []uint32{5}, Finish: Finish{Reason: FinishEOS}}))
		f.Add(codec == MessagePack, m.Body)
	}
	f.Fuzz(func(t *testing.T, packed bool, data []byte) {
		codec := JSON
		if packed {
			codec = MessagePack
		}
		_, _ = DecodeChunk(codec, data)
	})
}
