package timing

// Scaled is a model whose predictions are multiplied: those of the prefill part by Prefill, those of the decode part by
// Decode. A nil Model stands for the polynomial.
type Scaled struct {
	Model           Model
	Prefill, Decode float64
}

// Scale returns m with its predictions multiplied, and m itself if both factors are 1.
func Scale(m Model, prefill, decode float64) Model {
	if prefill == 1 && decode == 1 {
		return m
	}
	return Scaled{m, prefill, decode}
}

func (s Scaled) inner() Model {
	if s.Model == nil {
		return Polynomial{}
	}
	return s.Model
}

// PrefillMs implements [Model].
func (s Scaled) PrefillMs(shape PrefillShape) float64 {
	return float64(s.Prefill * s.inner().PrefillMs(shape))
}

// DecodeMs implements [Model]. A factor below 1 may take it below a millisecond.
func (s Scaled) DecodeMs(shape DecodeShape) float64 {
	return float64(s.Decode * s.inner().DecodeMs(shape))
}

// Pure reports what the scaled model does; see the function of that name.
func (s Scaled) Pure() bool { return Pure(s.Model) }

// KnowsExperts implements [ExpertModel].
func (s Scaled) KnowsExperts() bool {
	inner, ok := s.Model.(ExpertModel)
	return ok && inner.KnowsExperts()
}

// ExpertsMs implements [ExpertModel].
func (s Scaled) ExpertsMs(part Kind, tokens int) float64 {
	factor := s.Prefill
	if part == Decode {
		factor = s.Decode
	}
	return float64(factor * s.Model.(ExpertModel).ExpertsMs(part, tokens))
}
