package replay

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// toldRouter notes when it learns of caches, beside a KV router that decides.
type toldRouter struct {
	*router.KV
	heard *int
}

func (r toldRouter) Apply(worker int, events []kvcache.Event) {
	*r.heard += len(events)
	r.KV.Apply(worker, events)
}

// TestKVEventLag has three equal prompts arrive, of which the router learns the blocks some time after the first has
// stored them.
func TestKVEventLag(t *testing.T) {
	const prompt = `"input_length":64,"output_length":2,"hash_ids":[1,2,3,4]}`
	rows := `{"timestamp":0,` + prompt + "\n" + `{"timestamp":500,` + prompt + "\n" + `{"timestamp":1500,` + prompt +
		"\n"
	for _, c := range []struct {
		lagMs float64
		want  [3]int // blocks that the router counts on
	}{
		{0, [3]int{0, 4, 4}},
		{400, [3]int{0, 4, 4}},
		{1000, [3]int{0, 0, 4}},
		{1e9, [3]int{0, 0, 0}},
	} {
		cfg := config(t, `{"block_size":16}`, rows, 2, 0)
		var log []int
		heard := 0
		cfg.Router = func(workers int) router.Router {
			return toldRouter{router.New(router.Options{
				Config: router.DefaultConfig(), Workers: workers, BlockSize: 16, MaxNumBatchedTokens: 8192,
				Rand: rand.New(rand.NewPCG(1, 1)),
				Log:  func(d router.Decision) { log = append(log, d.Candidates[d.Chosen].OverlapBlocks) },
			}), &heard}
		}
		cfg.KVEventLagMs = c.lagMs
		if _, err := Run(cfg); err != nil {
			t.Fatal(err)
		}
		if len(log) != 3 || [3]int(log) != c.want {
			t.Errorf("lag %v: the router counted on %v blocks, want %v", c.lagMs, log, c.want)
		}
		if (heard == 0) != (c.lagMs == 1e9) {
			t.Errorf("lag %v: the router heard of %d changes", c.lagMs, heard)
		}
	}
}
