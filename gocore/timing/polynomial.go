package timing

// Polynomial is the built-in timing model, fitted to an H100-class GPU serving an 8B model. The zero value is ready.
type Polynomial struct{}

var _ Model = Polynomial{}

// PrefillMs implements [Model].
//
//	t  = requests * new tokens
//	ms = max(0, c2*(t*t) + c1*t + c0)
//
// It is 0 when t is. Operations run in the order written: the rounding to nanoseconds that follows makes the last bit
// visible.
func (Polynomial) PrefillMs(s PrefillShape) float64 {
	t := float64(s.Requests * s.NewTokens())
	if t == 0 {
		return 0
	}
	return max(0, quadratic(4.209989e-07, 1.518344e-02, 1.650142e+01, t))
}

// DecodeMs implements [Model].
//
//	u  = active tokens / total tokens
//	ms = max(1, -25.74*(u*u) + 54.01*u + 5.74)
//
// Neither the batch size nor the context length enters this model: 5.74 ms with an empty pool, 34.01 ms with a full
// one.
func (Polynomial) DecodeMs(s DecodeShape) float64 {
	u := 1.0
	if s.TotalTokens > 0 {
		u = float64(s.ActiveTokens) / float64(s.TotalTokens)
	}
	return max(leastDecodeMs, quadratic(-25.74, 54.01, 5.74, u))
}

// quadratic returns ((c2*(x*x)) + (c1*x)) + c0 without fused operations.
func quadratic(c2, c1, c0, x float64) float64 {
	square := float64(x * x)
	return float64(float64(c2*square)+float64(c1*x)) + c0
}

// Pure reports true; see the function of that name.
func (Polynomial) Pure() bool { return true }
