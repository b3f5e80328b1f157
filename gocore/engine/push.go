package engine

// Pusher is an engine that takes part in hand-offs by SGLang's rules. Both workers get a request when it comes, the
// prefill worker its prompt (Request.Hold), the decode worker all of it (Request.Pull), and the decode worker takes
// room first. The prefill worker computes the prompt only then, and sends the KV of each part once that is computed:
//
//	decode worker    Add --a pass--> in Pass.Allocated: room taken ......... Transferred --a pass--> decodes
//	prefill worker   Add: waits ----------- Allocated --passes--> in Pass.Sent, in Pass.Held: KV kept
//	                                       Transferred --> in Pass.ReleasedAtStart
//
// The first token is the prefill worker's; it comes with the KV, and the decode worker passes it on as soon as the
// request has a seat there. A pass without anything to do takes no time, so an idle worker notices everything at once.
type Pusher interface {
	Engine

	// Awake reports whether the next pass may do anything. It stays so until the engine has no requests left that could
	// go on before the next call of Add, Allocated or Transferred.
	Awake() bool

	// Allocated tells a prefill worker that the decode worker of a request, which it may not have yet, has taken room
	// for its prompt. It may be called at any time.
	Allocated(id RequestID)

	// Transferred tells a worker of either side that all KV of a prompt has come. It may be called at any time, and
	// between Coast and Settle, too.
	Transferred(id RequestID)
}

// Chunk is a part of a prompt whose KV a prefill worker sends.
type Chunk struct {
	ID     RequestID
	Blocks int
	Last   bool
}
