package timing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// sdk answers questions and records them.
type sdk struct {
	batches [][]Question
	answer  func(Question) Answer
	err     error
}

func (s *sdk) ask(questions []Question) ([]Answer, error) {
	s.batches = append(s.batches, slices.Clone(questions))
	if s.err != nil {
		return nil, s.err
	}
	var answers []Answer
	for _, q := range questions {
		answers = append(answers, s.answer(q))
	}
	return answers, nil
}

// product returns an answer from which the question can be told.
func product(q Question) Answer {
	return Answer{Ms: float64(q.Batch)*1e6 + float64(q.Tokens)*1000 + float64(q.Prefix)}
}

func TestAskedQuestions(t *testing.T) {
	for _, c := range []struct {
		ranks  int
		ask    func(*Asked) float64
		want   []Question
		wantMs float64
	}{
		{1, func(a *Asked) float64 { return a.PrefillMs(PrefillShape{2, 750, 50}) }, []Question{{Prefill, 2, 700, 50}},
			2_700_050},
		{1, func(a *Asked) float64 { return a.PrefillMs(PrefillShape{2, 50, 50}) }, nil, 0},
		{1, func(a *Asked) float64 { return a.PrefillMs(PrefillShape{2, 50, 60}) }, nil, 0},
		{1, func(a *Asked) float64 { return a.DecodeMs(DecodeShape{3, 64, 1024, 40}) }, []Question{{Decode, 3, 40, 0}},
			3_040_000},
		{8, func(a *Asked) float64 { return a.DecodeMs(DecodeShape{130, 64, 1024, 40}) },
			[]Question{{Decode, 17, 40, 0}}, 17_040_000},
		{8, func(a *Asked) float64 { return a.PrefillMs(PrefillShape{8, 50, 0}) }, []Question{{Prefill, 1, 50, 0}},
			1_050_000},
		{1, func(a *Asked) float64 { return a.ExpertsMs(Prefill, 70) }, []Question{{PrefillExperts, 1, 70, 0}},
			1_070_000},
		{1, func(a *Asked) float64 { return a.ExpertsMs(Decode, 7) }, []Question{{DecodeExperts, 7, 0, 0}}, 7_000_000},
		{1, func(a *Asked) float64 { return a.ExpertsMs(Decode, 0) }, nil, 0},
		{0, func(a *Asked) float64 { return a.DecodeMs(DecodeShape{3, 64, 1024, 40}) }, []Question{{Decode, 3, 40, 0}},
			3_040_000},
	} {
		outside := &sdk{answer: product}
		a := NewAsked(c.ranks, outside.ask)
		for range 3 { // the second and the third time it is known
			if got := c.ask(a); got != c.wantMs || a.Err() != nil {
				t.Errorf("%v: got %v, %v, want %v", c.want, got, a.Err(), c.wantMs)
			}
		}
		if got := slices.Concat(outside.batches...); !slices.Equal(got, c.want) {
			t.Errorf("asked %v, want %v", got, c.want)
		}
	}
}

func TestAskedClamps(t *testing.T) {
	a := NewAsked(1, (&sdk{answer: func(Question) Answer { return Answer{Ms: -3} }}).ask)
	if got := a.PrefillMs(PrefillShape{1, 10, 0}); got != 0 {
		t.Errorf("prefill: got %v, want 0", got)
	}
	if got := a.DecodeMs(DecodeShape{1, 1, 2, 10}); got != 1 {
		t.Errorf("decode: got %v, want 1", got)
	}
}

// TestAskedAhead: two sizes of batches decode in turn; a batch that goes on is asked for ahead, and starts anew after a
// jump.
func TestAskedAhead(t *testing.T) {
	outside := &sdk{answer: product}
	a := NewAsked(1, outside.ask)
	for step := range 10 {
		for _, batch := range []int{4, 7} {
			context := 100*batch + step
			if got, want := a.DecodeMs(DecodeShape{batch, 1, 2, context}),
				product(Question{Decode, batch, context, 0}).Ms; got != want {
				t.Fatalf("batch %d, context %d: got %v, want %v", batch, context, got, want)
			}
		}
	}
	a.DecodeMs(DecodeShape{4, 1, 2, 950})
	a.DecodeMs(DecodeShape{4, 1, 2, 951})
	var sizes []int
	for _, b := range outside.batches {
		if b[0].Batch == 4 {
			sizes = append(sizes, len(b))
		}
	}
	if want := []int{1, 2, 4, 8, 1, 2}; !slices.Equal(sizes, want) {
		t.Errorf("got batches of %v, want %v", sizes, want)
	}
	for context := range 1000 {
		a.DecodeMs(DecodeShape{1, 1, 2, context})
	}
	if n := len(outside.batches); n > 50 || len(outside.batches[n-1]) != maxReadahead {
		t.Errorf("%d batches, the last of %d", n, len(outside.batches[n-1]))
	}
}

func TestAskedErrors(t *testing.T) {
	gone, beyond := errors.New("gone"), errors.New("beyond the data")
	short := func([]Question) ([]Answer, error) { return nil, nil }
	for _, c := range []struct {
		ask  func([]Question) ([]Answer, error)
		want string
	}{
		{(&sdk{err: gone}).ask, "decode of 2 requests of 11 tokens: gone"},
		{(&sdk{answer: func(Question) Answer { return Answer{Err: beyond} }}).ask,
			"decode of 2 requests of 11 tokens: beyond the data"},
		{(&sdk{answer: func(Question) Answer { return Answer{Ms: math.NaN()} }}).ask,
			"decode of 2 requests of 11 tokens: got NaN ms"},
		{(&sdk{answer: func(Question) Answer { return Answer{Ms: math.Inf(1)} }}).ask,
			"decode of 2 requests of 11 tokens: got +Inf ms"},
		{short, "decode of 2 requests of 11 tokens: got 0 answers to 1 questions"},
	} {
		a := NewAsked(1, c.ask)
		ms := a.DecodeMs(DecodeShape{2, 1, 2, 11})
		a.PrefillMs(PrefillShape{1, 10, 0}) // nothing is asked any more
		if err := a.Err(); ms != 1 || err == nil || err.Error() != c.want {
			t.Errorf("got %v, %v, want %s", ms, err, c.want)
		}
	}
}

// TestAskedNeedlessErrors: an answer that was only asked for ahead is an error when it becomes necessary.
func TestAskedNeedlessErrors(t *testing.T) {
	outside := &sdk{answer: func(q Question) Answer {
		if q.Tokens > 5 {
			return Answer{Err: fmt.Errorf("no data beyond 5")}
		}
		return product(q)
	}}
	a := NewAsked(1, outside.ask)
	for context := range 6 {
		if a.DecodeMs(DecodeShape{1, 1, 2, context}); a.Err() != nil {
			t.Fatalf("context %d: %v", context, a.Err())
		}
	}
	a.DecodeMs(DecodeShape{1, 1, 2, 6})
	if err := a.Err(); err == nil || err.Error() != "decode of 1 requests of 6 tokens: no data beyond 5" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkAskedWarm(b *testing.B) {
	a := NewAsked(1, (&sdk{answer: product}).ask)
	for i := 0; b.Loop(); i++ {
		a.DecodeMs(DecodeShape{1 + i&15, 1, 2, i & 0xfff})
	}
}
