package timing

// Clock turns the shape of a pass into rounded durations, scaled by the speedup ratios of one engine.
type Clock struct {
	// Model predicts; nil stands for the polynomial.
	Model Model
	// Speedup divides every duration; DecodeSpeedup additionally divides decode. A ratio (for decode: the product) of 0
	// means "do not scale", as in the reference; so DecodeSpeedup 0 also cancels Speedup for decode.
	Speedup, DecodeSpeedup float64
	// Host is added to every pass; Speedup divides it, too.
	Host Host
}

// Ms returns a duration of the host, scaled and rounded.
func (c *Clock) Ms(ms float64) float64 { return float64(scaled(ms, c.Speedup) * 1000) }

// HostMs returns the host time of a pass in which the given number of requests have a share.
func (c *Clock) HostMs(requests int) float64 {
	ms := c.Host.passMs(requests)
	if ms == 0 {
		return 0
	}
	return c.Ms(ms)
}

// PrefillSeconds returns the prefill part of a pass in which count requests process prompt tokens. islSum adds up the
// prompt position each of them reaches, prefixSum the position each of them started from; their means are floored
// separately, which charges a mixed batch more or fewer tokens than it computes.
func (c *Clock) PrefillSeconds(count, islSum, prefixSum int) float64 {
	if count == 0 {
		return 0
	}
	shape := PrefillShape{Requests: count, MeanISL: islSum / count, MeanPrefix: prefixSum / count}
	if c.Model == nil {
		return scaled(Polynomial{}.PrefillMs(shape), c.Speedup)
	}
	return scaled(c.Model.PrefillMs(shape), c.Speedup)
}

// DecodeSeconds returns the decode part of a pass in which count requests get a token. contextSum adds up the lengths
// of their sequences before that token; activeTokens of totalTokens KV tokens belong to requests.
func (c *Clock) DecodeSeconds(count, contextSum, activeTokens, totalTokens int) float64 {
	if count == 0 {
		return 0
	}
	shape := DecodeShape{Requests: count, ActiveTokens: activeTokens, TotalTokens: totalTokens}
	if c.Model == nil { // a division and a call through an interface would show in passes that merely decode
		return scaled(Polynomial{}.DecodeMs(shape), c.Speedup*c.DecodeSpeedup)
	}
	shape.MeanContext = contextSum / count
	return scaled(c.Model.DecodeMs(shape), c.Speedup*c.DecodeSpeedup)
}

// KnowsExperts reports whether the model knows the time of expert layers apart from the rest.
func (c *Clock) KnowsExperts() bool {
	m, ok := c.Model.(ExpertModel)
	return ok && m.KnowsExperts()
}

// ExpertsMs returns the part of a pass that the expert layers take, scaled and rounded; see [ExpertModel].
func (c *Clock) ExpertsMs(part Kind, tokens int) float64 {
	ratio := c.Speedup
	if part == Decode {
		ratio *= c.DecodeSpeedup
	}
	return float64(scaled(c.Model.(ExpertModel).ExpertsMs(part, tokens), ratio) * 1000)
}

// exactNs is a bound below which nanoseconds that are turned into seconds and back stay the same, as half the distance
// between two float64 is far less than half a nanosecond.
const exactNs = 1 << 50

// scaled rounds ms to nanoseconds, divides by ratio when that is above 0, and rounds again.
func scaled(ms, ratio float64) float64 {
	ns := Nanos(ms / 1000)
	if ratio > 0 && ns > 0 && (ratio != 1 || ns >= exactNs) { // rounding once more would change nothing
		ns = Nanos(Seconds(ns) / ratio)
	}
	return Seconds(ns)
}
