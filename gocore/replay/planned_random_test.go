package replay

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/fleet"
	"dynosim/gocore/planner"
)

var plannedRuns = flag.Int("planned-runs", 200, "random runs with a planner of TestPlannedRuns")

// scripted is a planner that draws its targets and the times of its ticks, and keeps what it sees.
type scripted struct {
	rng     *rand.Rand
	pools   int
	rest    int             // ticks
	log     strings.Builder // whole numbers and times of ticks
	reals   []float64       // sums and variances of ticks, whose last bits depend on the order of summation
	deltas  [2][]delta      // workers added and cancelled, by pool
	done    int             // requests that completed in all windows
	lastMs  float64         // the last tick
	changes int
}

// delta is a change of the number of workers that exist.
type delta struct {
	atMs    float64
	workers int
}

func (*scripted) Wants() planner.Wants { return planner.Wants{Passes: true, Gauges: true, TTFT: true} }

func (s *scripted) InitialTickMs() (float64, error) {
	if s.rng.IntN(4) == 0 {
		return -1, nil // at 0
	}
	return s.wait(), nil
}

// wait returns a multiple of 5 ms every other time, so that ticks meet arrivals and ends of passes.
func (s *scripted) wait() float64 {
	if s.rng.IntN(2) == 0 {
		return float64(5 * (1 + s.rng.IntN(20)))
	}
	return 1 + 100*s.rng.Float64()
}

// OnTick implements [planner.Planner]. The last tick leaves every pool with workers.
func (s *scripted) OnTick(t *planner.Tick) (planner.Decision, error) {
	s.note(t)
	d := planner.Decision{Prefill: planner.Unchanged, Decode: planner.Unchanged, NextMs: math.Inf(1)}
	if s.rest--; s.rest > 0 {
		d.NextMs = t.NowMs + s.wait()
	}
	d.Decode = s.target(0, &t.Decode, t.NowMs)
	if s.pools == 2 {
		d.Prefill = s.target(1, &t.Prefill, t.NowMs)
	}
	return d, nil
}

func (s *scripted) target(pool int, p *planner.Pool, nowMs float64) int {
	target := s.rng.IntN(6)
	switch {
	case s.rest <= 0:
		target = max(target, 1)
	case s.rng.IntN(3) == 0:
		return planner.Unchanged
	}
	change := target - p.Active - p.Starting
	if change < 0 { // workers that drain are gone later
		change = max(change, -p.Starting)
	}
	s.deltas[pool] = append(s.deltas[pool], delta{nowMs, change})
	if target != p.Active+p.Starting {
		s.changes++
	}
	return target
}

// note keeps a tick.
func (s *scripted) note(t *planner.Tick) {
	s.done += t.Traffic.Requests
	s.lastMs = t.NowMs
	fmt.Fprintln(&s.log, "tick", t.NowMs)
	for _, p := range []*planner.Pool{&t.Prefill, &t.Decode} {
		fmt.Fprintln(&s.log, "pool", p.Active, p.Starting, p.Total, p.Held, p.Gauges)
		for _, pass := range p.Passes {
			fmt.Fprintln(&s.log, "pass", pass.Worker, pass.StartMs, pass.EndMs)
			for _, w := range []struct{ a, b, c, d, e int }{
				{pass.Scheduled.PrefillRequests, pass.Scheduled.PrefillTokens, pass.Scheduled.PrefillKVTokens,
					pass.Scheduled.DecodeRequests, pass.Scheduled.DecodeKVTokens},
				{pass.Queued.PrefillRequests, pass.Queued.PrefillTokens, pass.Queued.PrefillKVTokens,
					pass.Queued.DecodeRequests, pass.Queued.DecodeKVTokens},
			} {
				fmt.Fprintln(&s.log, w)
			}
			s.reals = append(s.reals, pass.Scheduled.PrefillVariance, pass.Scheduled.DecodeKVVariance,
				pass.Queued.PrefillVariance, pass.Queued.DecodeKVVariance)
		}
	}
	f := &t.Traffic
	fmt.Fprintln(&s.log, "traffic", f.SinceMs, f.Requests, f.InputTokens, f.OutputTokens, f.TTFTs, f.ITLs, f.Hits,
		f.Tokens, f.Forwards)
	s.reals = append(s.reals, f.TTFTSumMs, f.ITLSumMs, f.HitSum)
	s.reals = append(s.reals, slices.Sorted(slices.Values(f.TTFTsMs))...)
}

// removals notes when workers go that have drained.
type removals struct {
	recorder
	gone map[engine.Role][]delta
}

func (l removals) Removed(p *fleet.Pool, _ int) {
	l.gone[p.Role] = append(l.gone[p.Role], delta{l.now(), -1})
}

// seconds adds up the lives of all workers until the end of the run.
func seconds(initial int, endMs float64, changes ...[]delta) float64 {
	sum := float64(initial) * endMs
	for _, d := range slices.Concat(changes...) {
		sum += float64(d.workers) * (endMs - d.atMs)
	}
	return sum / 1000
}

// planned is a random run with a random planner.
type planned struct {
	seed     uint64
	stepwise bool
}

// plannedOutcome is what such a run leaves behind.
type plannedOutcome struct {
	script *scripted
	text   string
	failed error
}

// config draws a run of one pool or, every third time, of two.
func (p planned) config(t *testing.T) Config {
	d := drawnRun{seed: p.seed, stepwise: p.stepwise, own: []string{"", "", "vllm", "sglang"}[p.seed%4],
		log: &strings.Builder{}}
	rng := rand.New(rand.NewPCG(p.seed, 11))
	startup := []float64{0, 0, 0.03, 0.2}[rng.IntN(4)]
	if p.seed%4 == 1 {
		var cfg Config
		switch p.seed % 16 {
		case 5: // hand-offs by vLLM's own rules
			d.own = "vllm"
			cfg = d.disaggregated(t)
		case 13: // by SGLang's
			cfg = d.pushed(t)
		default:
			cfg = d.disaggregated(t)
		}
		cfg.Disagg.Prefill.StartupSeconds, cfg.Disagg.Decode.StartupSeconds = startup, float64(rng.IntN(2))*startup
		return cfg
	}
	cfg := d.config(t)
	cfg.Args.StartupSeconds = startup
	if rng.IntN(6) == 0 {
		cfg.Workers = 0
	}
	return cfg
}

// run runs it and checks what has to hold for every run.
func (p planned) run(t *testing.T) plannedOutcome {
	t.Helper()
	cfg := p.config(t)
	rng := rand.New(rand.NewPCG(p.seed, 12))
	s := &scripted{rng: rng, pools: 1, rest: 1 + rng.IntN(30)}
	cfg.Planner = s
	if cfg.Disagg != nil {
		s.pools = 2
	}
	outcome, err := p.outcome(t, cfg, s)
	if err != nil {
		return plannedOutcome{s, err.Error(), err}
	}
	rows := outcome.Collector.Rows(cfg.Workload)
	status, _ := rows.Strings("terminal_status")
	last, _ := rows.Floats("last_token_ms")
	before, then := 0, 0 // the last tick may release requests that complete at once
	for i := range status {
		switch {
		case status[i] != "completed":
		case last[i] < s.lastMs:
			before++
		case last[i] == s.lastMs:
			then++
		}
	}
	if s.done < before || s.done > before+then {
		t.Errorf("seed %d: ticks counted %d requests, %d completed before the last one and %d at its instant", p.seed,
			s.done, before, then)
	}
	ended, ends, all := outcome.Collector.Ended(), outcome.Collector.Finished(), cfg.Workload.Len()
	if ended != ends || math.IsInf(cfg.MaxSimTimeMs, 1) && ended != all {
		t.Errorf("seed %d: %d requests ended of %d, %d times", p.seed, ended, all, ends)
	}
	// summed in smaller steps without coasting
	s.reals = append(s.reals, outcome.WorkerSeconds, outcome.PrefillWorkerSeconds)
	outcome.WorkerSeconds = 1
	return plannedOutcome{s, text(t, cfg, outcome), nil}
}

// outcome runs it, and compares worker seconds with the lives of workers.
func (p planned) outcome(t *testing.T, cfg Config, s *scripted) (Outcome, error) {
	r, setups := newRun(cfg)
	l := removals{recorder{r}, map[engine.Role][]delta{}}
	c := r.fleetConfig(setups)
	c.Recorder = l
	if err := r.newFleet(c); err != nil {
		return Outcome{}, err
	}
	if err := r.fleet.Run(); err != nil {
		return Outcome{}, err
	}
	r.cut()
	// a run of two pools that is cut short goes on to the last end in a coast
	if cfg.Disagg == nil || math.IsInf(cfg.MaxSimTimeMs, 1) {
		pools := r.fleet.Pools()
		for k, pool := range pools {
			lives := seconds(c.Pools[k].Workers, r.fleet.NowMs(), s.deltas[len(pools)-1-k], l.gone[pool.Role])
			p.compareSeconds(t, pool.Name()+" workers", pool.Seconds(), lives)
		}
	}
	return r.outcome(), nil
}

func (p planned) compareSeconds(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !close9(got, want) {
		t.Errorf("seed %d: %v seconds of %s, their lives add up to %v", p.seed, got, what, want)
	}
}

func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// TestPlannedRuns runs random workloads with random planners, with and without coasting: no request is lost, worker
// seconds add up, and ticks and reports do not depend on the shortcuts.
func TestPlannedRuns(t *testing.T) {
	failed, changes := 0, 0
	for seed := range uint64(*plannedRuns) {
		fast, slow := planned{seed, false}.run(t), planned{seed, true}.run(t)
		if a, b := fast.script.log.String(), slow.script.log.String(); a != b {
			t.Fatalf("seed %d: ticks: %s", seed, firstDifference(a, b))
		}
		if !slices.EqualFunc(fast.script.reals, slow.script.reals, close9) {
			t.Fatalf("seed %d: sums and variances of ticks differ", seed)
		}
		if fast.text != slow.text {
			t.Fatalf("seed %d: %s", seed, firstDifference(fast.text, slow.text))
		}
		if t.Failed() {
			return
		}
		if fast.failed != nil {
			failed++
		}
		changes += fast.script.changes
	}
	if failed*10 > *plannedRuns || changes < *plannedRuns {
		t.Errorf("%d runs failed and pools changed %d times in %d runs", failed, changes, cmp.Or(*plannedRuns, 1))
	}
}
