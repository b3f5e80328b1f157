package job

import (
	"slices"
	"testing"
)

// TestCutOutputs: all requests of a run are named on one line, up to five of them in full.
func TestCutOutputs(t *testing.T) {
	const engine = `"extra_engine_args":"{\"engine_type\":\"trtllm\",\"block_size\":4,\"num_gpu_blocks\":2}"`
	const run = `{"kind":"synthetic","input_tokens":5,"request_count":7,` + engine
	result := mustRun(t, run+`,"output_tokens":9}`)
	want := "7 of 7 requests ask for more tokens than the KV pool of 2 blocks of 4 has room for, and get fewer: " +
		"request 0: 3 of 9 tokens; request 1: 3 of 9 tokens; request 2: 3 of 9 tokens; request 3: 3 of 9 tokens; " +
		"request 4: 3 of 9 tokens; and 2 more"
	if !slices.Equal(result.warnings, []string{want}) {
		t.Errorf("got %q", result.warnings)
	}
	if got := mustRun(t, run+`,"output_tokens":3}`).warnings; len(got) != 0 {
		t.Errorf("outputs that fit: got %q", got)
	}
}
