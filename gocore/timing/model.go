package timing

// Model predicts how long the two parts of a pass take, in milliseconds. It is a pure function: equal shapes get equal
// answers, and no answer is NaN or below 0. Users choose between Polynomial, Grid and Asked, and may
// have them Scaled.
type Model interface {
	// PrefillMs is asked only about passes with Requests >= 1. A part in which no token is new takes no time.
	PrefillMs(PrefillShape) float64
	// DecodeMs is asked only about passes with Requests >= 1. No decode part takes less than a millisecond.
	DecodeMs(DecodeShape) float64
}

// ExpertModel is a model that knows the time of expert layers apart from the rest. They exchange tokens between all
// data-parallel ranks of an engine, so what they take depends on the tokens of all ranks together, and attention on
// those of one rank. Predictions of a [Model] are for ranks that all have the same tokens.
type ExpertModel interface {
	Model
	// KnowsExperts reports whether the model in use has expert layers and they can be told apart.
	KnowsExperts() bool
	// ExpertsMs is their share of the part (Prefill or Decode) of a pass in which ranks have the given number of tokens
	// each, on average. It is 0 without tokens.
	ExpertsMs(part Kind, tokens int) float64
}

// Pure reports whether a model is nothing but a formula or a table, nil standing for the polynomial: it answers at once
// and always, also about passes that will perhaps never be, and several engines may ask it at the same time. A model
// says so with a method Pure; one without is not.
func Pure(m Model) bool {
	if m == nil {
		return true
	}
	pure, says := m.(interface{ Pure() bool })
	return says && pure.Pure()
}

// PrefillShape is the prefill part of a pass: Requests process prompt tokens in it. MeanISL is the prompt position that
// they reach and MeanPrefix the one they start from, each a mean rounded down, in tokens.
type PrefillShape struct {
	Requests            int
	MeanISL, MeanPrefix int
}

// NewTokens returns the mean number of prompt tokens that a request computes.
func (s PrefillShape) NewTokens() int { return max(0, s.MeanISL-s.MeanPrefix) }

// DecodeShape is the decode part of a pass: Requests requests get a token. ActiveTokens of TotalTokens KV tokens belong
// to requests; MeanContext is the length of the emitting sequences, a mean rounded down.
type DecodeShape struct {
	Requests                  int
	ActiveTokens, TotalTokens int
	MeanContext               int
}

// leastDecodeMs is the shortest decode part that a model predicts.
const leastDecodeMs = 1
