package engine

// Policy decides about the requests of one engine in place of the engine's own rule. Engines with Traits.Policies ask
// it if Setup has one, and only where there is a choice: between two requests or more. What it is given is valid during
// the call.
type Policy interface {
	// Next returns the place of the waiting request that is to be admitted next. All others wait for it: an engine asks
	// again when it has been admitted, when another request comes, and when blocks have been released.
	Next(nowMs float64, waiting []Candidate) int
	// Victim returns the place of the running request that is to give up its blocks.
	Victim(nowMs float64, running []Candidate) int
}

// Candidate is what a [Policy] sees of a request.
type Candidate struct {
	ID           RequestID
	PromptTokens int
	Computed     int // tokens that are in the KV cache
	Generated    int // tokens
	Blocks       int // that it holds
	Preempted    bool
}
