package bootstrap

import (
	"fmt"

	"github.com/google/uuid"

	"dynosim/gocore/handoff"
)

// Identity says which hand-off a frame belongs to. Both workers have it from the frontend.
type Identity struct {
	HandoffID uuid.UUID `json:"handoff_id"`
	Room      uint64    `json:"bootstrap_room"`
	RequestID uuid.UUID `json:"request_id"`
}

// Message is one of the types below.
type Message interface {
	fmt.Stringer
	// content is the message as JSON has it.
	content(handoffID uuid.UUID) any
}

// Register is the first message of a destination.
type Register struct {
	Rank  uint32 // of the engine within its worker
	Order handoff.Order
	// EngineType has to be that of the source.
	EngineType string
}

// Registered tells the destination that the source is there.
type Registered struct{}

// Action asks the destination to do something: Reserve, Activate or CancelDestination.
type Action struct {
	ID   uint64
	Verb handoff.Action
}

// Ack says what became of an action.
type Ack struct {
	ActionID uint64
	Outcome  Outcome
	Failure  string // of OutcomeFailed
}

// Outcome is what became of an action.
type Outcome uint8

// The outcomes. Accepted is that of Reserve; the others that travel answer Applied, or Noop if there was nothing to do.
const (
	Submitted Outcome = iota
	Accepted
	Scheduled
	Applied
	Noop
	OutcomeFailed
)

// Held is the fact that the source has computed the prompt, and how long its copy takes.
type Held struct {
	PromptTokens int
	Transfer     handoff.Transfer
}

// Reserved is the fact that the destination has room for the prompt.
type Reserved struct {
	MissingTokens int // to be transferred if nothing is that is there already
}

// Complete is the last message of a hand-off that succeeds.
type Complete struct{}

// Abort is the last message of one that does not.
type Abort struct{ Reason string }

// Overloaded is the answer to a Register for which there is no room.
type Overloaded struct{}

// ProtocolError is the answer to a Register that cannot be right.
type ProtocolError struct{ Reason string }

var outcomeNames = [...]string{"Submitted", "Accepted", "Scheduled", "Applied", "Noop", "Failed"}

// String returns the name that travels.
func (o Outcome) String() string { return outcomeNames[o] }

// orderNames and the other lists of names are indexed by what they name.
var orderNames = [...]string{handoff.SourceFirst: "SourceFirst", handoff.DestinationFirst: "DestinationFirst"}

var verbNames = [...]string{
	handoff.Reserve: "ReserveDestination", handoff.Activate: "ActivateDestination", handoff.CancelDestination: "CancelDestination",
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
