package serve

import (
	"strings"
	"testing"

	"dynosim/gocore/handoff"
)

const pools = `{"standalone": true, "model_name": "m", "num_prefill_workers": 1, "num_decode_workers": 2, ` +
	`"router_mode": "kv", `

// TestOwnHandoffs: prefill and decode workers of a server hand over by vLLM's own rules, at the speed that is given.
func TestOwnHandoffs(t *testing.T) {
	const vllm = `"decode_engine_args": "{\"scheduler\": \"vllm\"}", "prefill_engine_args": "{\"scheduler\": \"vllm\"`
	for given, want := range map[string]handoff.Transfer{
		vllm + `}"`: {BandwidthGBs: 64},
		vllm + `, \"kv_transfer_ms_per_block\": 0.2, \"kv_transfer_lanes\": \"unlimited\"}"`: {MsPerBlock: 0.2,
			Unlimited: true},
		vllm + `, \"kv_transfer_bandwidth\": 10, \"kv_bytes_per_token\": 5}", "kv_event_lag_ms": 7`: {BandwidthGBs: 10,
			BytesPerToken: 5},
		`"prefill_engine_args": "{}"`: {BandwidthGBs: 64},
	} {
		s, err := parseServer(pools + given + "}")
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		m := &s.models[0]
		if got := transfer(m.pools[0].Args); got != want {
			t.Errorf("%s: got %+v, want %+v", given, got, want)
		}
		if want := strings.Contains(given, "lag"); (m.lagMs == 7) != want {
			t.Errorf("%s: routers are %v ms late", given, m.lagMs)
		}
	}
}

// TestRefusedHandoffs: both pools have one scheduler, and only routers that learn of caches hear late.
func TestRefusedHandoffs(t *testing.T) {
	for given, want := range map[string]string{
		`"prefill_engine_args": "{\"scheduler\": \"vllm\"}"`: "scheduler: got vllm-0.33 of prefill workers and " +
			"dynamo of decode workers, want the same",
		`"kv_event_lag_ms": 5, "router_mode": "random"`: "kv_event_lag_ms: got 5, want router_mode kv",
	} {
		if strings.Contains(given, "router_mode") {
			given = `{"standalone": true, ` + given + "}"
		} else {
			given = pools + given + "}"
		}
		if _, err := parseServer(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", given, err, want)
		}
	}
}
