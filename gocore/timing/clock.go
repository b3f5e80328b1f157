package timing

// Clock turns the shape of a pass into rounded durations, scaled by the speedup ratios of one engine.
type Clock struct {
	// Speedup divides every duration; DecodeSpeedup additionally divides decode. A ratio (for decode: the product) of 0
	// means "do not scale", as in the reference; so DecodeSpeedup 0 also cancels Speedup for decode.
	Speedup, DecodeSpeedup float64

	model Polynomial
}

// PrefillSeconds is the prefill part of a pass in which count requests process prompt tokens. islSum adds up the prompt
// position each of them reaches, prefixSum the position each of them started from; their means are floored separately,
// which charges a mixed batch more or fewer tokens than it computes.
func (c Clock) PrefillSeconds(count, islSum, prefixSum int) float64 {
	if count == 0 {
		return 0
	}
	return scaled(c.model.PrefillMs(count, islSum/count, prefixSum/count), c.Speedup)
}

// DecodeSeconds is the decode part of a pass that emits at least one token, with activeTokens of totalTokens KV tokens
// held by requests.
func (c Clock) DecodeSeconds(activeTokens, totalTokens int) float64 {
	return scaled(c.model.DecodeMs(activeTokens, totalTokens), c.Speedup*c.DecodeSpeedup)
}

// scaled rounds ms to nanoseconds, divides by ratio when that is above 0, and rounds again.
func scaled(ms, ratio float64) float64 {
	ns := Nanos(ms / 1000)
	if ratio > 0 && ns > 0 {
		ns = Nanos(Seconds(ns) / ratio)
	}
	return Seconds(ns)
}
