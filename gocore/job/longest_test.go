package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestLongestRequest: under all rules outputs end at max_model_len, and prompts that reach it are rejected, as in
// Dynamo 1.6.1.
func TestLongestRequest(t *testing.T) {
	for _, rules := range []string{
		``, `,\"engine_type\":\"trtllm\"`, `,\"engine_type\":\"sglang\"`, `,\"scheduler\":\"vllm\"`,
		`,\"engine_type\":\"sglang\",\"scheduler\":\"sglang\"`,
	} {
		run := func(limit int) *Result {
			return mustRun(t, fmt.Sprintf(`{"kind":"synthetic","input_tokens":256,"output_tokens":10,"request_count":5,`+
				`"extra_engine_args":"{\"max_model_len\":%d%s}"}`, limit, rules))
		}
		for limit, want := range map[int][3]int{1000: {5, 0, 50}, 260: {5, 0, 20}, 257: {5, 0, 5}, 256: {0, 5, 0}} {
			r := run(limit)
			var report struct {
				Completed int `json:"completed_requests"`
				Rejected  int `json:"rejected_requests"`
				Tokens    int `json:"total_output_tokens"`
			}
			if err := json.Unmarshal([]byte(r.JSON()), &struct{ Report any }{&report}); err != nil {
				t.Fatal(err)
			}
			got := [3]int{report.Completed, report.Rejected, report.Tokens}
			if got != want {
				t.Errorf("%s max_model_len %d: completed, rejected, tokens %v, want %v", rules, limit, got, want)
			}
			said := strings.Join(r.warnings, "\n")
			switch {
			case limit == 260 && !strings.Contains(said,
				"5 of 5 requests ask for more tokens than max_model_len 260 leaves, and get fewer: request 0: 4 of 10 tokens"),
				limit == 256 && !strings.Contains(said,
					"prompt of 256 tokens leaves no room for output within max_model_len 256"):
				t.Errorf("%s max_model_len %d: warnings %q", rules, limit, said)
			}
		}
	}
}
