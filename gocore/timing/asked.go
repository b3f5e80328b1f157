package timing

import (
	"fmt"
	"math"
)

// Kind is the part of a pass that a Question is about.
type Kind uint8

// Prefill and Decode are the two parts. PrefillExperts and DecodeExperts are what the expert layers of a
// mixture-of-experts model take of each.
const (
	Prefill Kind = iota
	Decode
	PrefillExperts
	DecodeExperts
)

func (k Kind) String() string {
	return [...]string{"prefill", "decode", "expert layers of prefill", "expert layers of decode"}[k]
}

// Question asks for the duration of one part of a pass. Its numbers are all that the answer may depend on.
type Question struct {
	Kind  Kind
	Batch int // requests of one rank
	// Tokens is the number of new prompt tokens of each request, or the length of its sequence for Decode. For expert
	// layers it is the number of prompt tokens of each rank (Batch is 1), or 0 for DecodeExperts, as lengths do not
	// matter to them.
	Tokens int
	Prefix int // prompt tokens that each request finds computed; 0 for Decode
}

func (q Question) String() string {
	if q.Kind == Prefill {
		return fmt.Sprintf("prefill of %d requests with %d new tokens after %d", q.Batch, q.Tokens, q.Prefix)
	}
	if q.Kind != Decode {
		return fmt.Sprintf("%v with %d tokens of each rank", q.Kind, q.Batch*max(1, q.Tokens))
	}
	return fmt.Sprintf("decode of %d requests of %d tokens", q.Batch, q.Tokens)
}

// Answer is a duration, or why there is none.
type Answer struct {
	Ms  float64
	Err error
}

// Asked is a timing model whose predictions come from outside, such as an SDK in another language. Answers are kept:
// a question is asked once for all engines that share the model. They must belong to one loop.
//
// What is known is kept up to some number of answers, and then asked for anew.
//
// Questions go out in batches, as an exchange costs more than a prediction. While the same requests merely decode,
// their mean context grows by one token a pass: so a question that goes on where the last ones about as many requests
// ended takes others along, twice as many each time. Of those, answers that are not needed may be errors.
//
// The scheduler has no use for errors. A question without an answer counts as 0 ms, and the first such error is kept:
// the loop that drives the engines looks at Err every few passes and at the end, and gives up.
type Asked struct {
	ask   func([]Question) ([]Answer, error)
	ranks int
	// Experts says that ask answers questions about expert layers, too.
	Experts bool
	// anew says that answers to equal questions may differ: every question is asked when it comes up, and by itself.
	anew        bool
	leastDecode float64 // ms
	known       map[Question]float64
	failed      map[Question]error
	ahead       map[int]readahead // by batch
	asking      []Question        // scratch
	err         error
}

// readahead is the context up to which decode questions were asked, and how many that were the last time.
type readahead struct{ end, count int }

// maxKnown limits how many answers are kept: the engines of a service go on for ever.
const maxKnown = 500_000

// maxReadahead limits the number of questions asked at a time.
const maxReadahead = 64

// NewAsked returns a model that gets its predictions from ask, which answers all questions in their order or fails as a
// whole. ranks is the number of attention data-parallel ranks that share the requests of an engine; questions are about
// the rank with the most. 0 is taken for 1.
func NewAsked(ranks int, ask func([]Question) ([]Answer, error)) *Asked {
	return &Asked{
		ask:         ask,
		ranks:       max(1, ranks),
		leastDecode: leastDecodeMs,
		known:       map[Question]float64{},
		failed:      map[Question]error{},
		ahead:       map[int]readahead{},
	}
}

var _ Model = (*Asked)(nil)

// Err returns the first error since the model was made, or nil.
func (a *Asked) Err() error { return a.err }

// PrefillMs implements [Model]. Nothing is asked about passes without new tokens.
func (a *Asked) PrefillMs(s PrefillShape) float64 {
	if s.NewTokens() == 0 {
		return 0
	}
	return atLeast(0, a.ms(Question{Kind: Prefill, Batch: a.share(s.Requests), Tokens: s.NewTokens(),
		Prefix: s.MeanPrefix}))
}

// DecodeMs implements [Model]. The KV tokens in use do not matter.
func (a *Asked) DecodeMs(s DecodeShape) float64 {
	return atLeast(a.leastDecode, a.ms(Question{Kind: Decode, Batch: a.share(s.Requests), Tokens: s.MeanContext}))
}

// KnowsExperts implements [ExpertModel].
func (a *Asked) KnowsExperts() bool { return a.Experts }

// ExpertsMs implements [ExpertModel].
func (a *Asked) ExpertsMs(part Kind, tokens int) float64 {
	if tokens == 0 {
		return 0
	}
	if part == Decode {
		return atLeast(0, a.ms(Question{Kind: DecodeExperts, Batch: tokens}))
	}
	return atLeast(0, a.ms(Question{Kind: PrefillExperts, Batch: 1, Tokens: tokens}))
}

// share returns the largest number of requests on one rank.
func (a *Asked) share(requests int) int { return (requests + a.ranks - 1) / a.ranks }

// ms returns the answer to q, 0 if there is none.
func (a *Asked) ms(q Question) float64 {
	if a.anew {
		clear(a.known)
	}
	ms, known := a.known[q]
	if known || a.err != nil {
		return ms
	}
	err := a.failed[q]
	if err == nil {
		a.asking = append(a.asking[:0], q)
		if q.Kind == Decode && !a.anew {
			a.askAhead(q)
		}
		if err = a.fetch(); err == nil {
			err = a.failed[q]
		}
	}
	if err != nil {
		a.err = fmt.Errorf("%v: %w", q, err)
	}
	return a.known[q]
}

// askAhead adds the questions that come after q if the requests go on decoding.
func (a *Asked) askAhead(q Question) {
	count := 1
	if last := a.ahead[q.Batch]; last.end == q.Tokens {
		count = min(2*last.count, maxReadahead)
	}
	for i := 1; i < count; i++ {
		next := Question{Kind: Decode, Batch: q.Batch, Tokens: q.Tokens + i}
		_, known := a.known[next]
		if !known && a.failed[next] == nil {
			a.asking = append(a.asking, next)
		}
	}
	a.ahead[q.Batch] = readahead{end: q.Tokens + count, count: count}
}

// fetch gets the answers to all that is in asking.
func (a *Asked) fetch() error {
	answers, err := a.ask(a.asking)
	if err != nil {
		return err
	}
	if len(answers) != len(a.asking) {
		return fmt.Errorf("got %d answers to %d questions", len(answers), len(a.asking))
	}
	if len(a.known)+len(a.failed) > maxKnown {
		clear(a.known)
		clear(a.failed)
	}
	for i, answer := range answers {
		switch q := a.asking[i]; {
		case answer.Err != nil:
			a.failed[q] = answer.Err
		case math.IsNaN(answer.Ms) || math.IsInf(answer.Ms, 0):
			a.failed[q] = fmt.Errorf("got %v ms", answer.Ms)
		default:
			a.known[q] = answer.Ms
		}
	}
	return nil
}
