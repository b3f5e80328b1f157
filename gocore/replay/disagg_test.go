package replay

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/handoff"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
)

// sglangEngines have little room.
var sglangEngines = []string{
	`{"engine_type":"sglang","block_size":4,"num_gpu_blocks":30}`,
	`{"engine_type":"sglang","block_size":4,"num_gpu_blocks":12,"sglang":{"chunked_prefill_size":8,` +
		`"clip_max_new_tokens":1}}`,
	`{"engine_type":"sglang","block_size":4,"num_gpu_blocks":16,"max_num_seqs":2,` +
		`"sglang":{"schedule_conservativeness":0}}`,
	`{"engine_type":"sglang","block_size":4,"num_gpu_blocks":10,"sglang":{"schedule_policy":"lpm",` +
		`"chunked_prefill_size":4}}`,
}

// disaggConfig prepares a run with two pools whose blocks have 4 tokens, every third time of SGLang engines.
func disaggConfig(t testing.TB, seed uint64, rows string) Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func() string {
		if i := rng.IntN(len(engines) + 1); i < len(engines) {
			return engines[i]
		}
		return `{"block_size":4,"num_gpu_blocks":8}` // too few for all requests
	}
	prefill, decode := pick(), pick()
	if seed%3 == 1 {
		prefill = sglangEngines[rng.IntN(len(sglangEngines))]
		decode = sglangEngines[rng.IntN(len(sglangEngines))]
	}
	if rng.IntN(4) == 0 {
		prefill = strings.Replace(prefill, "{", `{"speedup_ratio":1e15,`, 1)
	}
	if rng.IntN(8) == 0 {
		decode = strings.Replace(decode, "{", `{"speedup_ratio":1e15,`, 1)
	}
	cfg := config(t, `{"block_size":4}`, rows, 1, []int{0, 0, 1, 3}[rng.IntN(4)])
	cfg.Disagg = &DisaggConfig{
		Prefill: enginetest.Args(t, prefill), Decode: enginetest.Args(t, decode),
		PrefillWorkers: 1 + rng.IntN(3), DecodeWorkers: 1 + rng.IntN(3),
		Transfer: handoff.Transfer{
			BytesPerToken: 1_000_000,
			BandwidthGBs:  []float64{0, 0.1, 1, 64}[rng.IntN(4)],
			Mode:          handoff.Mode(rng.IntN(2)),
		},
	}
	return cfg
}

// runDisagg does what Run does, and lets the caller look at the workers.
func runDisagg(t *testing.T, cfg Config) *run {
	t.Helper()
	r, setups := newRun(cfg)
	if err := r.inFleet(setups); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDisaggEnds: whatever the pools, every request ends, nothing is left on any worker, and nothing happens before
// what it needs.
func TestDisaggEnds(t *testing.T) {
	statuses := map[string]int{}
	for seed := range uint64(600) {
		cfg := disaggConfig(t, seed, randomTrace(seed))
		d := runDisagg(t, cfg)
		rows := d.collector.Rows(cfg.Workload)
		if n := len(cfg.Workload.Turns); rows.Len() != n || d.collector.Finished() != n {
			t.Fatalf("seed %d: %d of %d requests ended", seed, rows.Len(), n)
		}
		for _, p := range d.fleet.Pools() {
			for i := range p.Len() {
				w := p.Worker(i)
				if left := w.Engine.States(); len(left) > 0 || w.Engine.Requests() > 0 || w.Busy() {
					t.Fatalf("seed %d: left on worker %d: %+v", seed, i, left)
				}
			}
		}
		checkLives(t, seed, cfg, rows)
		ended, _ := rows.Strings("terminal_status")
		for _, status := range ended {
			statuses[status]++
		}
	}
	for _, status := range []string{"completed", "rejected", "failed"} {
		if statuses[status] == 0 {
			t.Errorf("no request was %s: %v", status, statuses)
		}
	}
}

// checkLives checks the order of what happened to each request.
func checkLives(t *testing.T, seed uint64, cfg Config, rows *report.Rows) {
	t.Helper()
	column := func(name string) []float64 {
		values, ok := rows.Floats(name)
		if !ok {
			t.Fatalf("no column %s", name)
		}
		return values
	}
	life := []string{"arrival_time_ms", "prefill_admit_ms", "source_held_ms", "destination_reserved_ms",
		"destination_activated_ms", "decode_admit_ms", "first_token_ms", "last_token_ms"}
	traits := worker.Traits(cfg.Disagg.Prefill)
	pushes := traits.Handoff == engine.Pushed
	if pushes || traits.HandoffOrder == handoff.DestinationFirst { // room first
		life[1], life[2], life[3] = life[3], life[1], life[2]
	}
	last := make([]float64, rows.Len())
	for i := range last {
		last[i] = math.Inf(-1)
	}
	status, _ := rows.Strings("terminal_status")
	for _, name := range life {
		for i, ms := range column(name) {
			if status[i] == "completed" && !(ms >= last[i]) {
				t.Fatalf("seed %d: row %d: %s at %v, before %v", seed, i, name, ms, last[i])
			}
			last[i] = ms
		}
	}
	held, released, activated := column("source_held_ms"), column("source_released_ms"),
		column("destination_activated_ms")
	for i := range held {
		if status[i] == "completed" && !(released[i] >= activated[i]) {
			t.Fatalf("seed %d: row %d: released at %v, activated at %v", seed, i, released[i], activated[i])
		}
		if status[i] == "rejected" && !pushes && !math.IsNaN(held[i]) && !math.IsNaN(column("first_token_ms")[i]) {
			t.Fatalf("seed %d: row %d is rejected and has tokens", seed, i)
		}
	}
}

// TestDisaggRepeats: equal runs give equal bytes, names of blocks do not matter, and a cap only takes away.
func TestDisaggRepeats(t *testing.T) {
	for seed := range uint64(60) {
		rows := randomTrace(seed)
		cfg := disaggConfig(t, seed, rows)
		first := mustRun(t, cfg)
		if text(t, cfg, first) != text(t, cfg, mustRun(t, cfg)) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		renamed := trace{rng: rand.New(rand.NewPCG(seed, 0)),
			rename: func(id uint64) uint64 { return 4_000_000_000 - 7*id }}.String()
		other := disaggConfig(t, seed, renamed)
		if text(t, cfg, first) != text(t, other, mustRun(t, other)) {
			t.Fatalf("seed %d: renamed blocks change the run", seed)
		}
		whole := first.Collector.DurationMs()
		cfg.MaxSimTimeMs = whole / 2
		if capped := mustRun(t, cfg); capped.Collector.DurationMs() > whole ||
			capped.Collector.Finished() > first.Collector.Finished() {
			t.Fatalf("seed %d: the time cap added work", seed)
		}
	}
}

// queueing is a router that keeps requests back: it has limit of them on its workers at most, and takes workers in
// turn. It checks that it sees everything, in an order that makes sense.
type queueing struct {
	t        *testing.T
	limit    int
	release  string // what makes room: "PrefillCompleted" or "Free"
	inTurn   *router.RoundRobin
	waiting  []router.Request
	admitted map[int32]bool
	done     map[int32]bool
	active   int
	out      []router.Admission
	stored   map[kvcache.BlockID]int
}

func newQueueing(t *testing.T, limit, workers int, release string) *queueing {
	return &queueing{
		t: t, limit: limit, release: release, inTurn: router.NewRoundRobin(workers),
		admitted: map[int32]bool{}, done: map[int32]bool{}, stored: map[kvcache.BlockID]int{},
	}
}

func (*queueing) Traits() router.Traits { return router.Traits{Observes: true} }

func (q *queueing) Submit(req router.Request, nowMs float64) ([]router.Admission, error) {
	q.out = q.out[:0]
	q.waiting = append(q.waiting, req)
	return q.drain(nowMs)
}

func (q *queueing) drain(nowMs float64) ([]router.Admission, error) {
	for len(q.waiting) > 0 && q.active < q.limit {
		admitted, err := q.inTurn.Submit(q.waiting[0], nowMs)
		if err != nil {
			return nil, err
		}
		q.admitted[q.waiting[0].ID] = true
		q.waiting = q.waiting[1:]
		q.out = append(q.out, admitted...)
		q.active++
	}
	return q.out, nil
}

func (q *queueing) PrefillCompleted(id int32, nowMs float64) ([]router.Admission, error) {
	if !q.admitted[id] || q.done[id] {
		q.t.Errorf("prefill of %d is complete: admitted %t, done %t", id, q.admitted[id], q.done[id])
	}
	return q.after("PrefillCompleted", id, nowMs)
}

func (q *queueing) Free(id int32, nowMs float64) ([]router.Admission, error) {
	if !q.admitted[id] || q.done[id] {
		q.t.Errorf("%d has left: admitted %t, done %t", id, q.admitted[id], q.done[id])
	}
	if q.release == "PrefillCompleted" {
		q.done[id] = true
	}
	return q.after("Free", id, nowMs)
}

// Cancel of a request that gave way with its prefill, or was never there, changes nothing.
func (q *queueing) Cancel(id int32, nowMs float64) ([]router.Admission, error) {
	if q.release == "PrefillCompleted" && !q.done[id] {
		q.done[id] = true
		if h := q.admitted[id]; !h {
			q.t.Errorf("%d is canceled before it was admitted", id)
		}
	}
	return q.after("Free", id, nowMs)
}

func (q *queueing) after(what string, id int32, nowMs float64) ([]router.Admission, error) {
	q.out = q.out[:0]
	if what != q.release || !q.admitted[id] {
		return nil, nil
	}
	q.admitted[id] = what == "PrefillCompleted"
	q.active--
	return q.drain(nowMs)
}

func (q *queueing) Apply(worker int, events []kvcache.Event) {
	for _, e := range events {
		for id := range e.Blocks.All() {
			if e.Kind == kvcache.Stored {
				q.stored[id]++
			} else if q.stored[id]--; q.stored[id] < 0 {
				q.t.Errorf("block %d is removed from worker %d, but was not stored", id, worker)
			}
		}
	}
}

// TestRoutersThatKeepRequestsBack: admissions may come with any later event.
func TestRoutersThatKeepRequestsBack(t *testing.T) {
	for seed := range uint64(60) {
		cfg := disaggConfig(t, seed, randomTrace(seed))
		c := cfg.Disagg
		// Ample pools: a rejected prompt would never complete, and this router would wait for it.
		c.Prefill, c.Decode = enginetest.Args(t, engines[0]), enginetest.Args(t, engines[0])
		prefill := newQueueing(t, 1+int(seed%3), c.PrefillWorkers, "PrefillCompleted")
		decode := newQueueing(t, 1+int(seed%4), c.DecodeWorkers, "Free")
		c.PrefillRouter = func(int) router.Router { return prefill }
		c.DecodeRouter = func(int) router.Router { return decode }
		outcome := mustRun(t, cfg)
		if n := len(cfg.Workload.Turns); outcome.Collector.Finished() != n || len(prefill.done) != n ||
			decode.active != 0 {
			t.Fatalf("seed %d: %d of %d ended, %d of %d were freed, %d are active", seed, outcome.Collector.Finished(),
				n, len(prefill.done), n, decode.active)
		}
		if len(prefill.stored) == 0 || len(decode.stored) != 0 {
			t.Errorf("seed %d: %d blocks stored on prefill workers, %d on decode workers", seed, len(prefill.stored),
				len(decode.stored))
		}
	}
}

// TestRouterError: what a router reports ends the run.
func TestRouterError(t *testing.T) {
	stop := errors.New("stop")
	failing := func(int) router.Router { return failing{router.NewRoundRobin(1), stop} }
	for _, c := range []struct{ prefill, decode router.Factory }{{failing, nil}, {nil, failing}} {
		cfg := disaggConfig(t, 0, randomTrace(0))
		cfg.Disagg.PrefillRouter, cfg.Disagg.DecodeRouter = c.prefill, c.decode
		if _, err := Run(cfg); !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	}
}

// failing is a router that fails at once.
type failing struct {
	router.Router
	err error
}

func (f failing) Submit(router.Request, float64) ([]router.Admission, error) { return nil, f.err }

// TestDisaggDeadEnd makes the error by hand: no configuration is known that leads to it.
func TestDisaggDeadEnd(t *testing.T) {
	var rows strings.Builder
	for i := range 5 {
		fmt.Fprintf(&rows, `{"timestamp":%d,"input_length":8,"output_length":%d,"hash_ids":[%d,2]}`+"\n", i, i+1, i)
	}
	cfg := config(t, `{"block_size":4}`, rows.String(), 1, 0)
	cfg.Disagg = &DisaggConfig{
		Prefill:        enginetest.Args(t, `{"block_size":4,"num_gpu_blocks":20}`),
		Decode:         enginetest.Args(t, `{"block_size":4,"num_gpu_blocks":5}`),
		PrefillWorkers: 1, DecodeWorkers: 2, Transfer: handoff.Transfer{BytesPerToken: 1_000_000_000, BandwidthGBs: 1},
	}
	cfg.MaxSimTimeMs = 60
	d := runDisagg(t, cfg)
	const in = "tokens, 0 emitted, needs 3 blocks, holds 2)"
	const want = "dead end at 33.610635 ms of simulated time, requests left: 5; " +
		"num_gpu_blocks is 20 on prefill workers and 5 on decode workers, of 4 tokens, a larger pool may help" +
		"; t.jsonl line 1 is in transfer on decode worker 0 (prompt 8 + output 1 " + in +
		"; t.jsonl line 3 is in transfer on decode worker 0 (prompt 8 + output 3 " + in +
		"; t.jsonl line 5 is waiting for room on decode worker 0 (prompt 8 + output 5 tokens, 0 emitted, needs 4 blocks)" +
		"; t.jsonl line 2 is in transfer on decode worker 1 (prompt 8 + output 2 " + in +
		"; t.jsonl line 4 is in transfer on decode worker 1 (prompt 8 + output 4 " + in
	if err := d.fleet.DeadEnd(); err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestDisaggPoll: a run can be watched and stopped.
func TestDisaggPoll(t *testing.T) {
	stop := errors.New("stop")
	cfg := disaggConfig(t, 2, randomTrace(2))
	calls := 0
	cfg.Poll = func(float64, int) error {
		if calls++; calls == 3 {
			return stop
		}
		return nil
	}
	if _, err := Run(cfg); !errors.Is(err, stop) || calls != 3 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}
