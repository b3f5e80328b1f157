package serve

import (
	"strings"
	"testing"
	"time"
)

func TestPauses(t *testing.T) {
	for text, want := range map[string][]time.Duration{
		`{"num_workers": 32}`:                         {0, 0},
		`{"num_workers": 33}`:                         {100 * time.Millisecond, 2100 * time.Millisecond},
		`{"num_workers": 128}`:                        {100 * time.Millisecond, 2100 * time.Millisecond},
		`{"num_workers": 129}`:                        {200 * time.Millisecond, 2200 * time.Millisecond},
		`{"num_workers": 5, "stagger_delay": 0.7}`:    {700 * time.Millisecond, 2700 * time.Millisecond},
		`{"num_workers": 129, "stagger_delay": 0}`:    {0, 0},
		`{"num_workers": 129, "stagger_delay": -1.0}`: {200 * time.Millisecond, 2200 * time.Millisecond},
	} {
		text = strings.Replace(text, "}", `, "discovery_backend": "mem"}`, 1)
		o, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		pause, err := pauses(o)
		if err != nil || pause(0) != want[0] || pause(31) != want[1] {
			t.Errorf("%s: got %v, %v, want %v", text, pause(0), pause(31), want)
		}
	}
}

func TestEngineText(t *testing.T) {
	o, err := decode(`{"discovery_backend": "mem", "data_parallel_size": 2, "sglang_page_size": 4,
		"sglang_schedule_policy": "lpm",
		"reasoning": "{\"a\": 1}", "aic_mtp_seed": 18446744073709551615, "speedup_ratio": 0.5, ` +
		`"enable_prefix_caching": false}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"aic_mtp_seed":18446744073709551615,"dp_size":2,"enable_local_indexer":true,"enable_prefix_caching":false,` +
		`"reasoning":{"a":1},"sglang":{"page_size":4,"schedule_policy":"lpm"},"speedup_ratio":0.5}`
	if got, err := engineText(o, ""); err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// TestEnvironment: what variables change, unless an option says otherwise.
func TestEnvironment(t *testing.T) {
	text, env, err := withDefaults(`{"request_plane": "tcp", "environment": ["DYN_DISCOVERY_BACKEND=mem",
		"DYN_REQUEST_PLANE=nats",
		"DYN_EVENT_PLANE=", "DYN_DURABLE_KV_EVENTS=True", "DYN_NAMESPACE=a", "DYN_NAMESPACE_WORKER_SUFFIX=b",
		"CUDA_VISIBLE_DEVICES=",
		"DYN_ENGINE_REQUEST_LIMIT=0"]}`)
	if err != nil {
		t.Fatal(err)
	}
	o, err := decode(text)
	if err != nil || !o.Bool("durable_kv_events") {
		t.Errorf("got %v", err)
	}
	if env.namespace() != "a-b" || env.device() != "cpu" {
		t.Errorf("got %s, %s", env.namespace(), env.device())
	}
	if l, err := env.limits(); err != nil || l.Active != 0 || l.Queued != 16 {
		t.Errorf("got %+v, %v", l, err)
	}
	for list, want := range map[string]string{"": "cuda", "CUDA_VISIBLE_DEVICES=0": "cuda",
		"NVIDIA_VISIBLE_DEVICES=void": "cpu"} {
		if got := newEnvironment([]string{list}).device(); got != want {
			t.Errorf("%s: got %s, want %s", list, got, want)
		}
	}
}
