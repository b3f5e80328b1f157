package replay

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
	"dynosim/gocore/router"
)

// tieredConfig draws a run of workers with memory below their caches: of their own, of their nodes or of all, and
// storage behind it.
func (p faulty) tieredConfig(t testing.TB) Config {
	t.Helper()
	d := drawnRun{seed: p.seed, stepwise: p.stepwise, log: &strings.Builder{}}
	rng := rand.New(rand.NewPCG(p.seed, 24))
	block, sglang := 1<<rng.IntN(5), rng.IntN(3) == 0
	host := fmt.Sprintf(`"num_blocks":%d,"load_ms_per_block":%g,"store_ms_per_block":%g,"latency_ms":%d`,
		4+rng.IntN(100), rng.Float64(), 4*rng.Float64(), rng.IntN(3))
	add := func(oneIn int, more string) bool {
		if rng.IntN(oneIn) > 0 {
			return false
		}
		host += "," + more
		return true
	}
	engineType := `"scheduler":"vllm"`
	if sglang {
		engineType = `"engine_type":"sglang","scheduler":"sglang"`
		add(2, `"write_policy":"write_back"`)
	} else {
		add(3, `"blocks_per_chunk":2`)
		add(3, `"eviction_policy":"arc"`)
		if add(2, fmt.Sprintf(`"shared":true,"shared_ms_per_block":%g`, 2*rng.Float64())) {
			add(2, `"shared_workers":2`)
		}
	}
	add(2, fmt.Sprintf(`"storage_blocks":%d,"storage_read_ms_per_block":%g,"storage_write_ms_per_block":%g,`+
		`"storage_shared_ms_per_block":%d,"storage_prefetch_threshold":%d,"storage_prefetch_policy":%q`,
		1+rng.IntN(100), rng.Float64(), 2*rng.Float64(), rng.IntN(2), 1+rng.IntN(2*block),
		[]string{"best_effort", "wait_complete", "timeout"}[rng.IntN(3)]))
	args := fmt.Sprintf(`{%s,"block_size":%d,"num_gpu_blocks":%d,"max_num_seqs":%d,"startup_time":%g,"host_cache":{%s}}`,
		engineType, block, 20+rng.IntN(60), 1+rng.IntN(6), []float64{0, 0.03, 0.2}[rng.IntN(3)], host)
	cfg := config(t, args, d.rows(rng, block), 2+rng.IntN(4), []int{0, 0, 4}[rng.IntN(3)])
	if rng.IntN(3) > 0 {
		routes := router.DefaultConfig()
		routes.SharedCredit = rng.Float64()
		cfg.Router = kvMode.Factory(&router.Options{
			Config: routes, BlockSize: block, MaxNumBatchedTokens: cfg.Args.MaxNumBatchedTokens, LowerTiers: true,
			NodeWorkers: cfg.Args.HostCache.SharedWorkers, Rand: rand.New(rand.NewPCG(p.seed, 3)),
		})
		cfg.KVEventLagMs = []float64{0, 0, 7}[rng.IntN(3)]
	}
	commons := &engine.Commons{}
	cfg.Setup = func(engine.Role, int) engine.Setup {
		return engine.Setup{Stepwise: p.stepwise, Commons: commons}
	}
	cfg.Faults = drawnFaults(t, rng, cfg)
	if rng.IntN(4) == 0 {
		cfg.Planner = &scripted{rng: rand.New(rand.NewPCG(p.seed, 22)), pools: 1, rest: 1 + rng.IntN(30)}
	}
	return cfg
}

// loseAll loses all workers that are left: what was on their hosts is lost, too.
func (f *faultRun) loseAll() {
	for _, s := range f.pools {
		for i := range s.Len() {
			if s.Worker(i).Engine != nil {
				f.collector.Copied(s.Discard(i))
			}
		}
	}
}

// checkTiers: what was stored has been evicted, is lost, or is in what workers share.
func (p faulty) checkTiers(t *testing.T, text string) (lost int) {
	t.Helper()
	get := func(key string) int {
		found := regexp.MustCompile(`"` + key + `":(\d+)`).FindStringSubmatch(text)
		if found == nil {
			return 0
		}
		n, _ := strconv.Atoi(found[1])
		return n
	}
	cfg := p.config(t)
	host, storage := cfg.Args.HostCache, cfg.Args.HostCache.Storage.Blocks
	written := get("storage_written_blocks") - get("storage_evicted_blocks") - get("storage_lost_blocks")
	if written < 0 || written > storage {
		t.Errorf("seed %d: %d blocks of %d are in the storage", p.seed, written, storage)
	}
	lost = get("host_lost_blocks")
	left, room := get("host_stored_blocks")-get("host_evicted_blocks")-lost, 0
	if host.Shared {
		room = host.Blocks
		if host.SharedWorkers > 0 {
			room *= 100 // nodes
		}
	}
	drains := cfg.Planner != nil || slices.ContainsFunc(cfg.Faults.Script, func(f faults.Fault) bool { return f.Drain })
	if storage == 0 && (left < 0 || left > room && !drains) {
		t.Errorf("seed %d: %d blocks of %d are in what workers share", p.seed, left, room)
	}
	return lost + get("storage_lost_blocks")
}

// lastDigits are those of times that may differ with the instants at which copies that share a link are looked at.
var lastDigits = regexp.MustCompile(`(\.\d{9})\d+`)

// TestFaultyTiers does what TestFaultyRuns does for workers with memory below their caches.
func TestFaultyTiers(t *testing.T) {
	lost, failed := 0, 0
	for n := range *faultyRuns {
		p := faulty{seed: uint64(*faultyFrom + n), tiers: true}
		fast, _, err := p.run(t)
		// A worker without requests submits its last copies with its next pass, and only then they can be written to
		// storage, at an instant that depends on the passes of others: so runs with it are only repeated.
		p.stepwise = p.config(t).Args.HostCache.Storage.Blocks == 0
		slow, _, _ := p.run(t)
		fast, slow = lastDigits.ReplaceAllString(fast, "$1"), lastDigits.ReplaceAllString(slow, "$1")
		if fast != slow {
			t.Fatalf("seed %d: %s", p.seed, firstDifference(fast, slow))
		}
		if err != nil {
			failed++
			continue
		}
		if lost += p.checkTiers(t, fast); t.Failed() {
			return
		}
	}
	if lost == 0 || failed*10 > *faultyRuns {
		t.Errorf("%d runs failed, %d blocks were lost", failed, lost)
	}
}
