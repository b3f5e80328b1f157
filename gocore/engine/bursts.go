package engine

// BurstCoaster is an engine that can also coast while it decodes speculatively.
type BurstCoaster interface {
	Coaster

	// CoastWithBursts lets coasts have passes in which requests of the emitting set emit bursts. Their sizes are not known
	// pass by pass, so this is for shells that need no more than Surplus. It must be called before the first request.
	CoastWithBursts()

	// Surplus lists what requests emitted beyond one token in each of the passes that were settled last. It is to be asked for
	// right after Settle, and empty if nothing was.
	Surplus() []Surplus
}

// Surplus is the tokens of a request beyond one in each pass of a coast.
type Surplus struct {
	ID     RequestID
	Tokens int
}
