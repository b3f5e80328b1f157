package bootstrap

import (
	"fmt"

	"github.com/google/uuid"

	"dynosim/gocore/handoff"
)

// Identity names the hand-off to which a frame belongs. Both workers get it from the frontend.
type Identity struct {
	HandoffID uuid.UUID `json:"handoff_id"`
	Room      uint64    `json:"bootstrap_room"`
	RequestID uuid.UUID `json:"request_id"`
}

// Message is one of the types below.
type Message interface {
	fmt.Stringer
	// content is the value that becomes the JSON of the message.
	content(handoffID uuid.UUID) any
}

// Register is the first message of a destination.
type Register struct {
	Rank  uint32 // of the engine within its worker
	Order handoff.Order
	// EngineType must be that of the source.
	EngineType string
}

// Registered tells the destination that its source has the request.
type Registered struct{}

// Action asks the destination to do something: Reserve, Activate or CancelDestination.
type Action struct {
	ID   uint64
	Verb handoff.Action
}

// Ack is the outcome of an action.
type Ack struct {
	ActionID uint64
	Outcome  Outcome
	Failure  string // of OutcomeFailed
}

// Outcome is how an action ended.
type Outcome uint8

// The outcomes. Accepted is that of Reserve; the other actions are answered with Applied, or Noop if there was nothing
// to do.
const (
	Submitted Outcome = iota
	Accepted
	Scheduled
	Applied
	Noop
	OutcomeFailed
)

// Held is the fact that the source has computed the prompt and holds its KV, with what decides how long the copy takes.
type Held struct {
	PromptTokens int
	Transfer     handoff.Transfer
}

// Reserved is the fact that the destination has room for the prompt.
type Reserved struct {
	MissingTokens int // to be transferred if only missing blocks are
}

// Complete is the last message of a hand-off that succeeds.
type Complete struct{}

// Abort is the last message of one that does not.
type Abort struct{ Reason string }

// Overloaded is the answer to a Register for which there is no room.
type Overloaded struct{}

// ProtocolError is the answer to a Register that contradicts the protocol.
type ProtocolError struct{ Reason string }

var outcomeNames = [...]string{"Submitted", "Accepted", "Scheduled", "Applied", "Noop", "Failed"}

// String returns the name in the protocol.
func (o Outcome) String() string { return outcomeNames[o] }

// orderNames and the other lists have the names of constants in the protocol, by constant.
var orderNames = [...]string{handoff.SourceFirst: "SourceFirst", handoff.DestinationFirst: "DestinationFirst"}

var verbNames = [...]string{
	handoff.Reserve: "ReserveDestination", handoff.Activate: "ActivateDestination",
	handoff.CancelDestination: "CancelDestination",
}

var modeNames = [...]string{handoff.FullPrompt: "full_prompt", handoff.DestinationMissing: "destination_missing"}

func (m Register) String() string {
	return fmt.Sprintf("Register rank %d %s %s", m.Rank, orderNames[m.Order], m.EngineType)
}
func (Registered) String() string { return "Registered" }
func (m Action) String() string   { return fmt.Sprintf("Action %d %s", m.ID, verbNames[m.Verb]) }
func (m Ack) String() string {
	if m.Outcome == OutcomeFailed {
		return fmt.Sprintf("Ack %d Failed: %s", m.ActionID, m.Failure)
	}
	return fmt.Sprintf("Ack %d %s", m.ActionID, m.Outcome)
}
func (m Held) String() string {
	return fmt.Sprintf("Held %s %d tokens, %d bytes per token, %v GB/s",
		modeNames[m.Transfer.Mode], m.PromptTokens, m.Transfer.BytesPerToken, m.Transfer.BandwidthGBs)
}
func (m Reserved) String() string      { return fmt.Sprintf("Reserved %d tokens", m.MissingTokens) }
func (Complete) String() string        { return "Complete" }
func (m Abort) String() string         { return "Abort: " + m.Reason }
func (Overloaded) String() string      { return "Overloaded" }
func (m ProtocolError) String() string { return "ProtocolError: " + m.Reason }
