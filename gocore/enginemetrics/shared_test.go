package enginemetrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
)

// One process may have engines of several types, which share the histogram that has no type in its name.
func TestEnginesOfSeveralTypes(t *testing.T) {
	registry := prometheus.NewRegistry()
	var delays []prometheus.Histogram
	for _, text := range []string{`{}`, `{"engine_type": "sglang"}`} {
		args, _, err := engineargs.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		delays = append(delays, New(registry, args, false).delay)
	}
	if delays[0] != delays[1] {
		t.Error("each type has a histogram of delays of its own")
	}
}

// TestDrafts: what is counted of speculative decoding adds up from the passes.
func TestDrafts(t *testing.T) {
	args, _, err := engineargs.Parse(`{"aic_nextn": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	load, _ := New(registry, args, true).Rank("m", "0", 0, &args)
	var tokens TokenCounts
	for _, pass := range []engine.Pass{
		{Tokens: 3}, // of three requests
		{Tokens: 6, Bursts: []engine.Burst{{ID: 1, Tokens: 3}, {ID: 2, Tokens: 2}}}, // 3, 2 and 1
	} {
		tokens.Drafts += pass.CountDrafts(&tokens.Accepted)
		tokens.Generated += pass.Tokens
		load.LoadChanged(Load{Tokens: tokens})
		load.LoadChanged(Load{Tokens: tokens}) // nothing has happened since
	}
	const rank = `engine="0",model_name="m",`
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, want := range []string{
		`iteration_tokens_total_bucket{` + rank + `worker_id="0",le="1"} 0`,
		`iteration_tokens_total_bucket{` + rank + `worker_id="0",le="8"} 2`,
		`iteration_tokens_total_sum{` + rank + `worker_id="0"} 9`,
		`spec_decode_num_drafts_total{` + rank + `worker_id="0"} 6`,
		`spec_decode_num_draft_tokens_total{` + rank + `worker_id="0"} 12`,
		`spec_decode_num_accepted_tokens_total{` + rank + `worker_id="0"} 3`,
		`spec_decode_num_accepted_tokens_per_pos_total{` + rank + `position="0",worker_id="0"} 2`,
		`spec_decode_num_accepted_tokens_per_pos_total{` + rank + `position="1",worker_id="0"} 1`,
	} {
		if !strings.Contains(page.Body.String(), "\nvllm:"+want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}
