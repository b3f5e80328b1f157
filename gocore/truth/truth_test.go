package truth

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// readCases hands the recorded cases of a file to see.
func readCases(t *testing.T, path string, see func(*Case)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bufio.NewReader(unzipped))
	for {
		var c Case
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		see(&c)
	}
}

// TestRecordedSGLang compares every request, and the first passes, with what SGLang's own scheduler did. How it mixes prompts
// with decoding requests in a batch, an option that is off by default, is recorded but not simulated.
func TestRecordedSGLang(t *testing.T) {
	cases := 0
	readCases(t, "../../tests/truth/sglang.jsonl.gz", func(c *Case) {
		if c.SGLang["mixed_chunk"] == true {
			return
		}
		cases++
		if err := check(c, "sglang-0.5"); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
	})
	if cases != 87 {
		t.Errorf("got %d cases, want 87", cases)
	}
}

// TestRecordedIntervals compares runs in which SGLang looked for new requests every few batches only: random workloads of
// tests/truth in which that admits requests at other times.
func TestRecordedIntervals(t *testing.T) {
	cases := 0
	readCases(t, "../../tests/truth/sglang-intervals.jsonl.gz", func(c *Case) {
		cases++
		if err := check(c, "sglang-0.5"); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		c.Engine["sglang"].(map[string]any)["scheduler_recv_interval"] = 1
		if check(c, "sglang-0.5") == nil {
			t.Errorf("%s: no difference without the interval", c.ID)
		}
	})
	if cases != 14 {
		t.Errorf("got %d cases, want 14", cases)
	}
}

// TestRecordedVLLM compares every request, and the first passes, with what vLLM's own scheduler did.
func TestRecordedVLLM(t *testing.T) {
	cases := 0
	readCases(t, "../../tests/truth/vllm.jsonl.gz", func(c *Case) {
		cases++
		if err := check(c, "vllm-0.28"); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
	})
	if cases != 120 {
		t.Errorf("got %d cases, want 120", cases)
	}
}

func check(c *Case, scheduler string) error {
	args, err := c.Args(map[string]any{"scheduler": scheduler})
	if err != nil {
		return err
	}
	got, err := Run(c, args)
	if err != nil {
		return err
	}
	if difference := c.Difference(got); difference != "" {
		return fmt.Errorf("%s", difference)
	}
	return nil
}
