package truth

import "testing"

// TestRecordedHandoffs compares every request, from its prefill worker to its last token, and the first passes of all
// workers, with what vLLM's own schedulers did. With synchronous passes and without ranks both releases do the same.
func TestRecordedHandoffs(t *testing.T) {
	for file, want := range map[string]int{"handoff": 50, "handoff-more": 40} {
		cases := 0
		readCases(t, "../../tests/truth/"+file+".jsonl.gz", func(c *HandoffCase) {
			cases++
			releases := []string{c.Scheduler}
			if c.Scheduler == "" {
				releases = []string{"vllm-0.28", "vllm-0.33"}
			}
			for _, release := range releases {
				got, err := c.Run(release)
				if err != nil {
					t.Errorf("%s by %s: %v", c.ID, release, err)
				} else if difference := c.Difference(got); difference != "" {
					t.Errorf("%s by %s: %s", c.ID, release, difference)
				}
			}
		})
		if cases != want {
			t.Errorf("%s: got %d cases, want %d", file, cases, want)
		}
	}
}
