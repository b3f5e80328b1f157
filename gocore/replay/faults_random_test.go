package replay

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/faults"
	"dynosim/gocore/planner"
	"dynosim/gocore/router"
)

var (
	faultyRuns = flag.Int("faulty-runs", 200, "random scripts of TestFaultyRuns")
	faultyFrom = flag.Int("faulty-from", 0, "the seed of the first of them")
)

// script draws faults of every kind that a deployment can have.
func script(rng *rand.Rand, twoPools bool) string {
	kinds := []string{"crash", "restart", "slow", "pause", "partition", "events_lost", "router_stale", "cold_start"}
	if twoPools {
		kinds = append(kinds, "link_slow", "link_down")
	}
	var b strings.Builder
	for range rng.IntN(7) {
		kind := kinds[rng.IntN(len(kinds))]
		fmt.Fprintf(&b, `{"kind":%q`, kind)
		again := rng.IntN(4) == 0
		if again {
			fmt.Fprintf(&b, `,"mtbf_s":%v`, []float64{0.05, 0.3, 2}[rng.IntN(3)])
		} else {
			fmt.Fprintf(&b, `,"at_ms":%v`, []float64{float64(5 * rng.IntN(150)), 700 * rng.Float64()}[rng.IntN(2)])
		}
		switch rng.IntN(4) {
		case 0:
			fmt.Fprintf(&b, `,"mttr_s":%v`, []float64{0.01, 0.2}[rng.IntN(2)])
		case 1:
			if again {
				b.WriteString(`,"duration_ms":30`)
			}
		default:
			fmt.Fprintf(&b, `,"duration_ms":%v`, []float64{0, 5, 40, 300 * rng.Float64()}[rng.IntN(4)])
		}
		fmt.Fprintf(&b, `,"target":%q`, drawnTarget(rng, twoPools))
		switch kind {
		case "slow", "link_slow", "cold_start":
			fmt.Fprintf(&b, `,"factor":%v`, []float64{2, 0.5, 7.3}[rng.IntN(3)])
		case "crash", "partition":
			if rng.IntN(2) == 0 {
				fmt.Fprintf(&b, `,"detection_ms":%v`, []float64{0, 15, 60}[rng.IntN(3)])
			}
		case "restart":
			fmt.Fprintf(&b, `,"drain":%v`, rng.IntN(2) == 0)
		case "router_stale":
			if rng.IntN(2) == 0 {
				b.WriteString(`,"delay_ms":20`)
			}
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func drawnTarget(rng *rand.Rand, twoPools bool) string {
	pool := "worker"
	if twoPools {
		pool = []string{"prefill", "decode"}[rng.IntN(2)]
	}
	switch rng.IntN(5) {
	case 0:
		return pool + ":*"
	case 1:
		return fmt.Sprintf("random:%d", 1+rng.IntN(2))
	case 2:
		return pool + ":random:1"
	}
	return fmt.Sprintf("%s:%d", pool, rng.IntN(2))
}

// faulty is a random run with random faults.
type faulty struct {
	seed     uint64
	stepwise bool
	tiers    bool            // below the caches of workers
	script   *[]faults.Fault // instead of a drawn one
}

// own returns whose scheduler a run has, "" for the mocker's.
func (p faulty) own() string {
	if p.seed%8 == 5 { // two pools by vLLM's own rules
		return "vllm"
	}
	return []string{"", "", "vllm", "sglang"}[p.seed%4]
}

// config draws a run of one pool or, every third time, of two, in a third of the cases with a planner.
func (p faulty) config(t testing.TB) Config {
	if p.tiers {
		return p.tieredConfig(t)
	}
	d := drawnRun{seed: p.seed, stepwise: p.stepwise, own: p.own(), log: &strings.Builder{}}
	rng := rand.New(rand.NewPCG(p.seed, 21))
	startup := []float64{0, 0.03, 0.2}[rng.IntN(3)]
	var cfg Config
	if p.seed%4 == 1 {
		cfg = d.disaggregated(t)
		if p.own() != "" {
			ahead := p.seed/8%2 == 1
			cfg.Disagg.Prefill.VLLM.Async, cfg.Disagg.Decode.VLLM.Async = ahead, ahead
			cfg.Disagg.Prefill.Ranks, cfg.Disagg.Decode.Ranks = 1+int(p.seed/16%2), 1+int(p.seed/16%3)
			cfg.Disagg.Prefill.RouterRanks, cfg.Disagg.Decode.RouterRanks = p.seed/32%2 == 0, p.seed/64%2 == 0
		}
		cfg.Disagg.Prefill.StartupSeconds, cfg.Disagg.Decode.StartupSeconds = startup, float64(rng.IntN(2))*startup
	} else {
		cfg = d.config(t)
		cfg.Args.StartupSeconds = startup
	}
	cfg.Faults = drawnFaults(t, rng, cfg)
	cfg.Faults.Rules = RouterRules(p.seed / 7 % 2)
	if p.seed%5 == 2 {
		cfg.Faults.RetryRefusedMs = []float64{10, 100}[p.seed/5%2]
	}
	if p.script != nil {
		cfg.Faults.Script = slices.Clone(*p.script)
	}
	if rng.IntN(3) == 0 {
		pools := 1
		if cfg.Disagg != nil {
			pools = 2
		}
		cfg.Planner = &scripted{rng: rand.New(rand.NewPCG(p.seed, 22)), pools: pools, rest: 1 + rng.IntN(30)}
	}
	return cfg
}

func drawnFaults(t testing.TB, rng *rand.Rand, cfg Config) *FaultConfig {
	t.Helper()
	text := script(rng, cfg.Disagg != nil)
	parsed, err := faults.Parse(text, faults.Layout{TwoPools: cfg.Disagg != nil, Grows: true})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	f := &FaultConfig{Script: parsed, Seed: rng.Uint64(), MigrationLimit: rng.IntN(4), ClientTimeoutMs: math.Inf(1),
		HedgeAfterMs: math.Inf(1)}
	if rng.IntN(2) == 0 {
		f.DetectionMs = []float64{3, 50, 200}[rng.IntN(3)]
		f.AvoidMs = []float64{0, 20}[rng.IntN(2)]
	}
	if rng.IntN(3) == 0 {
		f.ClientTimeoutMs = []float64{50, 400, 3000}[rng.IntN(3)]
	}
	if rng.IntN(2) == 0 {
		f.ClientRetries, f.ClientBackoffMs = 1+rng.IntN(3), []float64{0, 5, 70}[rng.IntN(3)]
	}
	if rng.IntN(4) == 0 {
		f.HedgeAfterMs = []float64{0, 20, 90}[rng.IntN(3)]
	}
	return f
}

// observer checks what holds at every instant, and that time advances.
type observer struct {
	t     testing.TB
	seed  uint64
	nowMs float64
}

func (o *observer) poll(nowMs float64, _ int) error {
	if nowMs < o.nowMs {
		o.t.Errorf("seed %d: time goes back from %v to %v", o.seed, o.nowMs, nowMs)
	}
	o.nowMs = nowMs
	return nil
}

// run runs it, checks what has to hold for every run, and returns everything that it leaves behind.
func (p faulty) run(t testing.TB) (text string, outcome Outcome, failed error) {
	t.Helper()
	defer func() {
		if wrong := recover(); wrong != nil {
			t.Errorf("seed %d: panic: %v", p.seed, wrong)
			panic(wrong)
		}
	}()
	cfg := p.config(t)
	cfg.Poll = (&observer{t: t, seed: p.seed}).poll
	var routes router.Router
	if given := cfg.Router; given != nil {
		cfg.Router = func(workers int) router.Router {
			routes = given(workers)
			return routes
		}
	}
	r, setups := newRun(cfg)
	if err := r.inFleet(setups); err != nil {
		return err.Error(), Outcome{}, err
	}
	p.checkEngines(t, r.faults, routes)
	r.faults.cut()
	if p.tiers {
		r.faults.loseAll()
	}
	outcome = r.outcome()
	p.checkRequests(t, cfg, r.faults)
	return p.text(t, cfg, outcome, r.faults), outcome, nil
}

// checkRequests: every request ends exactly once, with the tokens that it asked for or without any.
func (p faulty) checkRequests(t testing.TB, cfg Config, f *faultRun) {
	t.Helper()
	ended, ends, all := f.collector.Ended(), f.collector.Finished(), cfg.Workload.Len()
	if ended != ends || math.IsInf(cfg.MaxSimTimeMs, 1) && ended != all {
		t.Errorf("seed %d: %d requests ended of %d, %d times", p.seed, ended, all, ends)
	}
	rows := f.collector.Rows(cfg.Workload)
	status, _ := rows.Strings("terminal_status")
	arrival, _ := rows.Floats("arrival_time_ms")
	first, _ := rows.Floats("first_token_ms")
	last, _ := rows.Floats("last_token_ms")
	for i := range status {
		if status[i] == "completed" && !(arrival[i] <= first[i] && first[i] <= last[i]) {
			t.Errorf("seed %d row %d: arrival %v, tokens from %v to %v", p.seed, i, arrival[i], first[i], last[i])
		}
	}
	for turn := range f.turns {
		j, trials := &f.turns[turn], &f.trials[turn]
		if trials.Migrations > f.cfg.MigrationLimit*(trials.Retries+1) || trials.Retries > f.cfg.ClientRetries ||
			trials.Hedges > trials.Retries+1 {
			t.Errorf("seed %d: request %d has %+v", p.seed, turn, *trials)
		}
		if j.open && math.IsInf(cfg.MaxSimTimeMs, 1) {
			t.Errorf("seed %d: request %d is open", p.seed, turn)
		}
	}
}

// checkEngines: once all requests are over, no live engine that has heard of it has any, nor a block for one; and no
// router counts any load.
func (p faulty) checkEngines(t testing.TB, f *faultRun, routes router.Router) {
	t.Helper()
	if f.open > 0 || !math.IsInf(f.MaxSimTimeMs, 1) {
		return
	}
	for k, s := range f.pools {
		for i := range s.Len() {
			w, c := s.Worker(i), s.cond(i)
			if w.Engine == nil || w.Busy() || c.cut > 0 || len(c.cancels) > 0 || len(w.Engine.States()) > 0 {
				continue // it has not heard of the end of all
			}
			waiting, running, active := w.Engine.(engine.Reporter).Load()
			if f.sglang() || p.tiers {
				active = 0 // what is cached counts as active there, and copies under way lock blocks
			}
			if waiting+running+active > 0 {
				t.Errorf("seed %d: worker %d of pool %d: %d wait, %d run, %d blocks are in use", p.seed, i, k, waiting,
					running, active)
			}
		}
		if kv, ok := routes.(*router.KV); ok && f.Disagg == nil && len(s.Active()) > 0 {
			for i := range s.Active()[len(s.Active())-1] + 1 { // it does not know those that are starting
				if load := kv.Load(i, f.fleet.NowMs()); load != (router.Load{}) {
					t.Errorf("seed %d: the router counts %+v on worker %d", p.seed, load, i)
				}
			}
		}
	}
	for id := range f.attempts {
		if a := &f.attempts[id]; !a.over && f.turns[a.turn].begun != unassigned {
			t.Errorf("seed %d: attempt %d is not over", p.seed, id)
		}
	}
}

func (f *faultRun) sglang() bool {
	args := f.Args
	if f.Disagg != nil {
		args = f.Disagg.Prefill
	}
	return args.EngineType == engineargs.SGLang
}

func (p faulty) text(t testing.TB, cfg Config, outcome Outcome, f *faultRun) string {
	outcome.WorkerSeconds = 1
	var events strings.Builder
	for _, e := range outcome.Faults {
		e.places = nil
		fmt.Fprintf(&events, "%+v\n", e)
	}
	return fmt.Sprint(events.String(), outcome.FaultTally, "\n", f.trials, "\n", text(t, cfg, outcome))
}

// TestFaultyRuns runs random workloads with random scripts of faults, with and without coasting: requests end once, no
// block is left, time advances, and equal runs leave equal bytes.
func TestFaultyRuns(t *testing.T) {
	failed, migrated, lost, events := 0, 0, 0, 0
	for n := range *faultyRuns {
		seed := uint64(*faultyFrom + n)
		fast, outcome, err := faulty{seed: seed}.run(t)
		slow, _, _ := faulty{seed: seed, stepwise: true}.run(t)
		if fast != slow {
			t.Fatalf("seed %d: %s", seed, firstDifference(fast, slow))
		}
		if t.Failed() {
			return
		}
		if err != nil {
			failed++
			continue
		}
		for _, e := range outcome.Faults {
			migrated += e.Migrated
		}
		events += len(outcome.Faults)
		lost += len(outcome.Collector.Lost())
	}
	t.Logf("%d runs failed; %d faults, %d requests migrated, %d lost", failed, events, migrated, lost)
	if failed*10 > *faultyRuns || migrated < *faultyRuns || lost < *faultyRuns || events < *faultyRuns {
		t.Errorf("%d runs failed; %d faults, %d requests migrated, %d lost", failed, events, migrated, lost)
	}
}

// TestFaultySeeds repeats runs that went wrong once. In the first two a hand-off was cancelled on a decode worker that
// had drained after a partition, and had not heard of the request. In the third an SGLang engine took itself for idle
// when the only request was cancelled at the end of a coast.
func TestFaultySeeds(t *testing.T) {
	for _, seed := range []uint64{6309, 18493, 16167} {
		fast, _, _ := faulty{seed: seed}.run(t)
		if slow, _, _ := (faulty{seed: seed, stepwise: true}).run(t); fast != slow {
			t.Errorf("seed %d: %s", seed, firstDifference(fast, slow))
		}
	}
}

var releases = regexp.MustCompile(`"source_released_ms":[^,]*,`)

// TestFaultsThatNeverHappen: a script of which nothing happens changes nothing, except that a run with faults does not
// wait for prefill workers to notice that the last prompts have been read.
func TestFaultsThatNeverHappen(t *testing.T) {
	for seed := range uint64(200) {
		p := faulty{seed: seed}
		plain, armed := p.config(t), p.config(t)
		plain.Planner, plain.Faults = noPlanner{}, nil
		late := faults.Fault{Kind: faults.Crash, AtMs: 1e12, DurationMs: math.Inf(1)}
		armed.Planner, armed.Faults = noPlanner{},
			&FaultConfig{Script: []faults.Fault{late}, ClientTimeoutMs: 1e12, HedgeAfterMs: math.Inf(1)}
		show := func(cfg Config) string {
			outcome, err := Run(cfg)
			if err != nil {
				return err.Error()
			}
			outcome.WorkerSeconds = 1
			outcome.Collector.KeepTrials(nil) // columns that only runs with faults have
			return releases.ReplaceAllString(text(t, cfg, outcome), "")
		}
		if a, b := show(plain), show(armed); a != b {
			t.Fatalf("seed %d: %s", seed, firstDifference(a, b))
		}
	}
}

var _ planner.Planner = (*scripted)(nil)

// FuzzFaults does what TestFaultyRuns does, for any seed.
func FuzzFaults(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		fast, _, _ := faulty{seed: seed}.run(t)
		again, _, _ := faulty{seed: seed}.run(t)
		if fast != again {
			t.Fatalf("seed %d: %s", seed, firstDifference(fast, again))
		}
	})
}
