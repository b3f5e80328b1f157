package router

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/strictjson"
)

var defaults = Config{
	OverlapCredit: 1, HostCredit: 0.75, PrefillLoadScale: 1,
	TrackActiveBlocks: true, AssumeKVReuse: true, TrackPrefillTokens: true,
	Queueing: true, QueueThreshold: 16, Replicas: 1,
}

func TestParseConfig(t *testing.T) {
	tests := []struct {
		in     string
		change func(*Config)
	}{
		{`{}`, func(*Config) {}},
		{`{"overlap_score_weight": null, "router_policy_config": null, "router_predicted_ttl_secs": null,
			"router_snapshot_threshold": null,
			"router_seed": null, "router_max_tree_size": null}`, func(*Config) {}},
		{`{"overlap_score_credit": 0, "overlap_score_credit_decay": 2, "prefill_load_scale": 3, "router_temperature": 1e-3}`,
			func(c *Config) {
				c.OverlapCredit, c.OverlapCreditDecay, c.PrefillLoadScale, c.Temperature = 0, 2, 3, 1e-3
			}},
		{`{"router_track_active_blocks": false, "router_assume_kv_reuse": false, "router_track_prefill_tokens": false}`,
			func(c *Config) {
				c.TrackActiveBlocks, c.AssumeKVReuse, c.TrackPrefillTokens = false, false, false
			}},
		{`{"router_queue_threshold": 0, "router_queue_policy": "lcfs"}`,
			func(c *Config) { c.QueueThreshold, c.QueuePolicy = 0, LCFS }},
		{`{"router_queue_threshold": null, "router_queue_policy": "wspt"}`, func(c *Config) {
			c.Queueing, c.QueueThreshold, c.QueuePolicy = false, 0, WSPT
		}},
		{`{"router_seed": 18446744073709551615}`, func(c *Config) { c.Seed, c.Seeded = math.MaxUint64, true }},
		{`{"router_seed": 0}`, func(c *Config) { c.Seeded = true }},
		{`{"host_cache_hit_weight": 0.5, "shared_cache_multiplier": 0.25}`,
			func(c *Config) { c.HostCredit, c.SharedCredit = 0.5, 0.25 }},
	}
	for _, test := range tests {
		want := defaults
		test.change(&want)
		got, warnings, err := ParseConfig(test.in)
		if err != nil || got != want || warnings != nil {
			t.Errorf("%s:\ngot  %+v, warnings %q, error %v\nwant %+v", test.in, got, warnings, err, want)
		}
	}
	if DefaultConfig() != defaults {
		t.Errorf("DefaultConfig() is %+v", DefaultConfig())
	}
}

func TestStages(t *testing.T) {
	want := defaults
	want.TrackActiveBlocks = false
	if got := defaults.PrefillStage(); got != want {
		t.Errorf("prefill: got %+v, want %+v", got, want)
	}
	want = defaults
	want.OverlapCredit, want.AssumeKVReuse, want.TrackPrefillTokens = 0, false, false
	if got := defaults.DecodeStage(); got != want {
		t.Errorf("decode: got %+v, want %+v", got, want)
	}
}

// TestWeight uses the old name of prefill_load_scale. It wins over the new one, and 0 takes the credit away as well.
func TestWeight(t *testing.T) {
	for in, want := range map[string][2]float64{
		`{"overlap_score_weight": 2.5}`: {2.5, 1},
		`{"overlap_score_weight": 2.5, "prefill_load_scale": 7, "overlap_score_credit": 0.5}`: {2.5, 0.5},
		`{"overlap_score_weight": 0, "prefill_load_scale": 7, "overlap_score_credit": 0.5}`:   {0, 0},
		`{"overlap_score_weight": 0.0}`: {0, 0},
		`{"overlap_score_weight": 1, "overlap_score_credit": 0.25, "overlap_score_credit_decay": 0}`: {1, 0.25},
	} {
		c, warnings, err := ParseConfig(in)
		if err != nil || [2]float64{c.PrefillLoadScale, c.OverlapCredit} != want {
			t.Errorf("%s: got %+v, error %v", in, c, err)
		}
		if !slices.Equal(warnings, []string{"router_config: overlap_score_weight is deprecated, use " +
			"prefill_load_scale"}) {
			t.Errorf("%s: warnings %q", in, warnings)
		}
	}
}

func TestConfigWarnings(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{`{"use_kv_events": false}`, []string{"router_config: use_kv_events has no effect on offline replay"}},
		{`{"use_kv_events": true, "router_event_threads": 4, "router_ttl_secs": 120, "shared_cache_type": "none"}`,
			nil},
		{`{"shared_cache_type": "hicache", "shared_cache_multiplier": 1, "router_replica_sync": true,
			"router_track_output_blocks": true,
			"router_event_threads": 1, "host_cache_hit_weight": 0, "router_predicted_ttl_secs": 0}`,
			[]string{"router_config: router_replica_sync, router_track_output_blocks, router_event_threads, " +
				"shared_cache_type, router_predicted_ttl_secs have no effect on offline replay"}},
		{`{"durable_kv_events": true, "serve_indexer": true, "router_max_tree_size": 1048576}`, []string{
			"router_config: durable_kv_events is deprecated and has no effect on offline replay",
			"router_config: serve_indexer has no effect on offline replay",
			"router_config: router_max_tree_size is deprecated and without effect"}},
		{`{"router_prune_target_ratio": 0.8, "router_enable_cache_control": false}`,
			[]string{"router_config: router_prune_target_ratio, router_enable_cache_control are deprecated and " +
				"without effect"}},
	}
	for _, test := range tests {
		_, warnings, err := ParseConfig(test.in)
		if err != nil || !slices.Equal(warnings, test.want) {
			t.Errorf("%s:\ngot  %q, error %v\nwant %q", test.in, warnings, err, test.want)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	tests := []struct{ in, want string }{
		{`[]`, `got [], want a JSON object`},
		{`{"temperature": 1}`, `unknown field "temperature", want one of 35, such as router_temperature, ` +
			`router_seed, serve_indexer`},
		{`{"router_temp": 1}`, `unknown field "router_temp", did you mean "router_temperature"?`},
		{`{"router_temperatur": 1}`, `unknown field "router_temperatur", did you mean "router_temperature"?`},
		{`{"overlap_score_credits": 1}`, `unknown field "overlap_score_credits", did you mean "overlap_score_credit"?`},
		{`{"router_temperature": null}`, `router_temperature: got null, want a finite number >= 0`},
		{`{"router_temperature": -0.1}`, `router_temperature: got -0.1, want a finite number >= 0`},
		{`{"use_kv_events": 1}`, `use_kv_events: got 1, want true or false`},
		{`{"overlap_score_credit": 1.5}`,
			`overlap_score_credit: got 1.5, want a finite number from 0 to 1 (use prefill_load_scale for more weight)`},
		{`{"overlap_score_credit": -1, "overlap_score_weight": -1}`,
			`overlap_score_weight: got -1, want a finite number >= 0; overlap_score_credit: got -1, ` +
				`want a finite number from 0 to 1`},
		{`{"overlap_score_credit_decay": -1}`, `overlap_score_credit_decay: got -1, want a finite number >= 0`},
		{`{"prefill_load_scale": "1"}`, `prefill_load_scale: got "1", want a finite number >= 0`},
		{`{"router_queue_threshold": -1}`, `router_queue_threshold: got -1, want a finite number >= 0`},
		{`{"router_queue_policy": "FCFS"}`,
			`router_queue_policy: got "FCFS", want one of fcfs, lcfs, wspt, priority, edf, wfq`},
		{`{"router_prefill_load_model": "AIC"}`, `router_prefill_load_model: got "AIC", want one of none, aic, ais`},
		{`{"router_event_threads": 0}`, `router_event_threads: got 0, want an integer from 1 to 4294967295`},
		{`{"router_snapshot_threshold": 0}`, `router_snapshot_threshold: got 0, want an integer from 1 to 4294967295`},
		{`{"host_cache_hit_weight": 2}`, `host_cache_hit_weight: got 2, want a finite number from 0 to 1`},
		{`{"router_seed": -1}`, `router_seed: got -1, want an integer from 0 to 18446744073709551615`},
		{`{"durable_kv_events": true, "use_kv_events": false}`,
			`durable_kv_events: got true, want use_kv_events true as well`},
		{`{"router_track_output_blocks": true, "router_track_active_blocks": false}`,
			`router_track_output_blocks: got true, want router_track_active_blocks true as well`},
		{`{"router_predicted_ttl_secs": 0, "use_kv_events": false}`,
			`router_predicted_ttl_secs: got 0, want use_kv_events true as well`},
		{`{"serve_indexer": true, "use_remote_indexer": true}`,
			`serve_indexer: got true, want use_remote_indexer false`},
		{`{"serve_indexer": true, "overlap_score_credit": 0}`,
			`serve_indexer: got true, want an overlap_score_credit above 0`},
		{`{"serve_indexer": true, "overlap_score_weight": 0}`,
			`serve_indexer: got true, want an overlap_score_credit above 0`},
		{`{"router_prefill_load_model": "aic", "router_track_prefill_tokens": false}`,
			`router_prefill_load_model: got "aic", want router_track_prefill_tokens true as well`},
		{`{"router_prefill_load_model": "aic", "router_policy_config": "p.yaml"}`,
			`router_policy_config: "p.yaml" is not built yet (router policy files)`},
	}
	for _, test := range tests {
		c, warnings, err := ParseConfig(test.in)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s:\ngot  %v\nwant %s", test.in, err, test.want)
		}
		if c != (Config{}) || warnings != nil {
			t.Errorf("%s: results beside the error", test.in)
		}
	}
	var notBuilt *strictjson.NotBuiltError
	if _, _, err := ParseConfig(`{"router_policy_config": "p.yaml"}`); !errors.As(err, &notBuilt) {
		t.Errorf("policy file: got %v", err)
	}
}

// TestEveryFieldIsTreated sets each field alone to a value other than its default: what is neither applied nor refused
// must be named in a warning.
func TestEveryFieldIsTreated(t *testing.T) {
	for _, f := range table {
		value := "1"
		switch typ := f.Type.(type) {
		case strictjson.Bool:
			value = "true"
			if f.Default == true {
				value = "false"
			}
		case strictjson.Number:
			if f.Default == 1.0 {
				value = "0.5"
			}
		case strictjson.Integer:
			if f.Default == 1 {
				value = "2"
			}
		case strictjson.Text:
			value = `"x"`
		case strictjson.Enum:
			value = `"` + typ.Choices[1] + `"`
		}
		in := `{"` + f.Name + `": ` + value + `}`
		if f.Name == "router_tenant_weights" {
			in = `{"router_queue_policy": "wfq", "router_tenant_weights": "x=2"}`
		}
		c, warnings, err := ParseConfig(in)
		named := strings.Contains(strings.Join(warnings, "\n"), f.Name)
		switch {
		case f.use == notBuilt && err == nil,
			f.use == applied && f.Name != "overlap_score_weight" && (err != nil || c == defaults || named),
			(f.use == inert || f.use == retired) && (err != nil || c != defaults || !named):
			t.Errorf("%s: got %+v, warnings %q, error %v", in, c, warnings, err)
		}
	}
}

func TestParseQueuePolicy(t *testing.T) {
	for _, want := range []QueuePolicy{FCFS, LCFS, WSPT, ByPriority, EDF, WFQ} {
		if got, ok := ParseQueuePolicy(want.String()); !ok || got != want {
			t.Errorf("%v: got %v, %v", want, got, ok)
		}
	}
	if _, ok := ParseQueuePolicy("Fcfs"); ok {
		t.Error("accepted Fcfs")
	}
}

// FuzzParseConfig looks for panics, for configurations that break their promises, for texts of more than one line, and
// for configurations that do not survive being written down and read again.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"router_seed":18446744073709551615}`,
		`{"router_queue_threshold":null,"router_queue_policy":"wspt"}`,
		`{"overlap_score_weight":0,"overlap_score_credit":1e-400}`, `{"overlap_score_credit":1e400}`,
		`{"router_temperature":-0.0}`,
		`{"durable_kv_events":true}`, `{"router_max_tree_size":1,"use_kv_events":false}`,
		`{"router_policy_config":"\u2028\n"}`,
		"{\"a\u2028b\":1}", `{"router_seed":1,"router_seed":2}`, `{"shared_cache_type":"hicache","serve_indexer":true}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, warnings, err := ParseConfig(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		if strings.ContainsAny(strings.Join(warnings, ""), "\n\r") {
			t.Errorf("warning of several lines: %q", warnings)
		}
		filled, err := Filled(text)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := json.Marshal(filled)
		if err != nil {
			t.Fatal(err)
		}
		if again, _, err := ParseConfig(string(whole)); err != nil || again != c {
			t.Errorf("got %+v, filled in %s, read again %+v, error %v", c, whole, again, err)
		}
		for _, x := range []float64{c.OverlapCredit, c.OverlapCreditDecay, c.PrefillLoadScale, c.Temperature,
			c.QueueThreshold} {
			if !(x >= 0) || math.IsInf(x, 1) {
				t.Errorf("accepted %+v", c)
			}
		}
		if c.OverlapCredit > 1 || c.QueuePolicy > WFQ || !c.Queueing && c.QueueThreshold != 0 ||
			!c.Seeded && c.Seed != 0 {
			t.Errorf("accepted %+v", c)
		}
		again, warnings, err := ParseConfig(writeConfig(t, c))
		if err != nil || warnings != nil || again != c {
			t.Errorf("got %+v, read again %+v, warnings %q, error %v", c, again, warnings, err)
		}
	})
}

// writeConfig spells out every member.
func writeConfig(t *testing.T, c Config) string {
	object := map[string]any{
		"overlap_score_credit": c.OverlapCredit, "overlap_score_credit_decay": c.OverlapCreditDecay,
		"prefill_load_scale": c.PrefillLoadScale, "router_temperature": c.Temperature,
		"router_track_active_blocks": c.TrackActiveBlocks, "router_assume_kv_reuse": c.AssumeKVReuse,
		"router_track_prefill_tokens": c.TrackPrefillTokens, "router_queue_policy": c.QueuePolicy.String(),
		"router_queue_threshold": c.QueueThreshold,
	}
	if c.TenantWeights != "" {
		object["router_tenant_weights"] = c.TenantWeights
	}
	if !c.Queueing {
		object["router_queue_threshold"] = nil
	}
	if c.Seeded {
		object["router_seed"] = c.Seed
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
