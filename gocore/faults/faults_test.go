package faults

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	text := `
# a comment
{"kind": "crash", "at_ms": 5, "target": "worker:1", "duration_ms": 30}

{"kind": "slow", "mtbf_s": 60, "mttr_s": 2, "target": "worker:*", "factor": 4}
{"kind": "restart", "at_ms": 7, "target": "random:2", "drain": true}
{"kind": "events_lost", "at_ms": 7}
`
	got, err := Parse(text, Layout{Decode: 2})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, f := range got {
		shown = append(shown, string(f.Kind)+" "+f.Target.String())
	}
	if want := []string{"crash worker:1", "slow worker:*", "restart random:2", "events_lost *"}; !slices.Equal(shown,
		want) {
		t.Errorf("got %q, want %q", shown, want)
	}
	if c := got[0]; c.AtMs != 5 || c.DurationMs != 30 || c.Factor != 1 || !math.IsNaN(c.DetectionMs) ||
		c.Detection(9) != 9 || c.Drawn() {
		t.Errorf("got %+v", c)
	}
	if s := got[1]; s.MTBFMs != 60_000 || s.MTTRMs != 2000 || s.Factor != 4 || !s.Drawn() {
		t.Errorf("got %+v", s)
	}
	if r := got[2]; r.DurationMs != 0 || !r.Drain || r.Detection(9) != 0 || !r.Drawn() {
		t.Errorf("got %+v", r)
	}
	list, err := Parse(`[{"kind": "link_down", "at_ms": 1, "duration_ms": 5, "target": "prefill:0"}]`,
		Layout{TwoPools: true, Prefill: 1, Decode: 1})
	if err != nil || !list[0].Links() || !list[0].Target.Has(Prefill, 0) || list[0].Target.Has(Decode, 0) ||
		list[0].Target.Has(Prefill, 1) {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestRefusals(t *testing.T) {
	one, two := Layout{Decode: 2}, Layout{TwoPools: true, Prefill: 1, Decode: 2}
	for _, c := range []struct {
		layout     Layout
		text, want string
	}{
		{one, `{"kind":"boom"}`, `line 1: kind: got "boom", want one of crash, restart,`},
		{one, `{"at_ms":1}`, `line 1: kind: `},
		{one, `{"kind":"crash","target":"worker:0"}`, "at_ms: got nothing, want either at_ms, the time, or mtbf_s"},
		{one, `{"kind":"crash","target":"worker:0","at_ms":1,"mtbf_s":2}`, "at_ms: got 1 together with mtbf_s"},
		{one, `{"kind":"crash","at_ms":1}`, `target: got nothing, want "worker:3"`},
		{one, "\n" + `{"kind":"crash","at_ms":-1,"target":"worker:0"}`, "line 2: at_ms: got -1"},
		{one, `{"kind":"crash","at_ms":1,"target":"worker:2"}`,
			`target: got "worker:2", want worker:0 to worker:1, as there are 2 workers`},
		{one, `{"kind":"crash","at_ms":1,"target":"prefill:0"}`, `in a run with one pool`},
		{two, `{"kind":"crash","at_ms":1,"target":"worker:0"}`, `in a run with two pools`},
		{two, `{"kind":"crash","at_ms":1,"target":"decode:01"}`, `target: got "decode:01"`},
		{two, `{"kind":"crash","at_ms":1,"target":"random:0"}`, `target: got "random:0"`},
		{one, `{"kind":"link_down","at_ms":1}`, "kind: got link_down, want another one in a run with one pool"},
		{one, `{"kind":"slow","at_ms":1,"target":"worker:0"}`, "factor: got nothing"},
		{one, `{"kind":"slow","at_ms":1,"target":"worker:0","factor":0}`, "factor: got 0"},
		{one, `{"kind":"pause","at_ms":1,"target":"worker:0","factor":2}`,
			"factor: got 2, want it left out with kind pause"},
		{one, `{"kind":"pause","mtbf_s":1,"target":"worker:0"}`,
			"duration_ms: got nothing, want it, or mttr_s, with mtbf_s"},
		{one, `{"kind":"crash","mtbf_s":1e-300,"target":"worker:*","duration_ms":0}`,
			"mtbf_s: got 1e-300, want a finite number from 0.001"},
		{one, `{"kind":"pause","at_ms":1,"target":"worker:0","duration_ms":1,"mttr_s":1}`,
			"mttr_s: got 1, want it left out"},
		{one, `{"kind":"crash","at_ms":1,"target":"worker:0","drain":true}`,
			"drain: got true, want it left out with kind crash"},
		{one, `{"kind":"crash","at_ms":1,"target":"worker:0","delay":1}`, `delay`},
		{one, `{"kind":"crash"`, "line 1: "},
		{one, `[{"kind":"crash","at_ms":1,"target":"worker:0"},{"kind":1}]`, "fault 2: kind: "},
		{one, `[1`, "not a JSON list of objects"},
	} {
		if _, err := Parse(c.text, c.layout); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestClock: means are those asked for, and places draw apart from each other.
func TestClock(t *testing.T) {
	f := &Fault{MTBFMs: 100, MTTRMs: 7}
	clock, sum, lasts := NewClock(1, 0, Workers, 0), 0.0, 0.0
	const n = 20_000
	for range n {
		sum += clock.AfterMs(f)
		lasts += clock.LastsMs(f)
	}
	if math.Abs(sum/n-100) > 3 || math.Abs(lasts/n-7) > 0.3 {
		t.Errorf("means %v and %v, want 100 and 7", sum/n, lasts/n)
	}
	first := map[float64]bool{}
	for fault := range 3 {
		for _, pool := range []Pool{Workers, Prefill, Decode} {
			for place := range 3 {
				first[NewClock(1, fault, pool, place).AfterMs(f)] = true
			}
		}
	}
	if len(first) != 27 {
		t.Errorf("%d different clocks of 27", len(first))
	}
}

func TestPick(t *testing.T) {
	clock, counts := NewClock(3, 0, AnyPool, -1), map[int]int{}
	for range 3000 {
		picked := Pick(clock, 2, []int{4, 5, 6})
		if len(picked) != 2 || picked[0] >= picked[1] {
			t.Fatalf("got %v", picked)
		}
		for _, i := range picked {
			counts[i]++
		}
	}
	for i, n := range counts {
		if n < 1900 || n > 2100 {
			t.Errorf("%d was drawn %d times, want about 2000", i, n)
		}
	}
	if all := Pick(clock, 9, []int{1}); !slices.Equal(all, []int{1}) {
		t.Errorf("got %v", all)
	}
}

// TestAround: ten requests per second until 50 s, five during the fault until 70 s, then ten again.
func TestAround(t *testing.T) {
	var good []float64
	for ms := 100.0; ms <= 120_000; ms += 100 {
		if n := int(ms / 100); ms <= 50_000 || ms > 70_000 || n%2 == 0 {
			good = append(good, ms)
		}
	}
	g := Around(good, 50_000, 70_000, 120_000)
	want := Goodput{BeforeRPS: 10, DuringRPS: 5, AfterRPS: 10, RecoveryMs: 29_000}
	if g != want {
		t.Errorf("got %+v, want %+v", g, want)
	}
	if g := Around(good, 90_000, 91_000, 120_000); g.RecoveryMs != 0 || math.Abs(g.BeforeRPS-10) > 0.1 ||
		g.DuringRPS != 10 {
		t.Errorf("a fault without effect: got %+v", g)
	}
	if g := Around(good[:600], 50_000, math.Inf(1), 60_000); !math.IsNaN(g.RecoveryMs) || !math.IsNaN(g.AfterRPS) {
		t.Errorf("a fault that never ends: got %+v", g)
	}
	if g := Around(nil, 0, 10, 100); !math.IsNaN(g.BeforeRPS) || g.DuringRPS != 0 {
		t.Errorf("without requests: got %+v", g)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"kind":"crash","at_ms":1,"target":"worker:0"}`)
	f.Add(`[{"kind":"slow","mtbf_s":1,"mttr_s":1,"target":"random:1","factor":2}]`)
	f.Fuzz(func(t *testing.T, text string) {
		found, err := Parse(text, Layout{Decode: 3})
		if err != nil {
			return
		}
		for _, fault := range found {
			if fault.Factor <= 0 || fault.AtMs < 0 || fault.DurationMs < 0 || fault.MTBFMs < 0 {
				t.Errorf("%q: got %+v", text, fault)
			}
		}
	})
}

// TestAreas: every kind says what it concerns.
func TestAreas(t *testing.T) {
	for _, r := range kinds {
		if r.on < onWorkers || r.on > onStartUps {
			t.Errorf("%s concerns nothing that is known: %d", r.kind, r.on)
		}
	}
}
