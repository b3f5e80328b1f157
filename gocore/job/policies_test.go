package job_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/job"
	"dynosim/gocore/router"
)

// sessionRun is a run of 60 sessions of three turns each on four workers.
const sessionRun = `{"kind":"synthetic","input_tokens":400,"output_tokens":20,"request_count":60,` +
	`"turns_per_session":3,"shared_prefix_ratio":0.5,` +
	`"num_prefix_groups":4,"arrival_interval_ms":15,"seed":3,`

// TestPolicies: every mode of package policies runs with one pool, with two and with faults, and twice alike.
func TestPolicies(t *testing.T) {
	spread := map[string]bool{}
	for _, name := range router.ModeNames() {
		mode, _ := router.FindMode(name)
		if mode.Settings == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			head := sessionRun + `"router_mode":"` + name + `",`
			for what, rest := range map[string]string{
				"one pool": `"num_workers":4}`,
				"two pools": `"num_prefill_workers":3,"num_decode_workers":2,` +
					`"prefill_engine_args":"{\"worker_type\":\"prefill\"}","decode_engine_args":"{\"worker_type\":\"decode\"}"}`,
				"faults": `"num_workers":4,"migration_limit":2,"faults":"[{\"kind\":\"crash\",\"at_ms\":300,` +
					`\"target\":\"worker:1\",\"duration_ms\":200}]"}`,
				"view": `"num_workers":4,"router_config":"{\"metrics_interval_ms\":100,\"router_replicas\":2}"}`,
			} {
				if what == "view" && mode.UsesEvents {
					rest = strings.Replace(rest, `,\"router_replicas\":2`, "", 1)
				}
				first, _ := run(t, head+rest).Ints("decode_worker_idx")
				again, _ := run(t, head+rest).Ints("decode_worker_idx")
				if len(first) != 180 || !slices.Equal(first, again) {
					t.Errorf("%s: %d requests, twice alike: %v", what, len(first), slices.Equal(first, again))
				}
				if what == "one pool" {
					spread[fmt.Sprint(first)] = true
				}
			}
		})
	}
	if len(spread) < 10 { // some modes may agree on a small run, but not all
		t.Errorf("%d different runs", len(spread))
	}
}

// TestSessionsStay: with sessions as keys every turn of a session is on the same worker.
func TestSessionsStay(t *testing.T) {
	for _, mode := range []string{"consistent_hash", "sticky_least_loaded", "manual"} {
		result := run(t, sessionRun+`"num_workers":4,"router_mode":"`+mode+`"}`)
		workers, _ := result.Ints("decode_worker_idx")
		sessions, _ := result.Strings("session_id")
		homes := map[string]int64{}
		for i, session := range sessions {
			if home, known := homes[session]; known && home != workers[i] {
				t.Errorf("%s: session %s is on workers %d and %d", mode, session, home, workers[i])
			}
			homes[session] = workers[i]
		}
		if len(homes) != 60 {
			t.Errorf("%s: %d sessions", mode, len(homes))
		}
	}
}

// TestPolicySettings: settings have an effect, those of other modes and options of the KV router are refused.
func TestPolicySettings(t *testing.T) {
	const head = sessionRun + `"num_workers":4,"router_mode":"sglang_cache_aware"`
	never, _ := run(t, head+`,"router_config":"{\"cache_threshold\":1}"}`).Ints("decode_worker_idx")
	always, _ := run(t, head+`}`).Ints("decode_worker_idx")
	if slices.Equal(never, always) {
		t.Error("cache_threshold has no effect")
	}
	for _, test := range []struct{ rest, want string }{
		{`,"router_config":"{\"assignment_mode\":\"random\"}"}`,
			"router_config: assignment_mode: not a setting of router_mode sglang_cache_aware, but of manual"},
		{`,"router_config":"{\"router_temperature\":1}"}`,
			"router_config: router_temperature: not a setting of router_mode sglang_cache_aware, but of kv_router"},
		{`,"router_config":"{\"cache_threshold\":2}"}`,
			"router_config: cache_threshold: got 2, want a finite number from 0 to 1"},
		{`,"router_log":"/nowhere/log.jsonl"}`, "router_log: got "},
		{`,"router_config":"{\"balance_rel_threshold\":\"a lot\"}"}`,
			`router_config: balance_rel_threshold: got "a lot", want a finite number >= 1`},
	} {
		if _, err := job.Run(head+test.rest, &job.Monitor{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.rest, err, test.want)
		}
	}
}
