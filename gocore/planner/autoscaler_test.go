package planner

import (
	"math"
	"strings"
	"testing"
)

// load returns a pool at a tick: active workers with the given number of waiting requests each, and starting ones.
func load(waiting []int, starting, held int) Pool {
	p := Pool{Active: len(waiting), Starting: starting, Total: len(waiting) + starting, Held: held}
	for i, n := range waiting {
		p.Gauges = append(p.Gauges, Gauge{Worker: i, Waiting: n, Running: 2 * n, ActiveBlocks: n, Blocks: 100})
	}
	return p
}

// same returns n workers with equal queues.
func same(n, waiting int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = waiting
	}
	return all
}

func parse(t testing.TB, text string) *Autoscaler {
	t.Helper()
	a, err := ParseAutoscaler(text, false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// at returns what an autoscaler wants of a pool at a tick.
func at(t testing.TB, a *Autoscaler, nowS float64, p Pool, ttftsMs ...float64) int {
	t.Helper()
	d, err := a.OnTick(&Tick{NowMs: 1000 * nowS, Decode: p, Traffic: Traffic{TTFTsMs: ttftsMs}})
	if err != nil {
		t.Fatal(err)
	}
	return d.Decode
}

// TestHPAProposals: one sync at 15 s, without a rate limit that matters.
func TestHPAProposals(t *testing.T) {
	const fast = `"max":100,"stabilization_down_s":0,"up":{"policies":[{"type":"pods","value":100,"period_s":15}]}`
	for _, c := range []struct {
		name, config string
		pool         Pool
		ttfts        []float64
		want         int
	}{
		{"average above target", `"target":5`, load(same(2, 10), 0, 0), nil, 4},
		{"average at target", `"target":5`, load(same(2, 5), 0, 0), nil, Unchanged},
		{"within tolerance below", `"target":10`, load(same(3, 9), 0, 0), nil, Unchanged},
		{"1100/1000 is out of tolerance: 0.10000000000000009", `"target":10`, load(same(3, 11), 0, 0), nil, 4},
		{"average below target", `"target":10`, load(same(4, 5), 0, 0), nil, 2},
		{"a metric of 0 gives min", `"target":5,"min":2`, load(same(4, 0), 0, 0), nil, 2},
		{"thousandths: 0.3/0.1 are 3", `"target":0.1,"metric":"kv_cache_usage"`, load(same(1, 30), 0, 0), nil, 3},
		{"no worker: disabled", `"target":5`, load(nil, 0, 50), nil, Unchanged},
		{"only starting workers: no value", `"target":5`, load(nil, 2, 50), nil, Unchanged},
		{"above max", `"target":5,"max":3`, load(same(5, 5), 0, 0), nil, 3},
		{"below min", `"target":5,"min":3`, load(same(1, 5), 0, 0), nil, 3},
		{"starting count as 0 on the way up", `"target":5`, load(same(2, 20), 2, 0), nil, 8},
		{"starting turn growth around: leave it", `"target":5`, load(same(2, 6), 2, 0), nil, Unchanged},
		{"starting count as the target on the way down", `"target":10`, load(same(2, 2), 2, 0), nil, 3},
		{"router-held requests count", `"target":5`, load(same(2, 0), 0, 20), nil, 4},
		{"total", `"target":5,"kind":"total"`, load(same(2, 10), 0, 3), nil, 5},
		{"total within tolerance", `"target":10,"kind":"total"`, load(same(2, 10), 0, 1), nil, Unchanged},
		{"value", `"target":10,"kind":"value"`, load(same(2, 10), 0, 0), nil, 4},
		{"running", `"target":4,"metric":"num_requests_running"`, load(same(2, 4), 0, 0), nil, 4},
		{"ttft", `"target":100,"metric":"ttft_p95_ms"`, load(same(2, 0), 0, 0), []float64{250, 100, 100}, 5},
		{"ttft without a completed request", `"target":100,"metric":"ttft_p95_ms"`, load(same(2, 0), 0, 0), nil,
			Unchanged},
		{"the largest of several", `"metrics":[{"target":5},{"target":2,"metric":"num_requests_running"}]`,
			load(same(1, 10), 0, 0), nil, 10},
		{"one without a value: no shrinking", `"metrics":[{"target":5},{"target":9,"metric":"ttft_p95_ms"}]`,
			load(same(4, 0), 0, 0), nil, Unchanged},
		{"one without a value: growing", `"metrics":[{"target":5},{"target":9,"metric":"ttft_p95_ms"}]`,
			load(same(2, 10), 0, 0), nil, 4},
	} {
		text := `{"policy":"hpa",` + c.config + `,` + fast + `}`
		if strings.Contains(c.config, `"max"`) {
			text = strings.Replace(text, `"max":100,`, "", 1)
		}
		if got := at(t, parse(t, text), 15, c.pool, c.ttfts...); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// TestHPAOverTime: what several syncs have to do with each other.
func TestHPAOverTime(t *testing.T) {
	type sync struct {
		atS           float64
		workers, busy int // active ones, and the waiting requests of each
		want          int
	}
	for _, c := range []struct {
		name, config string
		syncs        []sync
	}{
		{"by default up by 4 or 100 % in 15 s, whichever is more", `"target":1,"max":100`, []sync{
			{15, 1, 50, 5}, {30, 5, 50, 10}, {45, 10, 50, 20},
		}},
		{"down only after 300 s at less", `"target":10,"max":100`, []sync{
			{15, 4, 10, Unchanged}, {30, 4, 1, Unchanged}, {300, 4, 1, Unchanged}, {315, 4, 1, 1},
		}},
		{"up only after a window, to its least proposal", `"target":10,"max":100,"stabilization_up_s":30`, []sync{
			{15, 1, 50, Unchanged}, {30, 1, 30, 3},
		}},
		{"select min takes the smaller change", `"target":1,"max":100,"up":{"select":"min"}`,
			[]sync{{15, 1, 50, 2}, {30, 2, 50, 4}}},
		{"disabled", `"target":1,"max":100,"up":{"select":"disabled"}`, []sync{{15, 1, 50, Unchanged}}},
		{"one worker a minute", `"target":1,"max":100,"up":{"policies":[{"type":"pods","value":1,"period_s":60}]}`,
			[]sync{
				{15, 1, 50, 2}, {30, 2, 50, Unchanged}, {60, 2, 50, Unchanged}, {75, 2, 50, 3},
			}},
		{"a tenth down, and no fraction of a worker stays",
			`"target":10,"max":100,"stabilization_down_s":0,"down":{"policies":[{"type":"percent","value":10,"period_s":15}]}`,
			[]sync{
				{15, 10, 1, 9}, {30, 9, 1, 8},
			}},
		{"down disabled", `"target":10,"max":100,"stabilization_down_s":0,"down":{"select":"disabled"}`,
			[]sync{{15, 10, 1, Unchanged}}},
	} {
		a := parse(t, `{"policy":"hpa",`+c.config+`}`)
		for _, s := range c.syncs {
			for skipped := a.nextMs(); skipped < 1000*s.atS; skipped = a.nextMs() { // syncs in between see the same
				at(t, a, skipped/1000, load(same(s.workers, s.busy), 0, 0))
			}
			if got := at(t, a, s.atS, load(same(s.workers, s.busy), 0, 0)); got != s.want {
				t.Errorf("%s: at %v s: got %d, want %d", c.name, s.atS, got, s.want)
			}
		}
	}
}

// TestKEDA: polls wake a pool and put it to sleep, syncs scale it in between.
func TestKEDA(t *testing.T) {
	type tick struct {
		atS  float64
		pool Pool
		want int
	}
	busy, idle := load(same(2, 50), 0, 0), load(same(2, 0), 0, 0)
	for _, c := range []struct {
		name, config string
		ticks        []tick
	}{
		{"asleep until a request waits in the router", `"target":5`, []tick{
			{15, load(nil, 0, 3), Unchanged}, {30, load(nil, 0, 3), 1}, {45, load(nil, 1, 3), Unchanged},
		}},
		{"wakes to min", `"target":5,"min":2,"idle":0`, []tick{{30, load(nil, 0, 3), 2}}},
		{"activation is exclusive", `"target":5,"activation":3`,
			[]tick{{30, load(nil, 0, 3), Unchanged}, {60, load(nil, 0, 4), 1}}},
		{"the cool-down runs from the last active poll", `"target":5,"cooldown_s":60`, []tick{
			{30, busy, 6}, {60, idle, Unchanged}, {90, idle, Unchanged}, {120, idle, 0},
		}},
		{"initial cool-down", `"target":5,"cooldown_s":0,"initial_cooldown_s":60`,
			[]tick{{30, idle, Unchanged}, {60, idle, Unchanged}, {90, idle, 0}}},
		{"min above 0 without idle never sleeps", `"target":5,"min":2,"cooldown_s":0`,
			[]tick{{30, idle, Unchanged}, {60, idle, Unchanged}}},
		{"idle workers instead of 0", `"target":5,"min":2,"idle":1,"cooldown_s":0`, []tick{{30, idle, 1}}},
		{"a sync between polls scales, but not to 0", `"target":5,"stabilization_down_s":0`, []tick{{15, idle, 1}}},
		{"total: held requests count", `"target":5`, []tick{{15, load(same(1, 10), 0, 5), 3}}},
	} {
		a := parse(t, `{"policy":"keda",`+c.config+`}`)
		for _, k := range c.ticks {
			if got := at(t, a, k.atS, k.pool); got != k.want {
				t.Errorf("%s: at %v s: got %d, want %d", c.name, k.atS, got, k.want)
			}
		}
	}
}

func TestQueue(t *testing.T) {
	a := parse(t, `{"policy":"queue","target":4,"max":5,"sync_s":10}`)
	for _, c := range []struct {
		atS  float64
		pool Pool
		want int
	}{
		{10, load(same(2, 5), 0, 0), 3},
		{20, load(same(3, 5), 0, 90), 5},
		{30, load(same(5, 0), 0, 0), 1},
		{40, load(same(1, 4), 0, 0), Unchanged},
	} {
		if got := at(t, a, c.atS, c.pool); got != c.want {
			t.Errorf("at %v s: got %d, want %d", c.atS, got, c.want)
		}
	}
}

func TestSchedule(t *testing.T) {
	a := parse(t, `{"policy":"schedule","schedule":[[0,2],[10.5,0],[20,3]]}`)
	pool, wants, next := load(same(1, 0), 0, 0), []int{2, 0, 3}, []float64{10500, 20000, math.Inf(1)}
	for i, s := range []float64{0, 10.5, 20} {
		d, err := a.OnTick(&Tick{NowMs: 1000 * s, Decode: pool})
		if err != nil || d.Decode != wants[i] || d.NextMs != next[i] || d.Reason != "schedule" {
			t.Errorf("at %v s: got %+v, %v", s, d, err)
		}
	}
}

// TestTwoPools: each policy has its own clock and pool.
func TestTwoPools(t *testing.T) {
	a, err := ParseAutoscaler(`[{"policy":"queue","pool":"prefill","target":1,"sync_s":10},{"policy":"schedule",`+
		`"schedule":[[5,3],[10,4]]}]`, true)
	if err != nil {
		t.Fatal(err)
	}
	tick := Tick{NowMs: 5000, Prefill: load(same(1, 2), 0, 0), Decode: load(same(1, 9), 0, 0)}
	if d, _ := a.OnTick(&tick); d.Prefill != Unchanged || d.Decode != 3 || d.NextMs != 10_000 {
		t.Errorf("at 5 s: got %+v", d)
	}
	tick.NowMs = 10_000
	if d, _ := a.OnTick(&tick); d.Prefill != 2 || d.Decode != 4 || d.NextMs != 20_000 ||
		d.Reason != "queue: num_requests_waiting; schedule" {
		t.Errorf("at 10 s: got %+v", d)
	}
}

// TestParseAutoscaler: messages name the key, its value and what it may be.
func TestParseAutoscaler(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, "not a JSON object"},
		{`[]`, "got an empty list, want at least one policy"},
		{`{} {}`, "something follows"},
		{`{"policy":"vpa"}`, `policy: got "vpa", want hpa, keda, queue or schedule`},
		{`{"policy":"hpa"}`, "target: got nothing"},
		{`{"policy":"hpa","target":0}`, "target: got 0, want a number > 0"},
		{`{"policy":"hpa","target":"5"}`, "target: got a JSON string, want a number"},
		{`{"policy":"hpa","target":1e-9}`, "target: got 1e-09, want at least 0.001"},
		{`{"policy":"hpa","tarket":5}`, `got the unknown key "tarket"; did you mean "target"?`},
		{`{"policy":"hpa","target":5,"schedule":[]}`, "schedule: got [], want it left out with policy hpa"},
		{`{"policy":"hpa","target":5,"metric":"cpu"}`, `metric: got "cpu", want num_requests_waiting`},
		{`{"policy":"hpa","target":5,"kind":"sum"}`, `kind: got "sum", want average, total or value`},
		{`{"policy":"hpa","target":5,"metric":"ttft_p95_ms","kind":"total"}`,
			`kind: got "total", want value with metric ttft_p95_ms`},
		{`{"policy":"hpa","target":5,"metrics":[]}`, "metrics: got a list, want it alone"},
		{`{"policy":"hpa","metrics":[]}`, "metrics: got an empty list"},
		{`{"policy":"hpa","target":5,"min":0}`, "min: got 0, want 1 to 10000"},
		{`{"policy":"hpa","target":5,"min":4,"max":3}`, "max: got 3, want min or more"},
		{`{"policy":"hpa","target":5,"max":10001}`, "max: got 10001"},
		{`{"policy":"hpa","target":5,"min":1.5}`, "min: got a JSON number 1.5, want an integer"},
		{`{"policy":"hpa","target":5,"sync_s":0}`, "sync_s: got 0, want a number > 0"},
		{`{"policy":"hpa","target":5,"tolerance":-1}`, "tolerance: got -1, want a number >= 0"},
		{`{"policy":"hpa","target":5,"up":{"select":"most"}}`, `up.select: got "most", want max, min or disabled`},
		{`{"policy":"hpa","target":5,"up":{"policies":[]}}`, "up.policies: got an empty list"},
		{`{"policy":"hpa","target":5,"down":{"policies":[{"type":"pods"}]}}`, "down.policies: got no value or no period_s"},
		{`{"policy":"hpa","target":5,"down":{"policies":[{"type":"x"}]}}`,
			`down.policies.type: got "x", want pods or percent`},
		{`{"policy":"hpa","target":5,"pool":"prefill"}`, `pool: got "prefill", want decode, or it left out`},
		{`{"policy":"hpa","target":5,"pool":"both"}`, `pool: got "both", want prefill or decode`},
		{`{"policy":"keda","target":5,"metric":"ttft_p95_ms"}`, "metric: got ttft_p95_ms"},
		{`{"policy":"keda","target":5,"kind":"value"}`, "kind: got"},
		{`{"policy":"keda","target":5,"idle":1}`, "idle: got 1, want 0 to 0"},
		{`{"policy":"keda","target":5,"cooldown_s":-1}`, "cooldown_s: got -1"},
		{`{"policy":"queue"}`, "target: got nothing"},
		{`{"policy":"schedule"}`, "schedule: got nothing"},
		{`{"policy":"schedule","schedule":[[1,2],[1,3]]}`, "schedule: got [1 3], want times that increase"},
		{`{"policy":"schedule","schedule":[[1,2.5]]}`, "schedule: got [1 2.5], want [seconds, workers]"},
		{`[{"policy":"queue","target":1},{"policy":"queue","target":2}]`,
			"pool: got two policies for decode, want one for each pool"},
		{`[{"policy":"queue","target":1},{"policy":"queue","target":0}]`, "policy 2: target: got 0"},
		{`{"policy":"queue","target":1,"pool":"decode","max":3,"min":2,"sync_s":1,"up":{}}`,
			"up: got {}, want it left out with policy queue"},
	} {
		_, err := ParseAutoscaler(test.text, false)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.text, err, test.want)
		}
	}
}

// FuzzParseAutoscaler: whatever can be read decides within its bounds at every tick, and time goes on.
func FuzzParseAutoscaler(f *testing.F) {
	for _, text := range []string{
		`{"policy":"hpa","target":5,"up":{"policies":[{"type":"percent","value":50,"period_s":60}]}}`,
		`{"policy":"keda","target":5,"min":0,"cooldown_s":30}`,
		`[{"policy":"queue","target":4},{"policy":"schedule","pool":"prefill","schedule":[[0,2],[9,0]]}]`,
		`{"policy":"hpa","metrics":[{"metric":"ttft_p95_ms","target":500},{"metric":"kv_cache_usage","target":0.8}]}`,
	} {
		f.Add(text, uint16(3))
	}
	f.Fuzz(func(t *testing.T, text string, waiting uint16) {
		a, err := ParseAutoscaler(text, true)
		if err != nil {
			return
		}
		now, workers := -1.0, 1
		for range 20 {
			next := a.nextMs()
			if math.IsInf(next, 1) {
				return
			}
			if !(next > now) {
				t.Fatalf("%s: a tick at %v after one at %v", text, next, now)
			}
			now = next
			pool := load(same(min(workers, 50), int(waiting)), 0, int(waiting))
			d, err := a.OnTick(&Tick{NowMs: now, Prefill: pool, Decode: pool,
				Traffic: Traffic{TTFTsMs: []float64{1, float64(waiting)}}})
			if err != nil || d.Decode < Unchanged || d.Decode > MaxWorkers || d.Prefill < Unchanged ||
				d.Prefill > MaxWorkers {
				t.Fatalf("%s: got %+v, %v", text, d, err)
			}
			if d.Decode != Unchanged {
				workers = d.Decode
			}
			waiting = waiting*31 + 7
		}
	})
}
