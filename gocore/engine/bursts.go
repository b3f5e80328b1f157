package engine

import "dynosim/gocore/speculation"

// Accepted is how many drafts were accepted at each position.
type Accepted [speculation.MaxDrafts]int

// CountDrafts adds the accepted drafts of the pass to accepted, and returns the number of requests that drafted: each
// request with a token in it did.
func (p *Pass) CountDrafts(accepted *Accepted) (requests int) {
	requests = p.Tokens
	for _, burst := range p.Bursts {
		requests -= burst.Tokens - 1
		for position := range burst.Tokens - 1 {
			accepted[position]++
		}
	}
	return requests
}

// BurstCoaster is an engine that can also coast while it decodes speculatively.
type BurstCoaster interface {
	Coaster

	// CoastWithBursts lets coasts have passes in which requests of the emitting set emit bursts. Their sizes are not
	// known pass by pass, so this is for shells to which Surplus is enough. It must be called before the first request.
	CoastWithBursts()

	// Surplus lists what requests emitted beyond one token in each of the passes that were settled last. It is to be
	// asked for right after Settle, and empty if nothing was.
	Surplus() []Surplus
}

// Surplus is the tokens of a request beyond one in each pass of a coast.
type Surplus struct {
	ID     RequestID
	Tokens int
}
