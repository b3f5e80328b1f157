package card

import (
	"fmt"
	"strings"
	"testing"
)

// TestParse: what is missing has a value, and what no worker can have is refused.
func TestParse(t *testing.T) {
	const text = `{"display_name": "m", "kv_cache_block_size": %d, "runtime_config": {%s}}`
	c, err := Parse(fmt.Appendf(nil, text, 16, ""))
	if r := c.RuntimeConfig; err != nil || c.WorkerType != Aggregated || r.DataParallelSize != 1 ||
		!r.EnableLocalIndexer {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Parse(fmt.Appendf(nil, text, 16,
		`"data_parallel_size": 1024, "data_parallel_start_rank": 7`)); err != nil {
		t.Error(err)
	}
	for broken, says := range map[string]string{
		`"data_parallel_size": 0`:                        "data_parallel_size: got 0, want 1 to 1024",
		`"data_parallel_size": 1000000000000`:            "data_parallel_size: got 1000000000000, want 1 to 1024",
		`"data_parallel_start_rank": -1`:                 "data_parallel_start_rank: got -1",
		`"data_parallel_start_rank": 4294967295`:         "data_parallel_start_rank: got 4294967295",
		`"max_num_batched_tokens": -1`:                   "max_num_batched_tokens: got -1",
		`"max_num_batched_tokens": 99999999999999999999`: "card: ",
	} {
		if _, err := Parse(fmt.Appendf(nil, text, 16, broken)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", broken, err, says)
		}
	}
	if _, err := Parse(fmt.Appendf(nil, text, 0, "")); err == nil ||
		!strings.Contains(err.Error(), "kv_cache_block_size: got 0") {
		t.Errorf("got %v", err)
	}
}
