package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/fleet"
	"dynosim/gocore/planner"
)

// timed is a planner that ticks at given times and sets the workers of the pool that emits tokens.
type timed struct {
	atMs    []float64
	targets map[int]int // by tick, from 1
	passes  bool
	nextMs  float64 // after the last time, if not 0
	ticks   []string
}

func (p *timed) Wants() planner.Wants { return planner.Wants{Passes: p.passes} }

func (p *timed) InitialTickMs() (float64, error) { return p.atMs[0], nil }

func (p *timed) OnTick(t *planner.Tick) (planner.Decision, error) {
	line := fmt.Sprintf("%v: %d/%d", t.NowMs, t.Decode.Active, t.Decode.Total)
	for _, pass := range t.Decode.Passes {
		s := &pass.Scheduled
		line += fmt.Sprintf(" w%d %.9f %d/%d %d/%d", pass.Worker, pass.Seconds(), s.PrefillRequests, s.PrefillTokens,
			s.DecodeRequests, s.DecodeKVTokens)
	}
	if p.passes {
		f := &t.Traffic
		line += fmt.Sprintf(" | %d %v %.7f %.7f %d", f.Requests, planner.Mean(float64(f.InputTokens), f.Requests),
			planner.Mean(f.TTFTSumMs, f.TTFTs), planner.Mean(f.ITLSumMs, f.ITLs), f.Forwards)
	}
	p.ticks = append(p.ticks, line)
	d := planner.Decision{Prefill: planner.Unchanged, Decode: planner.Unchanged, NextMs: math.Inf(1)}
	if target, ok := p.targets[len(p.ticks)]; ok {
		d.Decode = target
	}
	if n := len(p.ticks); n < len(p.atMs) {
		d.NextMs = p.atMs[n]
	} else if p.nextMs != 0 {
		d.NextMs = p.nextMs
	}
	return d, nil
}

// requests returns rows of a trace: arrival, prompt and output, with prompts that have nothing in common.
func requests(rows ...[3]int) string {
	var b strings.Builder
	id := 0
	for _, r := range rows {
		var ids []string
		for range (r[1] + 63) / 64 {
			id++
			ids = append(ids, fmt.Sprint(id))
		}
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", r[0], r[1], r[2],
			strings.Join(ids, ","))
	}
	return b.String()
}

// vector runs one worker with blocks of 64 tokens, which start up in startupMs.
func vector(t *testing.T, p *timed, startupS float64, rows ...[3]int) (Outcome, error) {
	t.Helper()
	cfg := config(t, `{"block_size":64,"num_gpu_blocks":1024}`, requests(rows...), 1, 0)
	cfg.Args.StartupSeconds = startupS
	cfg.Planner = p
	return Run(cfg)
}

func checkTicks(t *testing.T, p *timed, want ...string) {
	t.Helper()
	if !slices.Equal(p.ticks, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(p.ticks, "\n"), strings.Join(want, "\n"))
	}
}

// TestLifeOfWorkers: two workers are added at 20 ms, which are active at 50; two drain from 70 on, while they still
// have a request each. A tick has: active/all workers; passes with worker, seconds, prefills and their tokens, decodes
// and theirs; and of the requests that completed their number, mean prompt, TTFT and ITL, and the tokens per request
// and pass.
func TestLifeOfWorkers(t *testing.T) {
	p := &timed{atMs: []float64{20, 50, 70, 100}, targets: map[int]int{1: 3, 3: 1}, passes: true}
	outcome, err := vector(t, p, 0.03, [3]int{0, 256, 6}, [3]int{10, 200, 6}, [3]int{60, 300, 20}, [3]int{65, 128, 3})
	if err != nil {
		t.Fatal(err)
	}
	checkTicks(t, p,
		"20: 1/1 | 0 0 0.0000000 0.0000000 0",
		"50: 3/3 w0 0.026366555 1/256 0/0 | 0 0 0.0000000 0.0000000 1",
		"70: 3/3 w0 0.025767657 1/200 1/257 w0 0.006212709 0/0 2/459 w0 0.006212709 0/0 2/461 | 0 0 0.0000000 "+
			"0.0000000 6",
		"100: 1/3 w0 0.006212709 0/0 2/463 w0 0.006212709 0/0 2/465 w0 0.005950584 0/0 1/205 w1 0.027097449 1/300 "+
			"0/0 w2 0.024297188 1/128 0/0 "+
			"w1 0.006003107 0/0 1/301 w2 0.005898011 0/0 1/129 w1 0.006003107 0/0 1/302 | 2 228 34.2503835 8.1419913 10")
	if got := outcome.WorkerSeconds; math.Abs(got-0.463406174) > 1e-9 {
		t.Errorf("got %v worker seconds", got)
	}
	if want := (fleet.Meetings{Cold: 2}); outcome.Meetings != want {
		t.Errorf("got %+v, want %+v", outcome.Meetings, want)
	}
}

// TestTickAtTheEndOfStartUp: a worker whose start-up ends at a tick is active in it.
func TestTickAtTheEndOfStartUp(t *testing.T) {
	for at, want := range map[float64]string{50: "50: 2/2", 49.999: "49.999: 1/2"} {
		p := &timed{atMs: []float64{20, at}, targets: map[int]int{1: 2}}
		if _, err := vector(t, p, 0.03, [3]int{0, 256, 50}); err != nil {
			t.Fatal(err)
		}
		checkTicks(t, p, "20: 1/1", want)
	}
}

// TestCancelledStartUp: starting workers are cancelled before active ones drain, and are gone at once.
func TestCancelledStartUp(t *testing.T) {
	p := &timed{atMs: []float64{10, 20, 25, 60}, targets: map[int]int{1: 4, 2: 2, 3: 1}}
	outcome, err := vector(t, p, 0.03, [3]int{0, 256, 50})
	if err != nil {
		t.Fatal(err)
	}
	checkTicks(t, p, "10: 1/1", "20: 1/4", "25: 1/2", "60: 1/1")
	var events []string
	for _, e := range outcome.Scaling {
		events = append(events, fmt.Sprint(e.AtMs, e.Pool, e.From, e.To))
	}
	if want := []string{"10agg1 4", "20agg4 2", "25agg2 1"}; !slices.Equal(events, want) {
		t.Errorf("got %q, want %q", events, want)
	}
}

// TestHeldRequests: without any worker requests wait, and are in time when one is active.
func TestHeldRequests(t *testing.T) {
	p := &timed{atMs: []float64{35, 60, 100}, targets: map[int]int{1: 0, 2: 1}}
	outcome, err := vector(t, p, 0.01, [3]int{0, 64, 2}, [3]int{40, 64, 2}, [3]int{65, 64, 2})
	if err != nil {
		t.Fatal(err)
	}
	checkTicks(t, p, "35: 1/1", "60: 0/0", "100: 1/1")
	if want := (fleet.Meetings{Held: 2, Cold: 2}); outcome.Meetings != want || outcome.Collector.Ended() != 3 {
		t.Errorf("got %+v, want %+v; %d requests ended", outcome.Meetings, want, outcome.Collector.Ended())
	}
}

// TestNoTickAfterTheEnd: ticks that are due later, and start-ups, do not keep a run alive.
func TestNoTickAfterTheEnd(t *testing.T) {
	p := &timed{atMs: []float64{10, 50_000}, targets: map[int]int{1: 2}}
	outcome, err := vector(t, p, 100, [3]int{0, 64, 2})
	if err != nil {
		t.Fatal(err)
	}
	checkTicks(t, p, "10: 1/1")
	if ms := outcome.Collector.DurationMs(); ms > 1000 {
		t.Errorf("the run took %v ms", ms)
	}
}

// TestBadDecisions: each is an error with the time of the tick, the field, its value and what it may be.
func TestBadDecisions(t *testing.T) {
	for _, c := range []struct {
		target int
		nextMs float64
		want   string
	}{
		{-2, 0, "planner: at 5 ms target_decode: got -2, want 0 to 10000"},
		{10_001, 0, "planner: at 5 ms target_decode: got 10001, want 0 to 10000"},
		{1, 5, "planner: at 5 ms next_tick_ms: got 5, want a later time, or None for no further tick"},
		{1, -1, "planner: at 5 ms next_tick_ms: got -1, want a later time, or None for no further tick"},
	} {
		p := &timed{atMs: []float64{5}, targets: map[int]int{1: c.target}, nextMs: c.nextMs}
		_, err := vector(t, p, 0, [3]int{0, 64, 2})
		var wrong *planner.DecisionError
		if !errors.As(err, &wrong) || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestNoWorkerLeft: a run whose requests wait for a worker that never comes ends with an error.
func TestNoWorkerLeft(t *testing.T) {
	p := &timed{atMs: []float64{5}, targets: map[int]int{1: 0}}
	if _, err := vector(t, p, 0, [3]int{0, 64, 2}, [3]int{90, 64, 2}); err == nil {
		t.Error("the run ended")
	}
}

// TestPlannersThatNeverEnd: a run whose planner does nothing but tick ends with one line.
func TestPlannersThatNeverEnd(t *testing.T) {
	const workers, concurrency = 1, 0
	rows := requests([3]int{0, 64, 4}, [3]int{3_600_000, 64, 4})
	for name, test := range map[string]struct {
		target int
		stepMs float64
		want   string
	}{
		"no workers":    {0, 10, "while requests wait and nothing else happens"},
		"no time":       {1, 1e-3, "ticks in 0.1"},
		"a second each": {1, 1000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, `{"block_size":64,"num_gpu_blocks":1024}`, rows, workers, concurrency)
			cfg.Planner = &metronome{target: test.target, stepMs: test.stepMs}
			_, err := Run(cfg)
			if got := fmt.Sprint(err); err == nil && test.want != "" ||
				err != nil && (test.want == "" || !strings.Contains(got, test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// metronome ticks at equal distances and always wants as many workers.
type metronome struct {
	target int
	stepMs float64
}

func (*metronome) Wants() planner.Wants              { return planner.Wants{} }
func (m *metronome) InitialTickMs() (float64, error) { return m.stepMs, nil }
func (m *metronome) OnTick(t *planner.Tick) (planner.Decision, error) {
	return planner.Decision{Prefill: planner.Unchanged, Decode: m.target, NextMs: t.NowMs + m.stepMs}, nil
}
