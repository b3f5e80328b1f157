package sharing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestTwoLanes: the picture in the head of the package, without and with a third move that begins later.
func TestTwoLanes(t *testing.T) {
	for _, c := range []struct {
		kept, third bool
		want        string
	}{
		{want: "14 13"}, {third: true, want: "18 16 18"},
		{kept: true, third: true, want: "14 17 18"},
	} {
		l := New(1)
		lanes := []*Lane{l.Lane(), l.Lane(), l.Lane()}
		moves := []*Move{lanes[0].Submit(0, 0, 10, 1)}
		l.Advance(5)
		moves = append(moves, lanes[1].Submit(5, 0, 4, 1))
		if c.kept {
			l.Keep(lanes[0], moves[0])
		}
		l.Advance(7)
		if c.third {
			moves = append(moves, lanes[2].Submit(7, 0, 4, 1))
		}
		foreseen := ""
		for _, m := range moves {
			foreseen += fmt.Sprint(" ", l.Foresee(m))
		}
		l.Advance(100)
		got := ""
		for _, m := range moves {
			_, endMs, _ := m.Ended()
			got += fmt.Sprint(" ", endMs)
		}
		if got != " "+c.want || foreseen != got {
			t.Errorf("%+v: got%s, foreseen%s", c, got, foreseen)
		}
	}
}

// TestLoneLane: a lane by itself moves one thing after the other, as slowly as the slower of both links.
func TestLoneLane(t *testing.T) {
	for _, c := range []struct{ link, lane, want float64 }{{0, 0, 3}, {0, 2, 23}, {2, 0, 23}, {2, 0.5, 23},
		{0.5, 2, 23}} {
		l := New(c.link)
		n := l.Lane()
		n.Submit(0, 1, 4, c.lane)
		m := n.Submit(0, 2, 6, c.lane)
		l.Advance(1000)
		if _, endMs, ended := m.Ended(); endMs != c.want || !ended {
			t.Errorf("%+v: ends at %v", c, endMs)
		}
	}
}

// TestShares draws moves. The link is never asked for more than it has, everything ends, what is kept ends when it was
// to, and asking changes nothing of that.
func TestShares(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := New(float64(rng.IntN(3)))
		lanes := make([]*Lane, 1+rng.IntN(5))
		for i := range lanes {
			lanes[i] = l.Lane()
		}
		var moves []*Move
		promised := map[*Move]float64{}
		blocks, atMs := 0, 0.0
		for range 3 + rng.IntN(20) {
			i, n, blockMs := rng.IntN(len(lanes)), rng.IntN(6), float64(rng.IntN(4))/2
			m := lanes[i].Submit(atMs+float64(rng.IntN(2)), float64(rng.IntN(3)), n, blockMs)
			moves = append(moves, m)
			blocks += n
			if rng.IntN(4) == 0 {
				promised[m] = l.Keep(lanes[i], m)
			}
			l.Foresee(moves[rng.IntN(len(moves))])
			if rng.IntN(2) == 0 {
				atMs += rng.Float64() * 5
				l.Advance(atMs)
			}
			sum := 0.0
			l.next()
			for _, m := range l.moving {
				sum += m.share
			}
			if sum > l.rate*(1+1e-9) {
				t.Fatalf("seed %d: shares of %v of a link of %v", seed, sum, l.rate)
			}
		}
		l.Advance(1e6)
		last := 0.0
		for i, m := range moves {
			beganMs, endMs, ended := m.Ended()
			if last = max(last, endMs); !ended || beganMs < m.fromMs || endMs < beganMs {
				t.Fatalf("seed %d: move %d: %+v", seed, i, m)
			}
			if at, kept := promised[m]; kept && math.Abs(at-endMs) > 1e-9 {
				t.Fatalf("seed %d: move %d was to end at %v, and ended at %v", seed, i, at, endMs)
			}
		}
		if ms := float64(blocks) / l.rate; last < ms*(1-1e-9) {
			t.Fatalf("seed %d: %d blocks moved by %v ms, the link takes %v", seed, blocks, last, ms)
		}
	}
}
