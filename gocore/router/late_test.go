package router

import (
	"fmt"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// listener notes what it hears.
type listener struct {
	RoundRobin
	heard []string
}

func (l *listener) Apply(worker int, events []kvcache.Event) {
	for _, e := range events {
		l.heard = append(l.heard, fmt.Sprint(worker, slices.Collect(e.Blocks.All())))
	}
}

// TestLateNews: changes come when their time is over and in order, those of a worker that is gone never.
func TestLateNews(t *testing.T) {
	var l listener
	news := LateNews{LagMs: 10}
	block := []kvcache.Event{{Blocks: kvcache.BlocksOf(1)}}
	news.Tell(&l, 0, block, 5)
	block[0].Blocks[0].First = 2 // the room of an engine is used again
	news.Tell(&l, 1, block, 6)
	news.Tell(&l, 0, block, 7)
	news.Tell(&l, 0, nil, 8)
	for _, c := range []struct {
		nowMs float64
		want  string
	}{{14.9, "[]"}, {15, "[0 [1]]"}, {16.5, "[0 [1] 1 [2]]"}} {
		if news.CatchUp(&l, c.nowMs); fmt.Sprint(l.heard) != c.want {
			t.Errorf("at %v ms: heard %v, want %s", c.nowMs, l.heard, c.want)
		}
	}
	if !news.Pending() {
		t.Error("the third change is not pending")
	}
	news.Forget(0)
	if news.CatchUp(&l, 100); news.Pending() || len(l.heard) != 2 {
		t.Errorf("heard %v of a worker that is gone", l.heard)
	}
	shared := kvcache.Event{Tier: kvcache.External, Blocks: kvcache.BlocksOf(9)}
	news.Tell(&l, 2, append(block, shared), 101)
	news.Forget(2)
	if news.CatchUp(&l, 200); fmt.Sprint(l.heard[2:]) != "[2 [9]]" {
		t.Errorf("heard %v, want what a lost worker shared", l.heard[2:])
	}
	var atOnce LateNews
	if atOnce.Tell(&l, 3, block, 0); len(l.heard) != 4 {
		t.Errorf("without a lag: heard %v", l.heard)
	}
}
