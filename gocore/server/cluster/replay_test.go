package cluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/handoff"
	"dynosim/gocore/replay"
	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

// deployment is the same deployment for a replay and for a cluster.
type deployment struct {
	name              string
	aggregated        string // engine arguments, "" for two pools
	prefill, decode   string
	workers, decoders int
	kv                bool
	config            string // of the router
	lagMs             float64
	everyMs           float64 // a request arrives; 0 for the usual
}

var deployments = []deployment{
	{name: "one worker", aggregated: `{"block_size":16,"num_gpu_blocks":600,"max_num_batched_tokens":512}`, workers: 1},
	{name: "in turn", aggregated: `{"block_size":16,"num_gpu_blocks":300,"max_num_seqs":8}`, workers: 3},
	{name: "kv", aggregated: `{"block_size":16,"num_gpu_blocks":400,"max_num_seqs":16}`, workers: 4, kv: true,
		config: `{}`},
	{name: "kv, queueing", aggregated: `{"block_size":16,"num_gpu_blocks":400,"max_num_seqs":4}`, workers: 2, kv: true,
		config: `{"router_queue_threshold":0.1}`},
	{name: "sglang", aggregated: `{"engine_type":"sglang","block_size":1,"num_gpu_blocks":8000}`, workers: 2, kv: true,
		config: `{}`},
	{name: "trtllm", aggregated: `{"engine_type":"trtllm","block_size":16,"num_gpu_blocks":500}`, workers: 2},
	{
		name: "two pools",
		prefill: `{"worker_type":"prefill","block_size":16,"num_gpu_blocks":600,"kv_bytes_per_token":131072,` +
			`"kv_transfer_bandwidth":10}`,
		decode: `{"worker_type":"decode","block_size":16,"num_gpu_blocks":600}`, workers: 2, decoders: 2,
	},
	{
		name: "two pools, kv",
		prefill: `{"worker_type":"prefill","block_size":16,"num_gpu_blocks":400,"kv_bytes_per_token":131072,` +
			`"kv_transfer_bandwidth":10}`,
		decode: `{"worker_type":"decode","block_size":16,"num_gpu_blocks":300}`, workers: 3, decoders: 2, kv: true,
		config: `{}`,
	},
	{
		name:    "two pools, sglang",
		prefill: `{"engine_type":"sglang","worker_type":"prefill","block_size":1,"num_gpu_blocks":9000}`,
		decode:  `{"engine_type":"sglang","worker_type":"decode","block_size":1,"num_gpu_blocks":9000}`, workers: 2,
		decoders: 2,
	},
	{name: "kv, late", aggregated: `{"block_size":16,"num_gpu_blocks":400,"max_num_seqs":16}`, workers: 4, kv: true,
		config: `{}`, lagMs: 40},
	{name: "vllm", aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":400,"max_num_seqs":16}`,
		workers: 3, kv: true, config: `{}`},
	{name: "vllm, host", everyMs: 90,
		aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":100,"max_num_seqs":8,` + hosted + `}}`, workers: 2},
	{name: "vllm, host, chunks", everyMs: 90,
		aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":100,"max_num_seqs":8,` + hosted +
			`,"blocks_per_chunk":3}}`, workers: 2},
	{
		name: "vllm, host, kv", everyMs: 90, workers: 2, kv: true, config: `{}`, lagMs: 5,
		aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":100,"max_num_seqs":8,` + hosted +
			`,"offload_prompt_only":false}}`,
	},
	{
		name: "sglang, host", everyMs: 90, workers: 2,
		aggregated: `{"engine_type":"sglang","scheduler":"sglang","block_size":16,"num_gpu_blocks":120,"max_num_seqs":8,` +
			hosted + `,"write_policy":"write_back"}}`,
	},
	{
		name: "sglang, host, kv", everyMs: 90, workers: 2, kv: true, config: `{}`, lagMs: 5,
		aggregated: `{"engine_type":"sglang","scheduler":"sglang","block_size":16,"num_gpu_blocks":120,"max_num_seqs":8,` +
			hosted + `}}`,
	},
	{name: "vllm, ranks", aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":200,"max_num_seqs":4,` +
		`"dp_size":4}`, workers: 2},
	{
		name: "vllm, ranks, kv", workers: 2, kv: true, config: `{}`, lagMs: 5,
		aggregated: `{"scheduler":"vllm-0.28","block_size":16,"num_gpu_blocks":200,"max_num_seqs":4,"dp_size":2,` +
			`"async_scheduling":true,"prefill_schedule_interval":2}`,
	},
	{
		name: "vllm, ranks by the router", workers: 2, kv: true, config: `{}`, lagMs: 5,
		aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":100,"max_num_seqs":4,"dp_size":3,` +
			`"dp_routing":"router","async_scheduling":false,` + hosted + `}}`,
	},
	{
		name: "sglang, ranks by the router", workers: 1, kv: true, config: `{"router_queue_threshold":0.5}`,
		aggregated: `{"engine_type":"sglang","scheduler":"sglang","block_size":16,"num_gpu_blocks":200,"dp_size":4,` +
			`"dp_routing":"router"}`,
	},
	{name: "vllm, ranks in turn", aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":200,` +
		`"max_num_seqs":4,"dp_size":4,"dp_routing":"router"}`, workers: 2},
	{
		name: "vllm, windows, kv", workers: 3, kv: true, config: `{}`, lagMs: 5,
		aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":500,"max_num_seqs":16,
			"kv_cache_groups":[{"type":"full"},{"type":"sliding_window","window":100},{"type":"sliding_window","window":100}]}`,
	},
	{
		name: "vllm, linear, kv", workers: 3, kv: true, config: `{}`,
		aggregated: `{"scheduler":"vllm-0.28","block_size":16,"num_gpu_blocks":400,"max_num_seqs":16,` +
			`"kv_cache_groups":[{"type":"full"},{"type":"linear"}]}`,
	},
	{
		name: "vllm, windows, host, kv", everyMs: 90, workers: 2, kv: true, config: `{}`, lagMs: 5,
		aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":160,"max_num_seqs":8,"kv_cache_groups":` +
			`[{"type":"full"},{"type":"sliding_window","window":100}],` + hosted + `}}`,
	},
	{
		name: "vllm, linear, host", everyMs: 90, workers: 2,
		aggregated: `{"scheduler":"vllm","block_size":16,"num_gpu_blocks":160,"max_num_seqs":8,` +
			`"kv_cache_groups":[{"type":"full"},{"type":"linear"}],` + hosted + `}}`,
	},
	{
		name: "two pools, vllm",
		prefill: `{"scheduler":"vllm","worker_type":"prefill","block_size":16,"num_gpu_blocks":600,` +
			`"kv_bytes_per_token":131072,"kv_transfer_bandwidth":10}`,
		decode: `{"scheduler":"vllm","worker_type":"decode","block_size":16,"num_gpu_blocks":300}`, workers: 2,
		decoders: 2,
	},
	{
		name: "two pools, vllm, kv",
		prefill: `{"scheduler":"vllm","worker_type":"prefill","block_size":16,"num_gpu_blocks":300,` +
			`"kv_bytes_per_token":131072,"kv_transfer_bandwidth":2,"request_overhead_us":500}`,
		decode: `{"scheduler":"vllm","worker_type":"decode","block_size":16,"num_gpu_blocks":200}`, workers: 3,
		decoders: 2, kv: true, config: `{"router_queue_threshold":0.5}`, lagMs: 5,
	},
	{
		name: "two pools, vllm, ranks by the routers",
		prefill: `{"scheduler":"vllm","worker_type":"prefill","block_size":16,"num_gpu_blocks":200,"dp_size":2,` +
			`"dp_routing":"router","kv_bytes_per_token":131072,"kv_transfer_bandwidth":2,"request_overhead_us":500}`,
		decode: `{"scheduler":"vllm","worker_type":"decode","block_size":16,"num_gpu_blocks":100,"dp_size":3,` +
			`"dp_routing":"router"}`, workers: 2, decoders: 2, kv: true, config: `{}`, lagMs: 5,
	},
	{
		name: "two pools, sglang's own",
		prefill: `{"engine_type":"sglang","scheduler":"sglang","worker_type":"prefill","block_size":16,` +
			`"num_gpu_blocks":600,"kv_bytes_per_token":131072,"kv_transfer_bandwidth":10}`,
		decode:   `{"engine_type":"sglang","scheduler":"sglang","worker_type":"decode","block_size":16,"num_gpu_blocks":300}`,
		workers:  2,
		decoders: 2,
	},
	{
		name: "two pools, sglang's own, kv",
		prefill: `{"engine_type":"sglang","scheduler":"sglang","worker_type":"prefill","block_size":16,` +
			`"num_gpu_blocks":300,"kv_bytes_per_token":131072,"kv_transfer_bandwidth":2,"request_overhead_us":500}`,
		decode: `{"engine_type":"sglang","scheduler":"sglang","worker_type":"decode","block_size":16,"num_gpu_blocks":200,` +
			`"sglang":{"overlap_schedule":false}}`, workers: 3,
		decoders: 2, kv: true, config: `{"router_queue_threshold":0.5}`, lagMs: 5,
	},
}

// hosted is a tier of host memory that is too small for all prompts, and not for many.
const hosted = `"host_cache":{"num_blocks":500,"load_ms_per_block":0.1,"store_ms_per_block":0.3,"latency_ms":1`

// routers makes the router of a pool; each run gets its own generator.
func (d *deployment) routers(t *testing.T, args engineargs.Args) router.Factory {
	if !d.kv {
		return nil
	}
	config, _, err := router.ParseConfig(d.config)
	if err != nil {
		t.Fatal(err)
	}
	switch args.Role {
	case engine.Prefill:
		config = config.PrefillStage()
	case engine.Decode:
		config = config.DecodeStage()
	}
	return func(workers int) router.Router {
		return router.New(router.Options{
			Config: config, Workers: workers, Ranks: args.Targets(),
			BlockSize: args.BlockSize, MaxNumBatchedTokens: args.MaxNumBatchedTokens,
			Groups: router.Groups{Beside: args.VLLM.Groups.Beside, Run: args.VLLM.Groups.Run(args.BlockSize)},
			Rand:   rand.New(rand.NewPCG(7, 7)), LowerTiers: args.HostCache.Asked(),
		})
	}
}

// pools describes the cluster.
func (d *deployment) pools(t *testing.T) (c Config) {
	c.KVEventLagMs = d.lagMs
	add := func(text string, workers int) {
		args := enginetest.Args(t, text)
		c.Pools = append(c.Pools, Pool{
			Args: args, Workers: workers, Router: d.routers(t, args),
			Setup: func(int) engine.Setup { return engine.Setup{Role: args.Role} },
		})
	}
	if d.aggregated != "" {
		add(d.aggregated, d.workers)
		return c
	}
	add(d.prefill, d.workers)
	add(d.decode, d.decoders)
	a := c.Pools[0].Args.Transfer
	c.Transfer = handoff.Transfer{BytesPerToken: a.BytesPerToken, BandwidthGBs: a.BandwidthGBs}
	return c
}

// replayed runs the workload offline, and returns the times of the first and the last token of each request.
func (d *deployment) replayed(t *testing.T, w *workload.Workload) (first, last []float64) {
	c := d.pools(t)
	cfg := replay.Config{Args: c.Pools[0].Args, Workers: d.workers, Router: c.Pools[0].Router, Workload: w,
		MaxSimTimeMs: math.Inf(1), KVEventLagMs: d.lagMs}
	if d.aggregated == "" {
		cfg.Disagg = &replay.DisaggConfig{
			Prefill: c.Pools[0].Args, Decode: c.Pools[1].Args, PrefillWorkers: d.workers, DecodeWorkers: d.decoders,
			Transfer:      c.Transfer,
			PrefillRouter: c.Pools[0].Router, DecodeRouter: c.Pools[1].Router,
		}
	}
	outcome, err := replay.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rows := outcome.Collector.Rows(w)
	first, _ = rows.Floats("first_token_ms")
	last, _ = rows.Floats("last_token_ms")
	return first, last
}

// record remembers what a request hears.
type record struct {
	reused      int
	first, last float64
	tokens      int
	reason      string
	ended       int
}

func (r *record) Routed(_, _, _ int) {}

func (r *record) Admitted(reused int, _ float64) { r.reused = reused }

func (r *record) Emitted(n int, atMs float64) {
	if r.tokens == 0 {
		r.first = atMs
	}
	r.tokens += n
	r.last = atMs
}

func (r *record) Ended(reason string, _ float64) {
	r.ended++
	r.reason = reason
}

func (d *deployment) conversations(t *testing.T, blockSize int) *workload.Workload {
	t.Helper()
	w, err := workload.Synthetic(workload.SyntheticSpec{
		InputTokens: 700, OutputTokens: 40, RequestCount: 120, TurnsPerSession: 1,
		ArrivalIntervalMs: cmp.Or(d.everyMs, 7.37), SharedPrefixRatio: 0.5, NumPrefixGroups: 6,
		EngineBlockSize: blockSize,
	})
	if err == nil {
		err = w.Schedule(false, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// request makes a request of a turn, whose blocks are named by those of the workload.
func requestOf(turn *workload.Turn, blockSize int, sink Sink) *Request {
	r := &Request{PromptTokens: turn.InputTokens, OutputTokens: turn.OutputTokens, Sink: sink}
	for i := range turn.InputTokens / blockSize {
		var key Key
		binary.LittleEndian.PutUint64(key[:], uint64(turn.Prompt.Block(i))+1)
		r.Keys = append(r.Keys, key)
	}
	return r
}

// TestEqualsReplay: requests that arrive as those of a replay get their tokens at the same times, to the last bit.
func TestEqualsReplay(t *testing.T) {
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			config := d.pools(t)
			blockSize := config.Pools[0].Args.BlockSize
			w := d.conversations(t, blockSize)
			first, last := d.replayed(t, w)
			c := New(config)
			driver := workload.NewDriver(w, 0)
			records := make([]record, w.Len())
			for driver.Unreleased() > 0 {
				next, _ := driver.NextMs()
				turn, atMs, ok := driver.Next(next)
				if !ok {
					t.Fatal("no request is due")
				}
				if err := c.Step(atMs, []*Request{requestOf(driver.Turn(turn), blockSize, &records[turn])},
					nil); err != nil {
					t.Fatal(err)
				}
			}
			drain(t, c)
			for i := range records {
				r := &records[i]
				if r.reason != "" || r.ended != 1 || r.first != first[i] || r.last != last[i] ||
					r.tokens != w.Turns[i].OutputTokens {
					t.Fatalf("request %d: got %+v, want first %v, last %v, %d tokens", i, *r, first[i], last[i],
						w.Turns[i].OutputTokens)
				}
			}
			checkEmpty(t, c)
		})
	}
}

// drain lets everything happen that is left.
func drain(t *testing.T, c *Cluster) {
	t.Helper()
	for c.Requests() > 0 {
		next, ok := c.NextMs()
		if !ok {
			t.Fatalf("%d requests are left, and nothing will happen", c.Requests())
		}
		if err := c.Step(next, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// checkEmpty checks that nothing is held when all requests are over, and that only cached blocks have names. It empties
// the caches.
func checkEmpty(t *testing.T, c *Cluster) {
	t.Helper()
	for k := range c.workers {
		for i := range c.workers[k] {
			w := &c.workers[k][i]
			for _, cached := range slices.Concat(w.cached...) {
				for id := range cached {
					c.names.Removed(cached, id)
				}
			}
			for _, blocks := range w.named { // until the next events
				c.names.Release(blocks)
			}
			waiting, running, used := c.reporter(k, i).Load()
			if waiting != 0 || running != 0 || used != 0 && c.config.Pools[k].Args.EngineType != engineargs.SGLang {
				t.Errorf("pool %d, worker %d: %d wait, %d run, %d blocks are in use", k, i, waiting, running, used)
			}
			if w.emitting.Len() != 0 {
				t.Errorf("pool %d, worker %d: %d requests emit", k, i, w.emitting.Len())
			}
		}
	}
	if n := c.names.Len(); n > 0 {
		t.Errorf("%d blocks have names that are neither cached nor of a request", n)
	}
}

// TestCancel cancels random requests at random times: the others get all their tokens, and nothing is left behind. Half
// the seeds have prompts that were computed elsewhere among them.
func TestCancel(t *testing.T) {
	for _, d := range deployments {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(d.name, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				config := d.pools(t)
				imports := seed%2 == 1 && config.Imports()
				if imports {
					config.Transfer = handoff.Transfer{BytesPerToken: 131072, BandwidthGBs: 5}
				}
				blockSize := config.Pools[0].Args.BlockSize
				w := d.conversations(t, blockSize)
				c := New(config)
				driver := workload.NewDriver(w, 0)
				records, requests := make([]record, w.Len()), make([]*Request, w.Len())
				gone := map[int]int{} // tokens that they had
				for driver.Unreleased() > 0 {
					next, _ := driver.NextMs()
					turn, atMs, _ := driver.Next(next)
					requests[turn] = requestOf(driver.Turn(turn), blockSize, &records[turn])
					requests[turn].Imported = imports && rng.IntN(2) == 0
					var cancels []*Request
					if i := rng.IntN(int(turn) + 1); rng.IntN(2) == 0 {
						cancels = append(cancels, requests[i])
					}
					if err := c.Step(atMs, []*Request{requests[turn]}, cancels); err != nil {
						t.Fatal(err)
					}
					for _, r := range cancels {
						for i := range requests {
							if requests[i] == r && records[i].ended == 0 {
								gone[i] = records[i].tokens
							}
						}
					}
				}
				drain(t, c)
				for i := range records {
					tokens, cancelled := gone[i]
					switch r := &records[i]; {
					case cancelled && (r.ended != 0 || r.tokens != tokens):
						t.Errorf("request %d was cancelled after %d tokens: %+v", i, tokens, *r)
					case !cancelled && (r.ended != 1 || r.reason != "" || r.tokens != w.Turns[i].OutputTokens):
						t.Errorf("request %d: %+v", i, *r)
					}
				}
				checkEmpty(t, c)
			})
		}
	}
}

// TestEmpty: workers without requests lose what they have cached, and routers receive the events.
func TestEmpty(t *testing.T) {
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			config := d.pools(t)
			blockSize := config.Pools[0].Args.BlockSize
			w := d.conversations(t, blockSize)
			c := New(config)
			send := func(empty bool) (r record) {
				atMs := c.fleet.NowMs() + 1000
				if err := c.Step(atMs, []*Request{requestOf(&w.Turns[0], blockSize, &r)}, nil); err != nil {
					t.Fatal(err)
				}
				if empty && c.Empty() == 0 {
					t.Error("the worker of the request is not busy")
				}
				drain(t, c)
				return r
			}
			// each worker, and each of its ranks, has it then
			for range 2 * (d.workers*max(1, config.Pools[0].Args.Ranks) + d.decoders) {
				send(false)
			}
			if r := send(false); r.reused == 0 {
				t.Fatalf("nothing was found in the caches: %+v", r)
			}
			// SGLang computes one more batch when the last request has ended
			if err := c.Step(c.fleet.NowMs()+1000, nil, nil); err != nil {
				t.Fatal(err)
			}
			if busy := c.Empty(); busy != 0 || c.names.Len() != 0 {
				t.Fatalf("%d workers are busy, %d blocks have names", busy, c.names.Len())
			}
			if r := send(true); r.reused != 0 || r.tokens != w.Turns[0].OutputTokens || r.reason != "" {
				t.Errorf("got %+v", r)
			}
			checkEmpty(t, c)
		})
	}
}
