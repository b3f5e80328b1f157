package calendar

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

type request struct {
	place int
	pass  int // under which it was entered
	plain int
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
				r := &request{place: rng.IntN(1000), pass: pass + rng.IntN(days), plain: rng.IntN(100)}
				r.entry.Request = r
				entered = append(entered, r)
				c.Enter(&r.entry, r.pass, r.plain)
			}
			var want []*request
			leastPlain := math.MaxInt32
			for _, r := range entered {
				if r.pass == pass {
					want = append(want, r)
					leastPlain = min(leastPlain, r.plain)
				}
			}
			due, plain := c.Due(pass)
			if plain != leastPlain {
				t.Fatalf("%d days, pass %d: %d plain passes, want %d", days, pass, plain, leastPlain)
			}
			if len(want) > 0 && plain >= days && rng.IntN(2) == 0 {
				c.Repeat(pass)
				for _, r := range want {
					r.pass, r.plain = r.pass+days, r.plain-days
				}
				continue
			}
			got := c.Take(pass)
			if due != len(want) || len(got) != len(want) || !slices.IsSortedFunc(got, byPlace) {
				t.Fatalf("%d days, pass %d: %d due, %d taken, want %d in running order", days, pass, due, len(got),
					len(want))
			}
			for _, r := range want {
				if !slices.Contains(got, r) {
					t.Fatalf("%d days, pass %d: a request is missing", days, pass)
				}
			}
			for _, r := range slices.Clone(got) {
				if rng.IntN(2) == 0 {
					r.pass, r.plain = pass+1+rng.IntN(days), rng.IntN(100)
					c.Enter(&r.entry, r.pass, r.plain)
				}
			}
		}
		c.Clear()
		for pass := range days {
			if due, _ := c.Due(pass); due > 0 {
				t.Fatalf("%d days: a request is left after Clear", days)
			}
		}
	}
}
