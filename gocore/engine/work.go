package engine

// Reporter is an engine that can tell what it has to do: to planners, to routers and in metrics.
type Reporter interface {
	Engine

	// ReportWork makes every pass from now on take note of its work.
	ReportWork()

	// Work is what the last pass did and left.
	Work() Work

	// Load is what there is to do now: requests that wait, those that run, and blocks in use.
	Load() (waiting, running, activeBlocks int)
}

// CoastReporter is an engine that can tell what it has to do although it coasts.
type CoastReporter interface {
	Coaster
	Reporter

	// CoastWork is what the last of the passes that were settled did. It is to be asked for right after Settle.
	CoastWork() Phases
}

// Before is the work of the pass that came passes passes before this one in the same coast: each sequence had a token less
// for each of them.
func (p Phases) Before(passes int) Phases {
	p.DecodeKVTokens -= passes * p.DecodeRequests
	return p
}

// Work is what a pass did, and what waits after it.
type Work struct {
	Scheduled Phases
	Queued    Phases
}

// Phases counts requests that have prompt tokens to compute, and requests that decode.
type Phases struct {
	PrefillRequests  int
	PrefillTokens    int     // to be computed; of queued requests, their prompts
	PrefillVariance  float64 // of the lengths of their prompts
	PrefillKVTokens  int     // of scheduled requests, in the cache already
	DecodeRequests   int
	DecodeKVTokens   int
	DecodeKVVariance float64

	prefill, decode spread
}

// AddPrefill counts a request that computes tokens of a prompt of promptTokens, of which kvTokens are there.
func (p *Phases) AddPrefill(promptTokens, tokens, kvTokens int) {
	p.PrefillRequests++
	p.PrefillTokens += tokens
	p.PrefillKVTokens += kvTokens
	p.PrefillVariance = p.prefill.add(float64(promptTokens), p.PrefillRequests)
}

// AddDecode counts a request that decodes with kvTokens tokens.
func (p *Phases) AddDecode(kvTokens int) {
	p.DecodeRequests++
	p.DecodeKVTokens += kvTokens
	p.DecodeKVVariance = p.decode.add(float64(kvTokens), p.DecodeRequests)
}

// spread is the state of Welford's online algorithm for the variance: the mean so far, and the sum of squared differences
// from it.
type spread struct{ mean, squares float64 }

// add counts the n-th value and returns the population variance of all so far.
func (s *spread) add(value float64, n int) float64 {
	before := value - s.mean
	s.mean += before / float64(n)
	s.squares += float64(before * (value - s.mean))
	return s.squares / float64(n)
}
