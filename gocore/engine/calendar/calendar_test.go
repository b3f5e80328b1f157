package calendar

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type request struct {
	place int
	pass  int // under which it was entered
	entry Entry[*request]
}

func byPlace(a, b *request) int { return a.place - b.place }

// TestCalendar enters requests at random, and again when they are due, and compares with a search through all of them.
func TestCalendar(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, days := range []int{1, 2, 16, 64} {
		c := New(days, byPlace)
		var entered []*request
		for pass := range 2000 {
			if rng.IntN(3) == 0 {
				r := &request{place: rng.IntN(1000), pass: pass + rng.IntN(days)}
				r.entry.Request = r
				entered = append(entered, r)
				c.Enter(&r.entry, r.pass)
			}
			var want []*request
			for _, r := range entered {
				if r.pass == pass {
					want = append(want, r)
				}
			}
			due := 0
			for e := c.Due(pass); e != nil; e = e.Next() {
				due++
			}
			got := c.Take(pass)
			if due != len(want) || len(got) != len(want) || !slices.IsSortedFunc(got, byPlace) {
				t.Fatalf("%d days, pass %d: %d due, %d taken, want %d in running order", days, pass, due, len(got), len(want))
			}
			for _, r := range want {
				if !slices.Contains(got, r) {
					t.Fatalf("%d days, pass %d: a request is missing", days, pass)
				}
			}
			for _, r := range slices.Clone(got) {
				if rng.IntN(2) == 0 {
					r.pass = pass + 1 + rng.IntN(days)
					c.Enter(&r.entry, r.pass)
				}
			}
		}
		c.Clear()
		for pass := range days {
			if c.Due(pass) != nil {
				t.Fatalf("%d days: a request is left after Clear", days)
			}
		}
	}
}
