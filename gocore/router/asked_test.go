package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

// scripted decides by a function, and keeps what it was asked.
type scripted struct {
	decide func(*Question) (Verdict, error)
	asked  []string
}

func (*scripted) Begin(Pool) (Wishes, error) { return Wishes{TickMs: 10}, nil }

func (s *scripted) Decide(q *Question) (Verdict, error) {
	text := fmt.Sprint(q.Why, q.Requests, q.PrefillTokens, q.ActiveBlocks, q.Cached)
	for _, l := range q.Left {
		text += fmt.Sprint(" left ", l.ID, l.Worker, l.AtMs)
	}
	s.asked = append(s.asked, text)
	return s.decide(q)
}

func twoBlocks(first uint32) kvcache.Prompt {
	return kvcache.Prompt{Segments: []uint32{first, first + 1}, PerSegment: 1}
}

// TestAsked follows a request that is kept, one that is sent and one that is refused, with what the rule learns of
// them.
func TestAsked(t *testing.T) {
	var verdicts []Verdict
	s := &scripted{decide: func(*Question) (Verdict, error) {
		v := verdicts[0]
		verdicts = verdicts[1:]
		return v, nil
	}}
	a := NewAsked(Options{Workers: 2, BlockSize: 4, Blocks: 100, Decider: s})
	submit := func(id int32, atMs float64) []Admission {
		t.Helper()
		got, err := a.Submit(Request{ID: id, Prompt: twoBlocks(10 * uint32(id)), PromptTokens: 8}, atMs)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(got)
	}
	verdicts = []Verdict{{Decided: true, ID: 1, Place: 1}, {}, {Decided: true, ID: 3, Place: Refused}}
	if got := submit(1, 1); len(got) != 1 || got[0].Worker != 1 || got[0].PromptBlocks != 2 {
		t.Errorf("request 1: %+v", got)
	}
	if got := submit(2, 2); len(got) != 0 || a.Waiting() != 1 {
		t.Errorf("request 2: %+v, %d wait", got, a.Waiting())
	}
	if got := submit(3, 3); len(got) != 1 || got[0].Worker != Refused {
		t.Errorf("request 3: %+v", got)
	}
	if at := a.NextTickMs(); at != 10 {
		t.Errorf("the next tick is at %v", at)
	}
	verdicts = []Verdict{{Decided: true, ID: 2, Place: 0, More: true}, {}}
	got, err := a.Free(1, 7)
	if err != nil || len(got) != 1 || got[0].ID != 2 || got[0].WaitMs != 5 {
		t.Errorf("request 1 has ended: %+v, %v", got, err)
	}
	if err := a.Finish(9); err != nil {
		t.Error(err)
	}
	want := []string{
		"0 [0 0] [0 0] [0 0] []", "0 [0 1] [0 8] [0 2] []", "0 [0 1] [0 8] [0 2] []",
		"1 [0 0] [0 0] [0 0] [] left 1 1 7", "3 [1 0] [8 0] [2 0] []",
	}
	if !slices.Equal(s.asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(s.asked, "\n"), strings.Join(want, "\n"))
	}
}

// TestAskedRefusesWrongVerdicts: the rule is outside of the program, so nothing it says is taken for granted.
func TestAskedRefusesWrongVerdicts(t *testing.T) {
	for _, v := range []Verdict{{Decided: true, ID: 9, Place: 0}, {Decided: true, ID: 1, Place: 2},
		{Decided: true, ID: 1, Place: -2}} {
		a := NewAsked(Options{Workers: 2, BlockSize: 4, Blocks: 100,
			Decider: &scripted{decide: func(*Question) (Verdict, error) { return v, nil }}})
		_, err := a.Submit(Request{ID: 1, Prompt: twoBlocks(0), PromptTokens: 8}, 0)
		var failed *DecisionError
		if !errors.As(err, &failed) {
			t.Errorf("%+v: %v", v, err)
		}
	}
	a := NewAsked(Options{Workers: 2, BlockSize: 4, Stage: "decode",
		Decider: &scripted{decide: func(*Question) (Verdict, error) {
			return Verdict{Decided: true, ID: 1, Place: Refused}, nil
		}}})
	if _, err := a.Submit(Request{ID: 1, Prompt: twoBlocks(0), PromptTokens: 8}, 0); err == nil {
		t.Error("a router of decode workers may refuse")
	}
}

// TestAskedKnowsCaches: a rule sees the blocks of workers that get requests, by their places.
func TestAskedKnowsCaches(t *testing.T) {
	var seen []Cached
	s := &scripted{decide: func(q *Question) (Verdict, error) {
		seen = slices.Clone(q.Cached)
		return Verdict{Decided: true, ID: q.New.ID, Place: 0}, nil
	}}
	a := NewAsked(Options{Workers: 3, BlockSize: 4, Decider: s})
	a.Apply(0, []kvcache.Event{{Kind: kvcache.Stored, Blocks: kvcache.BlocksOf(10)}})
	a.Apply(2, []kvcache.Event{{Kind: kvcache.Stored, Blocks: kvcache.BlocksOf(10, 11)}})
	if _, err := a.SetWorkers([]int{1, 2}, 0); err != nil {
		t.Fatal(err)
	}
	got, err := a.Submit(Request{ID: 1, Prompt: twoBlocks(10), PromptTokens: 8}, 0)
	if err != nil || len(got) != 1 || got[0].Worker != 1 || !slices.Equal(seen, []Cached{{1, 2}}) {
		t.Errorf("%+v, %v; saw %v", got, err, seen)
	}
}

// replicated decides for the worker with the fewest requests that it sees. Its second replica keeps requests when they
// arrive.
type replicated struct {
	wishes Wishes
	asked  []string
	kept   int32
}

func (r *replicated) Begin(Pool) (Wishes, error) { return r.wishes, nil }

func (r *replicated) Decide(q *Question) (Verdict, error) {
	r.asked = append(r.asked, fmt.Sprint("replica ", q.Replica, " sees ", q.Requests, " and cached ", q.Cached))
	id := r.kept
	if q.New != nil {
		id = q.New.ID
	}
	if q.Replica == 1 && q.Why == Arrived {
		r.kept = id
		return Verdict{}, nil
	}
	return Verdict{Decided: true, ID: id, Place: slices.Index(q.Requests, slices.Min(q.Requests))}, nil
}

// TestAskedReplicas: replicas get the requests in turn, know the workers and caches of before, and see their own
// requests, or those of all at the last poll. One that keeps a request is asked again when one of the other ends.
func TestAskedReplicas(t *testing.T) {
	for _, c := range []struct {
		wishes Wishes
		want   []string
	}{
		{Wishes{Replicas: 2}, []string{
			"replica 0 sees [0 0] and cached [{1 2}]", "replica 1 sees [0 0] and cached [{1 2}]",
			"replica 0 sees [1 0] and cached [{1 2}]", "replica 1 sees [0 0] and cached []",
		}},
		{Wishes{Replicas: 2, MetricsMs: 1}, []string{
			"replica 0 sees [0 0] and cached [{1 2}]", "replica 1 sees [1 0] and cached [{1 2}]",
			"replica 0 sees [1 0] and cached [{1 2}]", "replica 1 sees [1 1] and cached []",
		}},
	} {
		rule := &replicated{wishes: c.wishes}
		r := newAskedReplicas(Options{Workers: 1, BlockSize: 4, Blocks: 100, Decider: rule})
		if _, err := r.SetWorkers([]int{0, 3}, 0); err != nil {
			t.Fatal(err)
		}
		r.Apply(3, []kvcache.Event{{Blocks: kvcache.BlocksOf(0, 1)}})
		for id := range int32(3) {
			if _, err := r.Submit(Request{ID: id, Prompt: twoBlocks(0), PromptTokens: 8}, float64(id)); err != nil {
				t.Fatal(err)
			}
		}
		if r.Waiting() != 1 {
			t.Errorf("%d wait, want 1", r.Waiting())
		}
		if got, err := r.Free(0, 10); err != nil || len(got) != 1 || got[0].ID != 1 || got[0].WaitMs != 9 {
			t.Errorf("request 1 is not sent when request 0 ends: %+v, %v", got, err)
		}
		if !slices.Equal(rule.asked, c.want) {
			t.Errorf("%+v:\n%s\nwant\n%s", c.wishes, strings.Join(rule.asked, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
