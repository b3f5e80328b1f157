package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestDependenciesAgainstModel serves random graphs and looks up for every request, when it is sent, whether all it
// waits for is over and for how long.
func TestDependenciesAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		size := 1 + rng.IntN(30)
		order := rng.Perm(size)
		var rows strings.Builder
		for i := range size {
			var waits []string
			for range rng.IntN(4) {
				if j := rng.IntN(size); order[j] < order[i] {
					waits = append(waits, fmt.Sprintf("%q", fmt.Sprint(j)))
				}
			}
			fmt.Fprintf(&rows, `{"request_id":"%d","timestamp":%d,"wait_for":[%s],"delay":%d,"hash_ids":[1],"output_length":1}`+
				"\n",
				i, rng.IntN(20), strings.Join(waits, ","), rng.IntN(9))
		}
		w, err := Load(Agentic, []Source{{Name: "t", Reader: strings.NewReader(rows.String())}},
			TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Schedule(false, 1); err != nil {
			t.Fatal(err)
		}
		const takesMs = 5
		over := map[int32]float64{}
		last := 0.0
		drive(NewDriver(w, 0), takesMs, func(turn int32, arrivalMs float64) {
			want := w.Sessions[turn].StartMs
			if awaited := w.WaitFor[turn]; len(awaited) > 0 {
				want = 0
				for _, earlier := range awaited {
					if _, is := over[earlier]; !is {
						t.Errorf("seed %d: %d is sent before %d is over", seed, turn, earlier)
					}
					want = max(want, over[earlier])
				}
				want += w.Turns[turn].DelayMs
			}
			if arrivalMs != want || arrivalMs < last {
				t.Errorf("seed %d: %d is sent at %v, want %v", seed, turn, arrivalMs, want)
			}
			last = arrivalMs
			over[turn] = arrivalMs + takesMs
		}, func(int32) bool { return rng.IntN(3) == 0 })
		if len(over) != size {
			t.Errorf("seed %d: %d of %d were sent", seed, len(over), size)
		}
	}
}

// TestCircle looks for circles in random graphs, and follows those found.
func TestCircle(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		waitFor := make([][]int32, 2+rng.IntN(8))
		for i := range waitFor {
			for range rng.IntN(3) {
				if j := rng.IntN(len(waitFor)); j != i {
					waitFor[i] = append(waitFor[i], int32(j))
				}
			}
		}
		turns := circle(waitFor)
		if (turns != nil) != anyCircle(waitFor) {
			t.Fatalf("%v: got %v", waitFor, turns)
		}
		for i, turn := range turns {
			if !slices.Contains(waitFor[turn], turns[(i+1)%len(turns)]) {
				t.Fatalf("%v: %v is no circle", waitFor, turns)
			}
		}
		found += min(len(turns), 1)
	}
	if found == 0 || found == 300 {
		t.Errorf("%d of 300 graphs have circles", found)
	}
}

// anyCircle follows every path as far as a path without repetition can go.
func anyCircle(waitFor [][]int32) bool {
	var deeper func(turn int32, steps int) bool
	deeper = func(turn int32, steps int) bool {
		if steps > len(waitFor) {
			return true
		}
		return slices.ContainsFunc(waitFor[turn], func(next int32) bool { return deeper(next, steps+1) })
	}
	for turn := range waitFor {
		if deeper(int32(turn), 0) {
			return true
		}
	}
	return false
}

func TestLongCircleIsCutShort(t *testing.T) {
	names := strings.Split("abcdefghi", "")
	got := circleFault(names, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}).Error()
	const want = `wait_for: a dependency cycle, so that none of these can start: "a" -> "b" -> "c" -> "d" -> ` +
		`"e" -> "f" -> ... (3 more) -> "a"`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
