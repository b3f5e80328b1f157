package router

import (
	"fmt"
	"strings"
	"testing"
)

// TestPrefillDecay books prompts on one worker and reads its prefill load while time passes. A row of steps reads
//
//	a 100/10      prompt a of 100 tokens starts, which take 10 ms ("-": unknown)
//	done a        its prefill is done
//	= 110         the load
//
// each with its time in ms.
func TestPrefillDecay(t *testing.T) {
	tests := []struct{ name, steps string }{
		{"the front prompt shrinks, and its pace spills over",
			`0 a 100/10; 2 b 60/6; 2 = 140; 3.33 = 127; 5 = 110; 9.999 = 61; 10 = 60; 12 = 40; 16 = 0`},
		{"the next prompt starts when the front one is done",
			`0 a 100/10; 2 b 60/6; 8 done a; 8 = 60; 9 = 50; 11 = 30; 14 = 0`},
		{"a prompt that overtakes gives its time back",
			`0 a 100/10; 0 b 60/6; 8 done b; 8 = 80; 9 = 70; 12 = 40; 16 = 0`},
		{"but no more than has passed", `0 a 100/10; 0 b 60/3; 2 done b; 2 = 100; 3 = 90; 7 = 50; 12 = 0`},
		{"behind the front one, a duration is unknown", `0 a 100/10; 0 b 60/-; 3.33 = 127; 5 = 110; 10 = 60; 15 = 60`},
		{"that of the front one is unknown", `0 a 100/-; 0 b 60/6; 0 = 160; 5 = 160; 100 = 160`},
		{"the front one takes no time", `0 a 100/0; 0 b 60/6; 0 = 60; 3 = 60; 6 = 60`},
		{"it takes no time, and the next one's is unknown", `0 a 100/0; 0 b 60/-; 0 = 60; 6 = 60`},
		{"nanoseconds", `0 a 1000/3; 0.0029 = 1000; 0.003 = 999; 1 = 667; 2 = 334; 2.999 = 1`},
		{"nothing left to do", `0 a 100/10; 20 = 0; 20 done a; 20 = 0; 21 b 60/6; 23 = 40`},
		{"an unknown duration gives nothing back", `0 a 100/10; 0 b 60/-; 5 done b; 5 = 50; 7 = 30`},
		{"a long time", `0 a 1000000000/1; 0 b 5/1; 9000000000000 = 0`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var estimateMs string
			tracker := newTracker(DefaultConfig(), 1, 0, func(int, int) (ns int64, ok bool) {
				var ms int64
				_, err := fmt.Sscan(estimateMs, &ms)
				return ms * 1_000_000, err == nil
			})
			for step := range strings.SplitSeq(test.steps, "; ") {
				words := strings.Fields(step)
				var nowMs float64
				mustScan(t, words[0], &nowMs)
				switch words[1] {
				case "=":
					if got := fmt.Sprint(tracker.tokensAt(nowMs)[0]); got != words[2] {
						t.Errorf("%s ms: got %s, want %s", words[0], got, words[2])
					}
				case "done":
					if err := tracker.prefillCompleted(int32(words[2][0]), nowMs); err != nil {
						t.Fatal(err)
					}
				default:
					b := booking{id: int32(words[1][0])}
					tokens, ms, _ := strings.Cut(words[2], "/")
					mustScan(t, tokens, &b.uncached)
					estimateMs = ms
					if err := tracker.add(b, nowMs); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func mustScan(t *testing.T, text string, to any) {
	t.Helper()
	if _, err := fmt.Sscan(text, to); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// TestDecayedBusy: a newcomer finds the load shrunk below the threshold, but no waiting request goes before the next
// event.
func TestDecayedBusy(t *testing.T) {
	config := DefaultConfig()
	config.QueueThreshold = 1
	k := New(Options{
		Config: config, Workers: 1, BlockSize: 64, MaxNumBatchedTokens: 100, Rand: naiveRand(0),
		Estimate: func(uncached, _ int) (int64, bool) { return int64(uncached) * 100_000, true },
	})
	r := Request{PromptTokens: 150, Prompt: benchPrompt(0, 2)}
	for _, step := range []struct {
		atMs              float64
		id                int32
		admitted, waiting int
	}{
		{0, 1, 1, 0},
		{1, 2, 0, 1}, // 140 tokens left
		{8, 3, 0, 2}, // 70 tokens left, but 2 waits
	} {
		r.ID = step.id
		admitted, err := k.Submit(r, step.atMs)
		if err != nil || len(admitted) != step.admitted || k.Waiting() != step.waiting {
			t.Fatalf("request %d: admitted %+v, %d waiting, error %v", step.id, admitted, k.Waiting(), err)
		}
	}
	admitted, err := k.Free(99, 8)
	if err != nil || len(admitted) != 1 || admitted[0].ID != 2 || admitted[0].WaitMs != 7 {
		t.Errorf("admitted %+v, error %v", admitted, err)
	}
}
