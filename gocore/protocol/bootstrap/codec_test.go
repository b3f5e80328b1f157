package bootstrap

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"dynosim/gocore/handoff"
)

// TestCaptured reads what two workers of ai-dynamo 1.3.1 have said to each other, and writes it again to the byte.
func TestCaptured(t *testing.T) {
	vllm := []string{
		"Register rank 0 SourceFirst vllm", "Registered",
		"Held full_prompt 160 tokens, 256 bytes per token, 64 GB/s",
		"Action 1 ReserveDestination", "Ack 1 Accepted", "Reserved 192 tokens",
		"Action 3 ActivateDestination", "Ack 3 Applied", "Complete",
	}
	sglang := []string{
		"Register rank 0 DestinationFirst sglang", "Registered",
		"Action 0 ReserveDestination", "Ack 0 Accepted", "Reserved 160 tokens",
		"Held destination_missing 160 tokens, 256 bytes per token, 64 GB/s",
		"Action 3 ActivateDestination", "Ack 3 Applied", "Complete",
	}
	for file, want := range map[string][]string{"captured_vllm.txt": vllm, "captured_sglang.txt": sglang} {
		header, captured := readCapture(t, file)
		if err := ReadHeader(bytes.NewReader(header)); err != nil || !bytes.Equal(header, Header[:]) {
			t.Errorf("%s: header: %v", file, err)
		}
		r := bytes.NewReader(captured)
		var got []string
		for {
			before := len(captured) - r.Len()
			f, err := ReadFrame(r)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			got = append(got, f.Message.String())
			if again, was := AppendFrame(nil, f), captured[before:len(captured)-r.Len()]; !bytes.Equal(again, was) {
				t.Errorf("%s: got  %q\nwant %q", file, again, was)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got  %q\nwant %q", file, got, want)
		}
	}
}

// readCapture reads a file of lines: the sender, and the bytes; those before JSON in hexadecimal.
func readCapture(t *testing.T, file string) (header, frames []byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		start, err := hex.DecodeString(words[1])
		if err != nil {
			t.Fatal(err)
		}
		if len(words) == 2 {
			header = start
		} else {
			frames = append(append(frames, start...), words[2]...)
		}
	}
	return header, frames
}

var (
	testID   = uuid.MustParse("981915ce-eff2-4b23-a4e6-21f941d1648b")
	otherID  = uuid.MustParse("a0811fce-aafe-4910-a423-935fa2c0b7ea")
	identity = Identity{HandoffID: testID, Room: math.MaxInt64, RequestID: otherID}
)

// Messages that no capture has.
func TestMessages(t *testing.T) {
	const id = `{"handoff_id":"981915ce-eff2-4b23-a4e6-21f941d1648b"`
	held := func(transfer handoff.Transfer) Message { return Held{7, transfer} }
	for _, c := range []struct {
		message Message
		want    string
	}{
		{Overloaded{}, `"Overloaded"`},
		{Abort{`handoff "canceled" <now>`}, `{"Abort":{"message":"handoff \"canceled\" <now>"}}`},
		{ProtocolError{"duplicate destination participant"},
			`{"ProtocolError":{"message":"duplicate destination participant"}}`},
		{Ack{ActionID: math.MaxUint64, Outcome: OutcomeFailed, Failure: "no room"},
			`{"ActionAck":{"action_id":18446744073709551615,"outcome":{"Failed":"no room"}}}`},
		{Ack{ActionID: 3, Outcome: Noop}, `{"ActionAck":{"action_id":3,"outcome":"Noop"}}`},
		{Action{4, handoff.CancelDestination}, `{"Action":{"id":4,"action":{"CancelDestination":` + id + `}}}}`},
		{held(handoff.Transfer{}), `{"Fact":{"SourceHeld":` + id +
			`,"transfer_timing":{"mode":"full_prompt","full_prompt_tokens":7,"kv_bytes_per_token":null,` +
			`"bandwidth_gb_s":null}}}}`},
		{held(handoff.Transfer{BandwidthGBs: 0.5}),
			`{"Fact":{"SourceHeld":` + id +
				`,"transfer_timing":{"mode":"full_prompt","full_prompt_tokens":7,"kv_bytes_per_token":null,` +
				`"bandwidth_gb_s":0.5}}}}`},
	} {
		frame := AppendFrame(nil, Frame{identity, c.message})
		_, got, _ := strings.Cut(string(frame), `"message":`)
		if got != c.want+"}" {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if f, err := ReadFrame(bytes.NewReader(frame)); err != nil || f != (Frame{identity, c.message}) {
			t.Errorf("%s: got %v, %v", c.want, f, err)
		}
	}
}

func TestLongTexts(t *testing.T) {
	for _, long := range []string{strings.Repeat("\x01", 1<<20), strings.Repeat("é", 1<<20), "\xff"} {
		frame := AppendFrame(nil, Frame{identity, Abort{long}})
		if _, err := ReadFrame(bytes.NewReader(frame)); err != nil {
			t.Errorf("a text of %d bytes: %v", len(long), err)
		}
	}
}

func TestBadHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "EOF",
		"DMHF\x01":                "unexpected EOF",
		"GET / HT":                "want 444d484601000000",
		"DMHF\x02\x00\x00\x00":    "got version 2 and flags 0x0",
		"DMHF\x01\x00\x00\x01abc": "got version 1 and flags 0x100",
	} {
		if err := ReadHeader(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestBadFrames(t *testing.T) {
	const (
		id      = `"handoff_id":"981915ce-eff2-4b23-a4e6-21f941d1648b"`
		wrongID = `"handoff_id":"a0811fce-aafe-4910-a423-935fa2c0b7ea"`
	)
	message := func(m string) string {
		return `{"identity":{` + id + `,"bootstrap_room":1,"request_id":"a0811fce-aafe-4910-a423-935fa2c0b7ea"},"message":` +
			m + `}`
	}
	timing := func(members string) string {
		return message(`{"Fact":{"SourceHeld":{` + id + `,"transfer_timing":{` + members + `}}}}`)
	}
	for _, test := range []struct{ text, want string }{
		{`hello`, "invalid character"},
		{`{}`, "want an identity and a message"},
		{`{"identity":{},"x":1}`, "want an identity and a message"},
		{message(`"Hello"`), `unknown message "Hello"`},
		{message(`null`), ""}, // any error
		{message(`7`), ""},
		{message(`{}`), "got 0 names"},
		{message(`{"Hello":{}}`), `unknown message "Hello"`},
		{message(`{"Abort":{}}`), "message: missing"},
		{message(`{"Abort":null}`), ""},
		{message(`{"Complete":{},"Registered":{}}`), "got 2 names"},
		{message(`{"Register":{"role":"Source","dp_rank":0,"order":"SourceFirst","engine_type":"vllm"}}`),
			`role: got "Source"`},
		{message(`{"Register":{"role":"Destination","dp_rank":0,"order":"Sideways","engine_type":"vllm"}}`),
			`order: got "Sideways"`},
		{message(`{"Register":{"role":"Destination","order":"SourceFirst","engine_type":"vllm"}}`), "want dp_rank"},
		{message(`{"Register":{"role":"Destination","dp_rank":-1,"order":"SourceFirst","engine_type":"vllm"}}`), ""},
		{message(`{"Action":{"id":1,"action":{"SubmitPrefill":{` + id +
			`}}}}`), `action: got "SubmitPrefill"`},
		{message(`{"Action":{"id":1,"action":{"ReserveDestination":{` + wrongID +
			`}}}}`), "not that of the frame"},
		{message(`{"Action":{"id":1,"action":"ReserveDestination"}}`), "without content"},
		{message(`{"Action":{"id":1,"action":{"":{}}}}`), `action: got ""`},
		{message(`{"ActionAck":{"action_id":1,"outcome":"Failed"}}`), "a text belongs to Failed"},
		{message(`{"ActionAck":{"action_id":1,"outcome":{"Applied":"x"}}}`), "a text belongs to Failed"},
		{message(`{"ActionAck":{"outcome":"Applied"}}`), "want action_id"},
		{message(`{"Fact":"SourceHeld"}`), "without content"},
		{message(`{"Fact":{"Hello":{}}}`), `unknown fact "Hello"`},
		{message(`{"Fact":{"DestinationReserved":{` + id +
			`,"transferable_prompt_tokens":-1}}}`), "transferable_prompt_tokens"},
		{message(`{"Fact":{"SourceHeld":{` + id +
			`}}}`), "transfer_timing: missing"},
		{timing(`"mode":"half","full_prompt_tokens":1`), `mode: got "half"`},
		{timing(`"mode":"full_prompt"`), "full_prompt_tokens"},
		{timing(`"mode":"full_prompt","full_prompt_tokens":1,"bandwidth_gb_s":0`), "bandwidth_gb_s: got 0"},
		{timing(`"mode":"full_prompt","full_prompt_tokens":1,"bandwidth_gb_s":1e999`), ""},
		{timing(`"mode":"full_prompt","full_prompt_tokens":1,"kv_bytes_per_token":18446744073709551615`),
			"kv_bytes_per_token"},
	} {
		frame := append([]byte{byte(len(test.text)), byte(len(test.text) >> 8), 0, 0}, test.text...)
		if f, err := ReadFrame(bytes.NewReader(frame)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v, want %s", test.text, f, err, test.want)
		}
	}
	for bytesRead, want := range map[string]string{
		"\x00\x00\x00\x00":      "got 0 bytes",
		"\x01\x00\x01\x00":      "got 65537 bytes",
		"\xff\xff\xff\xff":      "got 4294967295 bytes",
		"\x01\x00":              "unexpected EOF",
		"\x02\x00\x00\x00x":     "unexpected EOF",
		"\x02\x00\x00\x00":      "unexpected EOF",
		"\x03\x00\x00\x00\"x\"": "bootstrap frame",
	} {
		if _, err := ReadFrame(strings.NewReader(bytesRead)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", bytesRead, err, want)
		}
	}
}

// FuzzReadFrame reads anything. What it takes for a frame comes back from its own bytes.
func FuzzReadFrame(f *testing.F) {
	for _, m := range []Message{
		Register{Rank: 1, Order: handoff.DestinationFirst, EngineType: "sglang"}, Registered{},
		Action{1, handoff.Reserve},
		Ack{ActionID: 1, Outcome: Accepted}, Ack{Outcome: OutcomeFailed, Failure: "x"},
		Held{5, handoff.Transfer{BytesPerToken: 1, BandwidthGBs: 1e-9}}, Reserved{64}, Complete{}, Abort{"x"},
		Overloaded{}, ProtocolError{"x"},
	} {
		f.Add(AppendFrame(nil, Frame{identity, m}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := ReadFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		switch frame.Message.(type) {
		case Abort, ProtocolError, Ack, Register:
			return // texts may have been cut
		}
		if again, err := ReadFrame(bytes.NewReader(AppendFrame(nil, frame))); err != nil || again != frame {
			t.Fatalf("got %v, %v, want %v", again, err, frame)
		}
	})
}
