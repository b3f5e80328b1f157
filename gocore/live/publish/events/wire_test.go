package events

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish/eventstest"
)

func unhex(t testing.TB, text string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pointer(n uint64) *uint64 { return &n }

const capturedWorker = 0xaff3a8c19ca935e3

// capturedEnvelope is the last frame of a message of the reference about two blocks.
const capturedEnvelope = `01 00000138 85ac7075626c69736865725f6964cf6be2a85120f7ccb1a873657175656e636500
	ac7075626c69736865645f6174cf000001a1fd343c2fa5746f706963a96b762d6576656e7473a77061796c6f6164c4e7
	83a9776f726b65725f6964cfaff3a8c19ca935e3ac73746f726167655f74696572a6646576696365a56576656e7483a86576656e745f6964
	01a46461746181a673746f72656483ab706172656e745f68617368c0ae73746172745f706f736974696f6ec0a6626c6f636b739283aa
	626c6f636b5f68617368cf1032b10c76ae2b64ab746f6b656e735f68617368cf1032b10c76ae2b64ad6d6d5f65787472615f696e666fc083aa
	626c6f636b5f68617368cf2606b531ba32ca7dab746f6b656e735f68617368cf1032b10c76ae2b64ad6d6d5f65787472615f696e666fc0
	a764705f72616e6b00`

func capturedEvent() RouterEvent {
	return RouterEvent{WorkerID: capturedWorker, StorageTier: "device",
		Event: CacheEvent{ID: 1, Data: Data{Stored: &Stored{Blocks: []StoredBlock{
			{BlockHash: 0x1032b10c76ae2b64, TokensHash: 0x1032b10c76ae2b64},
			{BlockHash: 0x2606b531ba32ca7d, TokensHash: 0x1032b10c76ae2b64},
		}}}}}
}

func TestCapturedRouterEvent(t *testing.T) {
	want := unhex(t, capturedEnvelope)
	event := capturedEvent()
	envelope := Envelope{PublisherID: 0x6be2a85120f7ccb1, PublishedAt: 0x1a1fd343c2f, Topic: KVTopic,
		Payload: event.Append(nil)}
	frames := envelope.Frames()
	if !bytes.Equal(frames[3], want) {
		t.Errorf("got  %x\nwant %x", frames[3], want)
	}
	if got := [3]string{string(frames[0]), hex.EncodeToString(frames[1]),
		hex.EncodeToString(frames[2])}; got != [3]string{"kv-events", "6be2a85120f7ccb1", "0000000000000000"} {
		t.Errorf("the other frames: got %q", got)
	}
	decoded, err := ParseFrames(frames)
	if err != nil || !reflect.DeepEqual(decoded, envelope) {
		t.Errorf("decoded: got %+v, %v", decoded, err)
	}
	if back, err := ParseRouterEvents(decoded.Payload); err != nil || !reflect.DeepEqual(back, []RouterEvent{event}) {
		t.Errorf("decoded event: got %+v, %v", back, err)
	}
}

func TestRouterEventRoundTrip(t *testing.T) {
	for _, data := range []Data{
		{Stored: &Stored{ParentHash: pointer(1 << 63), StartPosition: pointer(3),
			Blocks: []StoredBlock{{BlockHash: 7, TokensHash: 300}}}},
		{Removed: &Removed{BlockHashes: []uint64{1, 0xffff, 1 << 40}}},
		{Cleared: true},
	} {
		want := RouterEvent{WorkerID: 70_000, StorageTier: "device", Event: CacheEvent{ID: 9, DPRank: 3, Data: data}}
		got, err := ParseRouterEvents(want.Append(nil))
		if err != nil || !reflect.DeepEqual(got, []RouterEvent{want}) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestCapturedLoad(t *testing.T) {
	want := unhex(t,
		`85a9776f726b65725f6964cfaff3a8c19ca935e3a764705f72616e6b00b46163746976655f6465636f64655f626c6f636b73c0
		b56163746976655f70726566696c6c5f746f6b656e73c0ae6b765f757365645f626c6f636b7303`)
	load := ActiveLoad{WorkerID: capturedWorker, KVUsedBlocks: pointer(3)}
	if got := load.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestForwardPass(t *testing.T) {
	pass := ForwardPass{WorkerID: 15250892664823062804, DPRank: 1, CounterID: 21, WallTimeS: 0.024691437,
		Work: engine.Work{
			Scheduled: engine.Phases{PrefillRequests: 1, PrefillTokens: 160, PrefillKVTokens: 32, DecodeRequests: 2,
				DecodeKVTokens: 161, DecodeKVVariance: 0.25},
			Queued: engine.Phases{PrefillRequests: 3, PrefillTokens: 500, PrefillVariance: 2.5},
		}}
	got, err := eventstest.Map(pass.Append(nil))
	if want := "map[counter_id:21 dp_rank:1 queued_requests:map[num_decode_requests:0 num_prefill_requests:3 " +
		"sum_decode_kv_tokens:0 " +
		"sum_prefill_tokens:500 var_decode_kv_tokens:0 var_prefill_length:2.5] " +
		"scheduled_requests:map[num_decode_requests:2 " +
		"num_prefill_requests:1 sum_decode_kv_tokens:161 sum_prefill_kv_tokens:32 sum_prefill_tokens:160 " +
		"var_decode_kv_tokens:0.25 " +
		"var_prefill_length:0] version:1 wall_time:0.024691437 worker_id:15250892664823062804]"; err != nil ||
		fmt.Sprint(got) != want {
		t.Errorf("got  %v, %v\nwant %s", got, err, want)
	}
	// An idle rank's, as the reference's own subscribers read it: these keys in this order, floats as floats.
	heartbeat := ForwardPass{WorkerID: 1, CounterID: 1}
	text := `87 a776657273696f6e01 a9776f726b65725f6964a131 a764705f72616e6b00 aa636f756e7465725f696401 ` +
		`a977616c6c5f74696d65cb0000000000000000
		b27363686564756c65645f7265717565737473 87 b46e756d5f70726566696c6c5f726571756573747300 ` +
		`b273756d5f70726566696c6c5f746f6b656e7300
		b27661725f70726566696c6c5f6c656e677468cb0000000000000000 b573756d5f70726566696c6c5f6b765f746f6b656e7300
		b36e756d5f6465636f64655f726571756573747300 b473756d5f6465636f64655f6b765f746f6b656e7300
		b47661725f6465636f64655f6b765f746f6b656e73cb0000000000000000
		af7175657565645f7265717565737473 86 b46e756d5f70726566696c6c5f726571756573747300 ` +
		`b273756d5f70726566696c6c5f746f6b656e7300
		b27661725f70726566696c6c5f6c656e677468cb0000000000000000 b36e756d5f6465636f64655f726571756573747300
		b473756d5f6465636f64655f6b765f746f6b656e7300 b47661725f6465636f64655f6b765f746f6b656e73cb0000000000000000`
	if got := heartbeat.Append(nil); !bytes.Equal(got, unhex(t, text)) {
		t.Errorf("heartbeat: got %x", got)
	}
}

// TestNative compares with messages of the reference up to the fields that it leaves out, and there with nils.
func TestNative(t *testing.T) {
	tokens := make([]uint32, 32)
	for i := range tokens {
		tokens[i] = uint32(64 + i)
	}
	stored := blocks.Change{Kind: kvcache.Stored, Blocks: []blocks.Block{
		{Hash: 0xdf0abbbd07c1601c, Tokens: tokens[:16]}, {Hash: 0x8fb4a22a3f947f57, Tokens: tokens[16:]},
	}}
	removed := blocks.Change{Kind: kvcache.Removed, Blocks: []blocks.Block{{Hash: 0xb8f0f13e8bc23f96}}}
	n := NewNative(16, 0)
	list := hex.EncodeToString([]byte{0xdc, 0, 32})
	for _, token := range tokens {
		list += hex.EncodeToString([]byte{byte(token)})
	}
	for i, test := range []struct {
		change blocks.Change
		unixS  string
		want   string
	}{
		{stored, "41dac05563dc70e6",
			`93cb41dac05563dc70e6 91 98ab426c6f636b53746f72656492cfdf0abbbd07c1601ccf8fb4a22a3f947f57c0` + list +
				`10 c0c0c0 00`},
		{removed, "41dac05563fcd3aa", `93cb41dac05563fcd3aa 91 93ac426c6f636b52656d6f76656491cfb8f0f13e8bc23f96 c0 00`},
	} {
		m := n.Message(&test.change, floatOf(t, test.unixS))
		if !bytes.Equal(m.Payload, unhex(t, test.want)) || m.Sequence != uint64(i) {
			t.Errorf("message %d: got %d, %x", i, m.Sequence, m.Payload)
		}
		batch, err := eventstest.Native(m.Payload)
		if err != nil || len(batch.Events) != 1 || batch.Events[0].Removed != (i == 1) ||
			batch.Events[0].Hashes[0] != test.change.Blocks[0].Hash {
			t.Errorf("decoded: got %+v, %v", batch, err)
		}
	}
}

// TestNativeOfGroups: with several groups each event says which it is about, in the fields of vLLM's classes; msgspec
// decodes these bytes into them.
func TestNativeOfGroups(t *testing.T) {
	n := NewNative(2, 0)
	n.Group([]LayerGroup{{Kind: FullAttention}, {Kind: SlidingWindow, Window: 1024}})
	stored := blocks.Change{Group: 1, Blocks: []blocks.Block{{Hash: 7, Tokens: []uint32{1, 2}}}, Parent: 6,
		HasParent: true}
	removed := blocks.Change{Kind: kvcache.Removed, Group: 1, Blocks: []blocks.Block{{Hash: 7}}}
	full := blocks.Change{Blocks: []blocks.Block{{Hash: 6, Tokens: []uint32{3, 4}}}}
	for _, test := range []struct {
		change blocks.Change
		want   eventstest.Event
		ends   string
	}{
		{stored, eventstest.Event{Hashes: []uint64{7}, Tokens: []uint32{1, 2}, BlockSize: 2, Group: 1,
			Kind: "sliding_window", Window: 1024},
			"02 c0c0c0 c0 01 ae" + hex.EncodeToString([]byte("sliding_window")) + "d10400 00"},
		{full, eventstest.Event{Hashes: []uint64{6}, Tokens: []uint32{3, 4}, BlockSize: 2, Kind: "full_attention"},
			"02 c0c0c0 c0 00 ae" + hex.EncodeToString([]byte("full_attention")) + "c0 00"},
		{removed, eventstest.Event{Removed: true, Hashes: []uint64{7}, Group: 1}, "91 07 c0 01 00"},
	} {
		m := n.Message(&test.change, 0)
		batch, err := eventstest.Native(m.Payload)
		if err != nil || len(batch.Events) != 1 {
			t.Fatalf("%+v: got %+v, %v", test.change, batch, err)
		}
		got := batch.Events[0]
		got.HasParent = false
		if !reflect.DeepEqual(got, test.want) || !bytes.HasSuffix(m.Payload, unhex(t, test.ends)) {
			t.Errorf("got %+v, %x, want %+v", got, m.Payload, test.want)
		}
	}
}

func TestNativeReplay(t *testing.T) {
	c := blocks.Change{Kind: kvcache.Removed, Blocks: []blocks.Block{{Hash: 1}}}
	n := NewNative(16, 2)
	n.KeepForReplay()
	if got := n.From(0); got != nil {
		t.Errorf("nothing was sent, got %v", got)
	}
	for range replayedMessages + 5 {
		n.Message(&c, 0)
	}
	for _, test := range []struct {
		start, first uint64
		count        int
	}{{0, 5, replayedMessages}, {5, 5, replayedMessages}, {replayedMessages + 4, replayedMessages + 4, 1},
		{replayedMessages + 5, 0, 0}, {1 << 63, 0, 0}} {
		got := n.From(test.start)
		if len(got) != test.count || test.count > 0 && got[0].Sequence != test.first {
			t.Errorf("from %d: got %d messages", test.start, len(got))
		}
	}
	silent := NewNative(16, 0)
	silent.Message(&c, 0)
	if got := silent.From(0); got != nil {
		t.Errorf("nothing was to be kept, got %v", got)
	}
	if start, ok := ParseReplay([][]byte{{}, {0, 0, 0, 0, 0, 0, 1, 2}}); !ok || start != 258 {
		t.Errorf("got %d, %v", start, ok)
	}
	for _, frames := range [][][]byte{nil, {{}}, {{}, {1}}} {
		if _, ok := ParseReplay(frames); ok {
			t.Errorf("%v is no request", frames)
		}
	}
}

func TestBadMessages(t *testing.T) {
	for name, parse := range parsers {
		for _, text := range []string{"", "c1", "80ff", "df ffffffff", "dd ffffffff", "81a4646174 61", "c6 ffffffff",
			"81 a5 6576656e74 81 a4 64617461 dd ffffffff"} {
			if err := parse(unhex(t, text)); err == nil {
				t.Errorf("%s: %q was accepted", name, text)
			}
		}
	}
	for _, frames := range [][][]byte{nil, {{1}, {2}, {3}, {1, 0, 0, 0, 9, 0x80}},
		{{1}, {2}, {3}, {2, 0, 0, 0, 1, 0x80}}, {{}, {}, {}, {}}} {
		if _, err := ParseFrames(frames); err == nil {
			t.Errorf("%v was accepted", frames)
		}
	}
}

// parsers are all decoders of MessagePack.
var parsers = map[string]func([]byte) error{
	"envelope":     func(b []byte) error { _, err := ParseEnvelope(b); return err },
	"router event": func(b []byte) error { _, err := ParseRouterEvents(b); return err },
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add(unhex(f, capturedEnvelope)[5:])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEnvelope(b)
		if err != nil {
			return
		}
		if back, err := ParseFrames(e.Frames()); err != nil || back.Sequence != e.Sequence || back.Topic != e.Topic ||
			!bytes.Equal(back.Payload, e.Payload) {
			t.Errorf("%+v comes back as %+v, %v", e, back, err)
		}
	})
}

func FuzzParseRouterEvents(f *testing.F) {
	event := capturedEvent()
	f.Add(event.Append(nil))
	event.Event.Data = Data{Removed: &Removed{BlockHashes: []uint64{1, 2}}}
	f.Add(event.Append(nil))
	event.Event.Data = Data{Cleared: true}
	f.Add(event.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ParseRouterEvents(b)
		if err != nil {
			return
		}
		for _, e := range list {
			if back, err := ParseRouterEvents(e.Append(nil)); err != nil || len(back) != 1 ||
				!bytes.Equal(back[0].Append(nil), e.Append(nil)) {
				t.Errorf("%+v comes back as %+v, %v", e, back, err)
			}
		}
	})
}
