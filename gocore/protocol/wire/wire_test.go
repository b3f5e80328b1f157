package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/tinylib/msgp/msgp"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// message returns a captured message: lengths in hexadecimal and what follows them.
func message(t *testing.T, header, body string, content string) []byte {
	return append(unhex(t, header+body+"0000000000000000"), content...)
}

// Bytes that a frontend and a worker of ai-dynamo 1.3.1 sent to each other.
func TestCapturedBytes(t *testing.T) {
	const none = "0000000000000000"
	text := "tok1792"
	tests := []struct {
		name      string
		got, want []byte
	}{
		{"accepted", AppendAck(nil, Accepted), unhex(t, "00000000")},
		{"overloaded", AppendAck(nil, Overloaded),
			append(unhex(t, "00000025"), "Server overloaded: worker at capacity"...)},
		{"handshake", AppendHandshake(nil, "c8f4ecf5-5355-46e0-82f4-a9262b70a67e"), message(t, "000000000000004b", none,
			`{"subject":"c8f4ecf5-5355-46e0-82f4-a9262b70a67e","stream_type":"response"}`)},
		{"prologue", AppendPrologue(nil, ""), message(t, "000000000000000e", none, `{"error":null}`)},
		{"token", AppendOutput(nil, JSON, Output{TokenIDs: []uint32{1792}, Tokens: []string{text}, Text: &text}),
			message(t, none, "00000000000000bf",
				`{"data":{"data":{"token_ids":[1792],"tokens":["tok1792"],"text":"tok1792","cum_log_probs":null,`+
					`"log_probs":null,"top_logprobs":null,"finish_reason":null,"index":null}},"complete_final":false}`)},
		{"finish", AppendOutput(nil, JSON, Output{Finish: Finish{Reason: FinishLength}}),
			message(t, none, "00000000000000b1",
				`{"data":{"data":{"token_ids":[],"tokens":[],"text":null,"cum_log_probs":null,`+
					`"log_probs":null,"top_logprobs":null,"finish_reason":"length","index":null}},"complete_final":false}`)},
		{"final", AppendFinal(nil, JSON), message(t, none, "0000000000000017", `{"complete_final":true}`)},
		{"sentinel", AppendSignal(nil, Sentinel), message(t, "000000000000000a", none, `"sentinel"`)},
		{"kill", AppendSignal(nil, Kill), message(t, "0000000000000006", none, `"kill"`)},
		{"final in msgpack", AppendFinal(nil, MessagePack)[messageStart:],
			unhex(t, "81ae636f6d706c6574655f66696e616cc3")},
	}
	for _, test := range tests {
		if !bytes.Equal(test.got, test.want) {
			t.Errorf("%s:\ngot  %x\nwant %x", test.name, test.got, test.want)
		}
	}
	text = "tok1477"
	token := AppendOutput(nil, MessagePack, Output{TokenIDs: []uint32{1477}, Tokens: []string{text}, Text: &text})
	start := unhex(t, "82a46461746181a46461746188a9746f6b656e5f69647391cd05c5a6746f6b656e7391a7")
	if !bytes.HasPrefix(token[messageStart:], start) {
		t.Errorf("token in msgpack: got %x, want it to begin with %x", token[messageStart:], start)
	}
}

func TestFrame(t *testing.T) {
	const path = "aff3a8c19ca935e3/generate"
	want := Frame{Path: path, Headers: map[string]string{"request-id": "7"}, Payload: []byte("payload")}
	data, err := AppendFrame(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if start := unhex(t, "0019616666336138"); !bytes.HasPrefix(data, start) {
		t.Errorf("got %x, want it to begin with %x", data, start)
	}
	r := iotest.OneByteReader(bytes.NewReader(append(data, data...)))
	for range 2 {
		if got, err := ReadFrame(r, len(data), nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := ReadFrame(r, len(data), nil); err != io.EOF {
		t.Errorf("between frames: got %v, want EOF", err)
	}
	if _, err := ReadFrame(bytes.NewReader(data), len(data)-1, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want %v", err, ErrTooLarge)
	}
	for n := 1; n < len(data); n++ {
		if _, err := ReadFrame(bytes.NewReader(data[:n]), len(data), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: got %v, want an unexpected end", n, err)
		}
	}
}

func TestControl(t *testing.T) {
	captured := `{"id":"58531d12","request_type":"single_in","response_type":"many_out","payload_codec":"json",` +
		`"connection_info":{"transport":"tcp_server","info":"{\"address\":\"192.0.2.2:34927\",\"subject\":\"c8f4ecf5\",` +
		`\"context\":\"58531d12\",\"stream_type\":\"response\"}"}}`
	want := Control{ID: "58531d12", Address: "192.0.2.2:34927", Subject: "c8f4ecf5"}
	if got, err := DecodeControl([]byte(captured)); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got := string(EncodeControl(want)); got != captured {
		t.Errorf("got  %s\nwant %s", got, captured)
	}
	for _, change := range [][2]string{
		{`"tcp_server"`, `"quic"`}, {`\"response\"`, `\"request\"`}, {`\"58531d12\"`, `\"other\"`}, {`"{\`, `"`},
		{"192.0.2.2:34927", ""}, {`"payload_codec":"json"`, `"payload_codec":"xml"`},
	} {
		if _, err := DecodeControl([]byte(strings.Replace(captured, change[0], change[1], 1))); err == nil {
			t.Errorf("%s instead of %s is accepted", change[1], change[0])
		}
	}
}

func TestRequest(t *testing.T) {
	most, rank := uint32(6), uint32(1)
	want := Request{
		Model: "tiny", TokenIDs: []uint32{1, 2, 70000},
		StopConditions: StopConditions{MaxTokens: &most, StopTokenIDs: []uint32{9}},
		Annotations:    []string{"output_replay_id:r1"}, Routing: &Routing{DPRank: &rank},
	}
	for _, codec := range []Codec{JSON, MessagePack} {
		body, err := EncodeRequest(codec, want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeRequest(codec, body); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("codec %d: got %+v, %v", codec, got, err)
		}
	}
	unknown := `{"model":"m","token_ids":[5],"stop_conditions":{"max_tokens":null,"stop":["x"]},` +
		`"mdc_sum":"f","extra":{"a":[1]},
		"routing":{"dp_rank":null,"priority_jump":1.5},"request_timestamp_ms":17.5}`
	got, err := DecodeRequest(JSON, []byte(unknown))
	if err != nil || len(got.TokenIDs) != 1 || got.StopConditions.MaxTokens != nil || got.Routing.DPRank != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestChunks(t *testing.T) {
	for _, codec := range []Codec{JSON, MessagePack} {
		long := strings.Repeat("x", 300)
		outputs := []Output{
			{TokenIDs: []uint32{5, 200, 70000}, Tokens: []string{}},
			{TokenIDs: []uint32{}, Tokens: []string{"a"}, Text: &long,
				Finish: Finish{Reason: FinishError, Error: long}},
		}
		for _, want := range outputs {
			m, err := DecodeMessage(AppendOutput(nil, codec, want))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := DecodeChunk(codec, m.Body); err != nil || !reflect.DeepEqual(got.Output, &want) {
				t.Errorf("codec %d: got %+v, %v", codec, got.Output, err)
			}
		}
		m, _ := DecodeMessage(AppendProblem(nil, codec, Problem{Message: "too long", Code: 400}))
		if got, err := DecodeChunk(codec, m.Body); err != nil || got.Error != "too long" {
			t.Errorf("codec %d: got %+v, %v", codec, got, err)
		}
	}
}

func BenchmarkAppendOutput(b *testing.B) {
	dst, tokens := []byte{}, []uint32{1234}
	for b.Loop() {
		dst = AppendOutput(dst[:0], JSON, Output{TokenIDs: tokens})
	}
}

// TestHandoffID: frontends that speak MessagePack send the sixteen bytes of the id.
func TestHandoffID(t *testing.T) {
	id := uuid.MustParse("981915ce-eff2-4b23-a4e6-21f941d1648b")
	const bootstrap = `"bootstrap_host":"h","bootstrap_port":7,"bootstrap_room":9223372036854775807`
	text := []byte(`{"token_ids":[],"bootstrap_info":{` + bootstrap +
		`,"handoff_id":"981915ce-eff2-4b23-a4e6-21f941d1648b"}}`)
	packed, err := msgp.AppendIntf(nil, map[string]any{"token_ids": []any{}, "bootstrap_info": map[string]any{
		"bootstrap_host": "h", "bootstrap_port": 7, "bootstrap_room": uint64(math.MaxInt64), "handoff_id": id[:],
	}})
	if err != nil {
		t.Fatal(err)
	}
	for codec, body := range map[Codec][]byte{JSON: text, MessagePack: packed} {
		r, err := DecodeRequest(codec, body)
		if err != nil {
			t.Fatal(err)
		}
		if b := r.BootstrapInfo; b.Host != "h" || b.Port != 7 || b.Room != math.MaxInt64 || b.HandoffID.UUID != id {
			t.Errorf("got %+v", b)
		}
	}
	for _, bad := range []string{`"x"`, `"AAAA"`, `5`} {
		body := []byte(`{"bootstrap_info":{` + bootstrap + `,"handoff_id":` + bad + `}}`)
		if _, err := DecodeRequest(JSON, body); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}

// TestDisaggregatedParams: what a prefill worker says beside its token.
func TestDisaggregatedParams(t *testing.T) {
	for _, codec := range []Codec{JSON, MessagePack} {
		m, err := DecodeMessage(AppendOutput(nil, codec, Output{TokenIDs: []uint32{5}, DisaggregatedParams: "dummy"}))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := DecodeChunk(codec, m.Body); err != nil || c.Output.DisaggregatedParams != "dummy" ||
			c.Output.TokenIDs[0] != 5 {
			t.Errorf("got %+v, %v", c, err)
		}
	}
}

// TestUsage: what a request has taken, as workers of 1.6 say it.
func TestUsage(t *testing.T) {
	said := Usage{Prompt: 40, Completion: 3, Cached: 36}
	for _, codec := range []Codec{JSON, MessagePack} {
		m, err := DecodeMessage(AppendOutput(nil, codec, Output{TokenIDs: []uint32{5}, Usage: &said}))
		if err != nil {
			t.Fatal(err)
		}
		c, err := DecodeChunk(codec, m.Body)
		if err != nil || c.Output.Usage == nil || *c.Output.Usage != said {
			t.Errorf("got %+v, %v", c.Output, err)
		}
		if codec == JSON && !strings.Contains(string(m.Body),
			`"completion_usage":{"prompt_tokens":40,"completion_tokens":3,"total_tokens":43,`+
				`"prompt_tokens_details":{"audio_tokens":null,"cached_tokens":36}}`) {
			t.Errorf("got %s", m.Body)
		}
	}
	c, err := DecodeChunk(JSON,
		[]byte(`{"data":{"data":{"token_ids":[5],"completion_usage":{"prompt_tokens":40}}},"complete_final":false}`))
	if err != nil || c.Output.Usage != nil {
		t.Errorf("a usage without the cache: got %+v, %v", c.Output, err)
	}
}
