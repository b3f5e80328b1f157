package timing

// Polynomial is the built-in timing model, fitted to an H100-class GPU serving an 8B model. The zero value is ready.
type Polynomial struct{}

// PrefillMs predicts the prefill part of one pass, in milliseconds.
//
//	new = max(0, meanISL-meanPrefix)
//	t   = requests * new
//	ms  = max(0, c2*(t*t) + c1*t + c0)
//
// requests is the number of requests that process prompt tokens in the pass; meanISL and meanPrefix are floor means in
// tokens. The result is 0 when requests or new is 0. Operations run in the order written: the rounding to nanoseconds
// that follows makes the last bit visible.
func (Polynomial) PrefillMs(requests, meanISL, meanPrefix int) float64 {
	newTokens := max(0, meanISL-meanPrefix)
	if requests == 0 || newTokens == 0 {
		return 0
	}
	t := float64(requests * newTokens)
	return max(0, quadratic(4.209989e-07, 1.518344e-02, 1.650142e+01, t))
}

// DecodeMs predicts the decode part of one pass, in milliseconds.
//
//	u  = activeTokens / totalTokens
//	ms = max(1, -25.74*(u*u) + 54.01*u + 5.74)
//
// activeTokens and totalTokens are KV tokens held by requests and in the whole pool. Neither the batch size nor the
// context length enters this model: 5.74 ms with an empty pool, 34.01 ms with a full one.
func (Polynomial) DecodeMs(activeTokens, totalTokens int) float64 {
	u := 1.0
	if totalTokens > 0 {
		u = float64(activeTokens) / float64(totalTokens)
	}
	return max(1, quadratic(-25.74, 54.01, 5.74, u))
}

// quadratic is ((c2*(x*x)) + (c1*x)) + c0 without fused operations.
func quadratic(c2, c1, c0, x float64) float64 {
	square := float64(x * x)
	return float64(float64(c2*square)+float64(c1*x)) + c0
}
