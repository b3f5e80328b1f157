package job

import (
	"fmt"
	"testing"
)

// BenchmarkSweep runs one of many runs of one trace, on one to eight workers: read by each run, and shared.
func BenchmarkSweep(b *testing.B) {
	const path = "../../examples/traces/conversation_400.jsonl.gz"
	trace, err := LoadTrace(fmt.Sprintf(`{"trace_files":[%q]}`, path), &Monitor{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		trace *Trace
	}{{"read", nil}, {"shared", trace}} {
		b.Run(c.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				config := fmt.Sprintf(`{"kind":"trace","trace_files":[%q],"num_workers":%d}`, path, 1+i%8)
				r, err := Run(config, &Monitor{Trace: c.trace})
				if err != nil {
					b.Fatal(err)
				}
				_ = r.JSON()
			}
		})
	}
}
