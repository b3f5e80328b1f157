package routing

import "math"

// Rules are what is done about a worker that does not answer although its record is there.
type Rules int

const (
	// OwnRules leave it out for one to eight seconds, and try requests without a token elsewhere however often.
	OwnRules Rules = iota
	// Rules13 are those of Dynamo 1.3.1: when a stream breaks off, the worker is off the list until the workers are
	// listed anew. It is left out of turns, but a KV-aware router chooses it nevertheless, and the request comes back
	// as a migration. What it refuses fails.
	Rules13
	// Rules16 are those of Dynamo 1.6.1: when a stream breaks off or a request is refused, the worker is left out until
	// the workers are listed anew. A request that was refused goes on elsewhere as a migration.
	Rules16
)

// listingMs is the time between two listings of the workers.
const listingMs = 5000

// Failure is how a worker has failed a request.
type Failure int

const (
	// Broken is a stream that has broken off.
	Broken Failure = iota
	// Refused is a request that the worker has not accepted.
	Refused
)

// Failed notes that a worker could not serve a request: it gets no other one for a while.
func (p *Pool) Failed(id uint64, how Failure, nowMs float64) {
	i := p.place(id)
	if i < 0 || p.config.Rules == Rules13 && how == Refused {
		return
	}
	w := p.workers[i]
	switch p.config.Rules {
	case OwnRules:
		p.Avoid(id, min(shortestPauseMs*float64(int(1)<<min(w.failures, 10)), longestPauseMs), nowMs)
		w.failures++
	default:
		w.badUntil = max(w.badUntil, (math.Floor(nowMs/listingMs)+1)*listingMs)
	}
}

// Listed reports whether a worker that has been chosen is on the list: by the rules of 1.3 a KV-aware router chooses
// others, too.
func (p *Pool) Listed(id uint64, nowMs float64) bool {
	i := p.place(id)
	return i < 0 || !p.choosesUnlisted() || p.workers[i].badUntil <= nowMs
}

// choosesUnlisted reports whether the router does not know which workers are left out.
func (p *Pool) choosesUnlisted() bool { return p.config.Rules == Rules13 && p.config.Mode == KV }

// MayGoOn reports whether a request that a worker has failed is tried elsewhere. The KV-aware router of 1.3 still has
// it booked there.
func (r Rules) MayGoOn(mode Mode, how Failure) bool {
	return r != Rules13 || how == Broken && mode != KV
}
