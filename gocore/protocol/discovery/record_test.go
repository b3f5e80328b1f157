package discovery

import (
	"reflect"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	standard := Endpoint{"dynamo", "backend", "generate"}
	for text, want := range map[string]Endpoint{
		"dyn://a.b.c":     {"a", "b", "c"},
		" /a/b/c/d. ":     {"a", "b", "c_d"},
		"dyn://a":         {"a", "backend", "generate"},
		"":                standard,
		"dyn://a..b":      {"a", "b", "generate"},
		"dyn://n-1.b_2.c": {"n-1", "b_2", "c"},
	} {
		if got, err := ParseEndpoint(text, standard); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	if _, err := ParseEndpoint("dyn://A.b.c", standard); err == nil {
		t.Error("capital letters are accepted")
	}
}

func TestRecords(t *testing.T) {
	e := Endpoint{"dynamo", "backend", "generate"}
	query := Endpoint{"dynamo", "backend", "worker_kv_query_source_1d2fc84e9f2aa8"}
	const worker = 18371732355705666456
	answering := EndpointRecord(query, worker, map[string]string{"tcp": "127.0.0.1:38399/" + query.Path(worker)},
		"cuda")
	for _, test := range []struct {
		got       Record
		key, want string
	}{
		{
			EndpointRecord(e, 12678662925488567779,
				map[string]string{"tcp": "127.0.0.1:19100/aff3a8c19ca935e3/generate"}, "cuda"),
			"dynamo/backend/generate/aff3a8c19ca935e3",
			`{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo",` +
				`"instance_id":12678662925488567779,"transport":{"tcp":"127.0.0.1:19100/aff3a8c19ca935e3/generate"},` +
				`"device_type":"cuda","request_plane_codec":"msgpack"}`,
		},
		{
			EventChannelRecord("dynamo", "backend", "kv-events", 7773960973193825457, ZMQ("tcp://192.0.2.2:34217")),
			"dynamo/backend/kv-events/6be2a85120f7ccb1",
			`{"type":"EventChannel","namespace":"dynamo","component":"backend","topic":"kv-events",` +
				`"instance_id":7773960973193825457,"transport":{"kind":"Zmq","config":{"endpoint":"tcp://192.0.2.2:34217"}}}`,
		},
		{
			EventChannelRecord("dynamo", "", "kv_metrics", 14886171231468991878, NATS("namespace.dynamo")),
			"dynamo//kv_metrics/ce964ddd5d593586",
			`{"type":"EventChannel","namespace":"dynamo","component":"","topic":"kv_metrics",` +
				`"instance_id":14886171231468991878,"transport":{"kind":"Nats","config":{"subject_prefix":"namespace.dynamo"}}}`,
		},
		{
			EndpointRecord(e, 2324035525006360073,
				map[string]string{"nats_tcp": "dynamo_backend.generate-2040a1ff29647e09"}, "cuda"),
			"dynamo/backend/generate/2040a1ff29647e09",
			`{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo",` +
				`"instance_id":2324035525006360073,"transport":{"nats_tcp":"dynamo_backend.generate-2040a1ff29647e09"},` +
				`"device_type":"cuda","request_plane_codec":"msgpack"}`,
		},
		{
			ScopedChannelRecord(e, "kv-events", 8215311683627688, ZMQ("tcp://192.0.2.2:34949")),
			"namespace/dynamo/component/backend/endpoint/generate/topic/kv-events/1d2fc84e9f2aa8",
			`{"type":"EventChannel","scope":{"kind":"endpoint","endpoint":{"namespace":"dynamo","component":"backend",` +
				`"name":"generate"}},"namespace":"dynamo","component":"backend.generate","topic":"kv-events",` +
				`"instance_id":8215311683627688,"transport":{"kind":"Zmq","config":{"endpoint":"tcp://192.0.2.2:34949"}}}`,
		},
		{
			EventSourceRecord(e, "kv-events", 8215311683627688, 18371732355705666456, 0, &answering),
			"namespace/dynamo/component/backend/endpoint/generate/topic/kv-events/1d2fc84e9f2aa8",
			`{"type":"EventSource","scope":{"kind":"endpoint","endpoint":{"namespace":"dynamo","component":"backend",` +
				`"name":"generate"}},"topic":"kv-events","publisher_id":8215311683627688,` +
				`"metadata":{"kv_state_endpoint":{"namespace":"dynamo","component":"backend","name":"generate"},` +
				`"worker":{"worker_id":18371732355705666456,"dp_rank":0},"publisher_id":8215311683627688,` +
				`"recovery_target":{"component":"backend","endpoint":"worker_kv_query_source_1d2fc84e9f2aa8",` +
				`"namespace":"dynamo","instance_id":18371732355705666456,` +
				`"transport":{"tcp":"127.0.0.1:38399/fef5813d6a62fb98/dynamo/backend/worker_kv_query_source_1d2fc84e9f2aa8"},` +
				`"device_type":"cuda","request_plane_codec":"msgpack"}}}`,
		},
		{
			ModelRecord(e, 7, []byte(`{"slug":"x"}`)), "dynamo/backend/generate/7",
			`{"type":"Model","namespace":"dynamo","component":"backend","endpoint":"generate","instance_id":7,` +
				`"card_json":{"slug":"x"}}`,
		},
	} {
		if test.got.Key != test.key || string(test.got.Document) != test.want {
			t.Errorf("got  %s %s\nwant %s %s", test.got.Key, test.got.Document, test.key, test.want)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	standard := Endpoint{"dynamo", "backend", "generate"}
	f.Add("dyn://a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseEndpoint(text, standard)
		if err != nil {
			return
		}
		if again, err := ParseEndpoint(e.String(), standard); err != nil || again != e {
			t.Errorf("got %v, %v from %v", again, err, e)
		}
	})
}

// TestParseTopics: what both releases say about a topic, and keys of neither.
func TestParseTopics(t *testing.T) {
	e := Endpoint{"dynamo", "backend", "generate"}
	socket := ZMQ("tcp://192.0.2.2:34949")
	for _, test := range []struct {
		record Record
		want   Channel
	}{
		{EventChannelRecord("dynamo", "backend", "kv-events", 5, socket),
			Channel{Endpoint{"dynamo", "backend", ""}, "kv-events", 5, socket}},
		{EventChannelRecord("dynamo", "", "kv_metrics", 5, socket),
			Channel{Endpoint{"dynamo", "", ""}, "kv_metrics", 5, socket}},
		{ScopedChannelRecord(e, "kv-events", 5, socket), Channel{e, "kv-events", 5, socket}},
	} {
		if got, err := ParseChannel(test.record); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, %v, want %v", test.record.Key, got, err, test.want)
		}
	}
	answering := EndpointRecord(Endpoint{"dynamo", "backend", "answers"}, 7, nil, "cuda")
	got, err := ParseSource(EventSourceRecord(e, "kv-events", 5, 7, 3, &answering))
	if want := (Source{e, "kv-events", 5, 3, "answers"}); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err = ParseSource(EventSourceRecord(e, "kv-events", 5, 7, 3, nil)); err != nil || got.Recovery != "" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, key := range []string{"a/b/c", "namespace/a/topic/b/topic/5", "namespace/a/planet/b/5",
		"namespace/a/topic/b/x"} {
		if _, err := ParseChannel(Record{Bucket: EventChannels, Key: key, Document: []byte("{}")}); err == nil {
			t.Errorf("%s is accepted", key)
		}
	}
}
