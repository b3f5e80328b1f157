package replay

import (
	"math"
	"strings"
	"testing"

	"dynosim/gocore/faults"
)

// TestFaultsThatNeverEnd: a script that draws faults all the time ends the run with one line, however long its trace
// is.
func TestFaultsThatNeverEnd(t *testing.T) {
	cfg := config(t, `{"block_size":64,"num_gpu_blocks":1024}`, requests([3]int{0, 64, 4}, [3]int{36_000_000, 64, 4}),
		3, 0)
	script, err := faults.Parse(`{"kind":"restart","mtbf_s":0.001,"target":"worker:*"}`, faults.Layout{Decode: 3})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Faults = &FaultConfig{Script: script, Seed: 1, ClientTimeoutMs: math.Inf(1), HedgeAfterMs: math.Inf(1)}
	_, err = Run(cfg)
	const want = "faults[0]: mtbf_s: got 0.001, want faults that are less frequent: 10"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s...", err, want)
	}
}
