package engine

import "dynosim/gocore/kvcache"

// Role is the part of a request's life that an engine serves.
type Role uint8

const (
	Aggregated Role = iota // prompt and output
	Prefill                // the prompt, for a Destination elsewhere; such an engine is a Source
	Decode                 // the output, with a prompt computed by a Source elsewhere; such an engine is a Destination
)

var roleNames = [...]string{"aggregated", "prefill", "decode"}

// String returns the name users write.
func (r Role) String() string { return roleNames[r] }

// RoleNames lists the names of all roles, in their order.
func RoleNames() []string { return roleNames[:] }

// Source is an engine that computes prompts for other engines. It gets requests of one output token, with Hold set:
// that token is not part of any answer, but it marks the end of the prompt.
//
//	Add --passes--> in Pass.Held: KV held --ReleaseSource--> gone
//	     \--passes--> in Pass.Rejected            \--CancelSource--> gone
//
// The two verbs may be called between passes only. They return what happened to the cache, which is visible at once;
// the slice is valid until the next call of any method.
type Source interface {
	Engine

	// ReleaseSource gives back the KV that a request holds. Of a request that is not finished yet it says that nothing
	// need be held; of one that the engine does not know, nothing.
	ReleaseSource(RequestID) []kvcache.Event

	// CancelSource forgets a request wherever it is: waiting, running or held. One that the engine does not know is
	// fine.
	CancelSource(RequestID) []kvcache.Event
}

// Destination is an engine that takes over requests whose prompts are computed by other engines.
//
//	Reserve --> pending --TryReserve--> reserved --Activate--> waiting --admit--> running --last token--> gone
//
// Pending and reserved requests count neither as Requests nor as a reason for a pass. All verbs may be called between
// passes only; what they do to the cache is reported by the next pass.
type Destination interface {
	Engine

	// Reserve puts a request at the end of the queue of those that wait for KV. The error says why the engine can never
	// run it; it has then been forgotten.
	Reserve(Request) error

	// TryReserve takes room for the prompt of the request at the head of that queue, and for no other. It does nothing
	// if the head has been tried before and there is no reason why there should be more room now. To be called after
	// each Reserve on an idle engine, after each Activate and CancelDestination, and at the end of each pass.
	TryReserve() (Reservation, bool)

	// Activate makes a request wait for admission whose KV has arrived in the room reserved for it.
	Activate(RequestID)

	// CancelDestination forgets a request wherever it is: pending, reserved, waiting or running. One that the engine
	// does not know is fine.
	CancelDestination(RequestID)
}

// Reservation is room for the prompt of a request.
type Reservation struct {
	ID RequestID
	// MissingTokens is how much of the prompt has to be transferred, if nothing is that is there already. It is rounded
	// up to whole blocks.
	MissingTokens int
}
