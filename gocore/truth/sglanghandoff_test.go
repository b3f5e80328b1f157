package truth

import "testing"

// TestRecordedSGLangHandoffs compares every request, from when its decode worker has room to its last token, and the
// first passes of all workers, with what SGLang's own schedulers did.
func TestRecordedSGLangHandoffs(t *testing.T) {
	cases := 0
	readCases(t, "../../tests/truth/sglang-handoff.jsonl.gz", func(c *SGLangHandoffCase) {
		cases++
		got, err := c.Run("sglang-0.5")
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
		} else if difference := c.Difference(got); difference != "" {
			t.Errorf("%s: %s", c.ID, difference)
		}
	})
	if cases != 44 {
		t.Errorf("got %d cases, want 44", cases)
	}
}
