package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// loadLanes reads rows of agentic_mooncake or another format, for the given number of lanes.
func loadLanes(t *testing.T, format Format, rows string, lanes int) *Workload {
	t.Helper()
	w, err := Load(format, []Source{{Name: "t", Reader: strings.NewReader(rows)}},
		TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Schedule(false, 1); err != nil {
		t.Fatal(err)
	}
	if err := w.TakeLanes(lanes); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestLanes: b waits for a, and d for c and e; f is by itself. Each takes 2 ms. Graphs begin in the order of their
// times.
func TestLanes(t *testing.T) {
	row := func(name string, atMs, delayMs int, waits string) string {
		return fmt.Sprintf(`{"request_id":%q,"session_id":%q,"timestamp":%d,"delay":%d,"wait_for":[%s],"hash_ids":[1],`+
			`"output_length":1}`+"\n", name, name, atMs, delayMs, waits)
	}
	rows := row("f", 900, 0, "") + row("a", 100, 0, "") + row("b", 0, 5, `"a"`) + row("e", 505, 0, "") +
		row("c", 500, 0, "") + row("d", 0, 1, `"c","e"`)
	for lanes, want := range map[int]string{
		1: "a.0@0 b.0@7 c.0@9 e.0@14 d.0@17 f.0@19",
		2: "a.0@0 c.0@0 e.0@5 b.0@7 d.0@8 f.0@9",
		3: "f.0@0 a.0@0 c.0@0 e.0@5 b.0@7 d.0@8",
		9: "f.0@0 a.0@0 c.0@0 e.0@5 b.0@7 d.0@8",
	} {
		if got := strings.Join(serve(loadLanes(t, Agentic, rows, lanes), 0, 2), " "); got != want {
			t.Errorf("%d lanes:\ngot  %s\nwant %s", lanes, got, want)
		}
	}
}

// TestLanesOfSessions: agents without sub-agents are sessions that wait for each other in the same way.
func TestLanesOfSessions(t *testing.T) {
	format, known := ParseFormat("weka")
	if !known {
		t.Fatal("there is no weka")
	}
	session := func(id string) string {
		return `{"id":"` + id + `","block_size":4,"hash_id_scope":"local","requests":[{"t":0,"type":"n","in":4,"out":1,` +
			`"hash_ids":[1],"api_time":1},` +
			`{"t":3,"type":"n","in":4,"out":1,"hash_ids":[1],"api_time":1,"think_time":2}]}` + "\n"
	}
	w := loadLanes(t, format, session("a")+session("b")+session("c"), 2)
	const want = "a.0@0 b.0@0 a.1@2002 b.1@2002 c.0@2004 c.1@4006"
	if got := strings.Join(serve(w, 0, 2), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if w.Flat() {
		t.Error("its workers may not run by themselves")
	}
}

// TestLanesAgainstModel serves random graphs: in the order of their recorded starts each begins when the first of those
// in flight ends.
func TestLanesAgainstModel(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		size, lanes := 1+rng.IntN(40), 1+rng.IntN(4)
		var rows strings.Builder
		for i := range size {
			waits := ""
			if i > 0 && rng.IntN(3) > 0 {
				waits = fmt.Sprintf("%q", fmt.Sprint(rng.IntN(i)))
			}
			fmt.Fprintf(&rows, `{"request_id":"%d","timestamp":%d,"wait_for":[%s],"delay":%d,"hash_ids":[1],"output_length":1}`+
				"\n", i, rng.IntN(50), waits, rng.IntN(9))
		}
		w := loadLanes(t, Agentic, rows.String(), lanes)
		of := components(w.WaitFor)
		recorded, begins, ends, order := map[int32]float64{}, map[int32]float64{}, map[int32]float64{}, []int32(nil)
		for turn, graph := range of {
			if start := w.Sessions[turn].StartMs; len(w.WaitFor[turn]) == 0 {
				if earliest, known := recorded[graph]; !known {
					recorded[graph] = start
					order = append(order, graph)
				} else {
					recorded[graph] = min(earliest, start)
				}
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(recorded[a], recorded[b]) })
		sent := 0
		const takesMs = 3
		drive(NewDriver(w, 0), takesMs, func(turn int32, arrivalMs float64) {
			sent++
			graph := of[turn]
			if _, known := begins[graph]; !known {
				begins[graph] = arrivalMs
			}
			ends[graph] = arrivalMs + takesMs
		}, func(int32) bool { return rng.IntN(3) == 0 })
		if sent != size {
			t.Errorf("seed %d: %d of %d were sent", seed, sent, size)
		}
		var flying []float64 // when those in flight end
		for i, graph := range order {
			want := 0.0
			if i >= lanes {
				slices.Sort(flying)
				want, flying = flying[0], flying[1:]
			}
			if begins[graph] != want {
				t.Errorf("seed %d: with %d lanes graph %d begins at %v, want %v", seed, lanes, i, begins[graph], want)
			}
			flying = append(flying, ends[graph])
		}
	}
}

func TestLanesAreRefused(t *testing.T) {
	w := mustLoad(t, `{"timestamp":0,"output_length":1,"hash_ids":[1]}`)
	if err := w.TakeLanes(2); err == nil || !strings.Contains(err.Error(), "a trace of agents") {
		t.Errorf("got %v", err)
	}
}
