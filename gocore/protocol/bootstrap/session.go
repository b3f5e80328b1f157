package bootstrap

import "dynosim/gocore/handoff"

// Step is what has to be done next for a session. The zero value is nothing.
type Step struct {
	Send []Message
	// Do is for the engine of this side: Submit, Release or CancelSource; Reserve, Activate or CancelDestination; or
	// None. Its outcome must be told, except after the End, where Do can only be a cancel.
	Do handoff.Action
	// End says that the session is over, and after Send has been sent the connection as well. Err has the cause.
	End bool
}

// Fact is what the engine of this side has done, or what has happened to the request there.
type Fact struct {
	Kind          FactKind
	MissingTokens int    // of RoomFound
	Reason        string // of Failed
}

// FactKind says what has happened.
type FactKind uint8

const (
	PromptComputed FactKind = iota // answers Submit: the source holds the KV
	Released                       // answers Release
	Queued                         // answers Reserve: the request waits for room
	RoomFound                      // follows Queued
	Activated                      // answers Activate
	Canceled                       // answers CancelSource and CancelDestination
	Failed                         // the engine will not run the request; it has forgotten it
)

var factNames = [...]string{"prompt computed", "released", "queued", "room found", "activated", "canceled", "failed"}

// String returns the fact in words, for errors.
func (k FactKind) String() string { return factNames[k] }

// RendezvousMs is how long the two sides of a hand-off wait for each other, in milliseconds, and how long the clean-up
// of a failed hand-off may take.
const RendezvousMs = 30_000
