package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// drive releases and ends turns one instant after the other; every turn takes takesMs.
func drive(d *Driver, takesMs float64, sent func(turn int32, arrivalMs float64), rejects func(turn int32) bool) {
	type running struct {
		turn int32
		atMs float64
	}
	var busy []running
	now := 0.0
	for {
		for len(busy) > 0 && busy[0].atMs == now {
			if turn := busy[0].turn; rejects(turn) {
				d.Rejected(turn, now)
			} else {
				d.Completed(turn, now)
			}
			busy = busy[1:]
		}
		for {
			turn, arrival, ok := d.Next(now)
			if !ok {
				break
			}
			sent(turn, arrival)
			busy = append(busy, running{turn, now + takesMs})
		}
		next, ok := d.NextMs()
		if len(busy) > 0 && (!ok || busy[0].atMs <= next) {
			next, ok = busy[0].atMs, true
		}
		if !ok {
			return
		}
		now = next
	}
}

// serve lists "turn@arrival" of a workload that is served with takesMs for each turn.
func serve(w *Workload, maxSessions int, takesMs float64) []string {
	var seen []string
	drive(NewDriver(w, maxSessions), takesMs, func(turn int32, arrival float64) {
		seen = append(seen, fmt.Sprintf("%s.%d@%v", w.SessionName(turn), w.Turns[turn].Index, arrival))
	}, func(int32) bool { return false })
	return seen
}

func TestDriver(t *testing.T) {
	row := func(session, times string) string {
		return fmt.Sprintf(`{"session_id":"%s","output_length":1,"hash_ids":[1]%s}`, session, times) + "\n"
	}
	ties := row("a", `,"timestamp":5`) + row("b", `,"timestamp":0`) + row("c", `,"timestamp":5`) +
		row("b", `,"delay":3`) + row("b", `,"delay":0`)
	for _, c := range []struct {
		name        string
		text        string
		maxSessions int
		want        string
	}{
		{"sorted by start, ties by first appearance; b.1 becomes ready at 5 too, and b stands before c", ties, 0,
			"b.0@0 a.0@5 b.1@5 c.0@5 b.2@7"},
		{"one session at a time keeps its place while it thinks", ties, 1, "a.0@0 b.0@2 b.1@7 b.2@9 c.0@11"},
		{"two", ties, 2, "a.0@0 b.0@0 c.0@2 b.1@5 b.2@7"},
		{"more than there are", ties, 9, "a.0@0 b.0@0 c.0@0 b.1@5 b.2@7"},
	} {
		w := mustLoad(t, c.text)
		if err := w.Schedule(c.maxSessions > 0, 1); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(serve(w, c.maxSessions, 2), " "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestDriverArrivalOfALateRelease(t *testing.T) {
	text := `{"session_id":"a","timestamp":0,"output_length":1,"hash_ids":[1]}
{"session_id":"a","delay":1,"output_length":1,"hash_ids":[1]}`
	for maxSessions, want := range []float64{3, 10} {
		d := NewDriver(mustLoad(t, text), maxSessions)
		d.Next(0)
		d.Completed(0, 2)
		if _, _, ok := d.Next(2.5); ok || d.Unreleased() != 1 {
			t.Errorf("released before its time")
		}
		if _, arrival, ok := d.Next(10); !ok || arrival != want {
			t.Errorf("at most %d sessions: got %v, want %v", maxSessions, arrival, want)
		}
		if _, ok := d.NextMs(); ok || d.Unreleased() != 0 {
			t.Errorf("at most %d sessions: something is left", maxSessions)
		}
	}
}

// slowDriver does what Driver does by looking at everything each time.
type slowDriver struct {
	w           *Workload
	maxSessions int
	state       []slowSession
}

type slowSession struct {
	turns   []int32 // left
	readyMs float64
	ready   bool
	active  bool
}

func newSlowDriver(w *Workload, maxSessions int) *slowDriver {
	d := &slowDriver{w: w, maxSessions: maxSessions, state: make([]slowSession, len(w.Sessions))}
	for i := range w.Turns {
		s := &d.state[w.Turns[i].Session]
		s.turns = append(s.turns, int32(i))
	}
	for i := range d.state {
		if maxSessions == 0 {
			d.state[i].ready, d.state[i].active, d.state[i].readyMs = true, true, w.Sessions[i].StartMs
		}
	}
	d.fill(0)
	return d
}

func (d *slowDriver) fill(nowMs float64) {
	active := 0
	for i := range d.state {
		s := &d.state[i]
		if s.active && len(s.turns) > 0 {
			active++
		}
		if !s.active && active < d.maxSessions {
			s.active, s.ready, s.readyMs = true, true, nowMs
			active++
		}
	}
}

func (d *slowDriver) next(nowMs float64) (turn int32, arrivalMs float64, ok bool) {
	best := -1
	for i := range d.state {
		if s := &d.state[i]; s.ready && s.readyMs <= nowMs && (best < 0 || s.readyMs < d.state[best].readyMs) {
			best = i
		}
	}
	if best < 0 {
		return 0, 0, false
	}
	s := &d.state[best]
	s.ready = false
	if d.maxSessions > 0 {
		return s.turns[0], nowMs, true
	}
	return s.turns[0], s.readyMs, true
}

func (d *slowDriver) completed(turn int32, nowMs float64) {
	s := &d.state[d.w.Turns[turn].Session]
	if s.turns = s.turns[1:]; len(s.turns) > 0 {
		s.ready, s.readyMs = true, nowMs+d.w.Turns[s.turns[0]].DelayMs
	}
	d.fill(nowMs)
}

func TestDriverAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var rows strings.Builder
		known := map[int]bool{}
		for range 1 + rng.IntN(25) {
			session := rng.IntN(8)
			when := fmt.Sprintf(`"timestamp":%d`, rng.IntN(6))
			if known[session] {
				when = fmt.Sprintf(`"delay":%d`, rng.IntN(4))
			}
			known[session] = true
			fmt.Fprintf(&rows, `{"session_id":"%d",%s,"output_length":1,"hash_ids":[1]}`+"\n", session, when)
		}
		w := mustLoad(t, rows.String())
		maxSessions := rng.IntN(4)
		if err := w.Schedule(maxSessions > 0, 1); err != nil {
			t.Fatal(err)
		}
		compareDrivers(t, rng, w, maxSessions)
	}
}

// compareDrivers drives both at random, always to the end.
func compareDrivers(t *testing.T, rng *rand.Rand, w *Workload, maxSessions int) {
	t.Helper()
	fast, slow := NewDriver(w, maxSessions), newSlowDriver(w, maxSessions)
	var busy []int32
	released := 0
	for now := 0.0; released < len(w.Turns) || len(busy) > 0; now++ {
		for {
			turn, arrival, ok := fast.Next(now)
			wantTurn, wantArrival, wantOK := slow.next(now)
			if turn != wantTurn || arrival != wantArrival || ok != wantOK {
				t.Fatalf("at %v: got turn %d at %v (%v), want %d at %v (%v)", now, turn, arrival, ok, wantTurn,
					wantArrival, wantOK)
			}
			if !ok {
				break
			}
			busy = append(busy, turn)
			released++
		}
		if fast.Unreleased() != len(w.Turns)-released {
			t.Fatalf("%d unreleased of %d, %d released", fast.Unreleased(), len(w.Turns), released)
		}
		for len(busy) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(busy))
			turn := busy[i]
			busy = slices.Delete(busy, i, i+1)
			fast.Completed(turn, now)
			slow.completed(turn, now)
		}
	}
	if _, ok := fast.NextMs(); ok {
		t.Fatal("something is left")
	}
}
