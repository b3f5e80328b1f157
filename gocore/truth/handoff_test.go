package truth

import "testing"

// TestRecordedHandoffs compares every request, from its prefill worker to its last token, and the first passes of all workers, with
// what vLLM's own schedulers did. Both releases do the same.
func TestRecordedHandoffs(t *testing.T) {
	cases := 0
	readCases(t, "../../tests/truth/handoff.jsonl.gz", func(c *HandoffCase) {
		cases++
		for _, release := range []string{"vllm-0.28", "vllm-0.33"} {
			got, err := c.Run(release)
			if err != nil {
				t.Errorf("%s by %s: %v", c.ID, release, err)
			} else if difference := c.Difference(got); difference != "" {
				t.Errorf("%s by %s: %s", c.ID, release, difference)
			}
		}
	})
	if cases != 50 {
		t.Errorf("got %d cases, want 50", cases)
	}
}
