package discovery

import "testing"

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
	for _, test := range []struct {
		got       Record
		key, want string
	}{
		{
			EndpointRecord(e, 12678662925488567779, map[string]string{"tcp": "127.0.0.1:19100/aff3a8c19ca935e3/generate"}, "cuda"),
			"dynamo/backend/generate/aff3a8c19ca935e3",
			`{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":12678662925488567779,"transport":{"tcp":"127.0.0.1:19100/aff3a8c19ca935e3/generate"},"device_type":"cuda"}`,
		},
		{
			EventChannelRecord("dynamo", "backend", "kv-events", 7773960973193825457, ZMQ("tcp://192.0.2.2:34217")),
			"dynamo/backend/kv-events/6be2a85120f7ccb1",
			`{"type":"EventChannel","namespace":"dynamo","component":"backend","topic":"kv-events","instance_id":7773960973193825457,"transport":{"kind":"Zmq","config":{"endpoint":"tcp://192.0.2.2:34217"}}}`,
		},
		{
			EventChannelRecord("dynamo", "", "kv_metrics", 14886171231468991878, NATS("namespace.dynamo")),
			"dynamo//kv_metrics/ce964ddd5d593586",
			`{"type":"EventChannel","namespace":"dynamo","component":"","topic":"kv_metrics","instance_id":14886171231468991878,"transport":{"kind":"Nats","config":{"subject_prefix":"namespace.dynamo"}}}`,
		},
		{
			EndpointRecord(e, 2324035525006360073, map[string]string{"nats_tcp": "dynamo_backend.generate-2040a1ff29647e09"}, "cuda"),
			"dynamo/backend/generate/2040a1ff29647e09",
			`{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":2324035525006360073,"transport":{"nats_tcp":"dynamo_backend.generate-2040a1ff29647e09"},"device_type":"cuda"}`,
		},
		{
			ModelRecord(e, 7, []byte(`{"slug":"x"}`)), "dynamo/backend/generate/7",
			`{"type":"Model","namespace":"dynamo","component":"backend","endpoint":"generate","instance_id":7,"card_json":{"slug":"x"}}`,
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
