package bootstrap

import "dynosim/gocore/handoff"

// Step is what a session wants done next. The zero value is nothing.
type Step struct {
	Send []Message
	// Do is for the engine of this side: Submit, Release or CancelSource; Reserve, Activate or CancelDestination; or None.
	// What comes of it is to be told, except after the End, where it can only be a cancel.
	Do handoff.Action
	// End says that the session is over, and the connection too once Send has been sent. Err says how it went.
	End bool
}

// Fact is something that the engine of this side has done, or that has happened to the request there.
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

// String returns what has happened in words.
func (k FactKind) String() string { return factNames[k] }

// RendezvousMs is how long the halves of a hand-off wait for each other, in milliseconds, and how long the end of one that
// has failed may take.
const RendezvousMs = 30_000
