package engine

// Puller is an engine that takes part in hand-offs by its own rules, where a Source or a Destination follows the shell.
// A prefill worker keeps the KV of a finished request until a decode worker has read it. A decode worker takes requests
// whose prompts are computed elsewhere (Request.Pull), and asks for their KV when it composes a pass:
//
//	prefill worker  Add --passes--> in Pass.Held: KV kept --Transferred--> in Pass.Released or Pass.ReleasedAtStart
//	decode worker   Add --a pass--> in Pass.Loads: loading --Transferred--> waiting --admit--> running --the last--> gone
//
// The end of a transfer is noticed when a pass starts, and takes effect when that pass ends. A pass without anything to
// do takes no time, so an idle worker applies it at once.
type Puller interface {
	Engine

	// Awake reports whether the next pass may do anything. It stays so until the engine has no requests left that could
	// go on before the next call of Add or Transferred.
	Awake() bool

	// Transferred tells a worker of either side that the KV of a request has been read, at atMs. It may be called at
	// any time, and between Coast and Settle, too.
	Transferred(id RequestID, atMs float64)

	// Instantly sets what tells, when a decode worker asks for the KV of a request, whether the transfer takes no time:
	// then it has ended when the pass starts that has asked for it, and Transferred is not called.
	Instantly(is func(id RequestID) bool)
}

// Load is a prompt whose KV a decode worker has asked for.
type Load struct {
	ID     RequestID
	Blocks int // to be transferred, the last one of the prompt always among them
	Rank   int // the data-parallel rank that has asked, from 0
}
