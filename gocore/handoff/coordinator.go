package handoff

import "fmt"

// Order says which side of a hand-off is asked first.
type Order uint8

const (
	SourceFirst      Order = iota // vLLM
	DestinationFirst              // SGLang
)

// Action is what the owner of a coordinator has to carry out.
type Action uint8

const (
	None Action = iota
	Submit
	Reserve
	StartTransfer
	Activate
	Release
	CancelSource
	CancelDestination
	Complete
)

var actionNames = [...]string{"none", "submit", "reserve", "start transfer", "activate", "release",
	"cancel source", "cancel destination", "complete"}

// String returns the name of the action, as errors show it.
func (a Action) String() string { return actionNames[a] }

// Fact is something that has happened.
type Fact uint8

const (
	SourceHeld Fact = iota
	DestinationReserved
	Transferred
	Activated
	SourceReleased
	SourceCanceled      // or there was nothing to cancel
	DestinationCanceled // or there was nothing to cancel
	// Failed says that an action cannot be carried out, or that a deadline has passed; Canceled, that the request is
	// not wanted any more. Neither answers an action.
	Failed
	Canceled
)

var factNames = [...]string{"source held", "destination reserved", "transferred", "activated", "source released",
	"source canceled", "destination canceled", "failed", "canceled"}

// String returns the name of the fact, as errors show it.
func (f Fact) String() string { return factNames[f] }

// answered is the action that a fact answers.
var answered = [...]Action{
	SourceHeld:          Submit,
	DestinationReserved: Reserve,
	Transferred:         StartTransfer,
	Activated:           Activate,
	SourceReleased:      Release,
	SourceCanceled:      CancelSource,
	DestinationCanceled: CancelDestination,
	Failed:              None,
	Canceled:            None,
}

// chains are the actions of a hand-off that succeeds. Each follows when the one before it has been answered.
var chains = [...][]Action{
	SourceFirst:      {Submit, Reserve, StartTransfer, Activate, Release, Complete},
	DestinationFirst: {Reserve, Submit, StartTransfer, Activate, Release, Complete},
}

// Coordinator is the state of one hand-off. It is a small value without pointers; New makes one.
type Coordinator struct {
	order    Order
	awaiting Action // the last one asked for
	asked    set
	cleanup  bool
}

// set is a set of actions.
type set uint16

func (s set) has(a Action) bool { return s>>a&1 == 1 }

// OrderError is the error of a fact that answers an action that was never asked for.
type OrderError struct {
	Fact     Fact
	Awaiting Action // what was asked for last
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("hand-off: %q came before it was asked for, the last action was %q", e.Fact, e.Awaiting)
}

// New returns the coordinator of a new hand-off and its first action.
func New(order Order) (Coordinator, Action) {
	c := Coordinator{order: order}
	return c, c.ask(chains[order][0])
}

// Handle takes a fact and returns the action that follows from it, or None.
//
// A fact that is known already changes nothing. After a cleanup has begun, only answers to cancels change anything, and
// after Complete nothing does. A fact that answers an action which was not asked for is an OrderError; it changes
// nothing, and the owner may go on, or tell Failed.
func (c *Coordinator) Handle(f Fact) (Action, error) {
	answers := answered[f]
	switch {
	case c.Done():
		return None, nil
	case answers == None:
		return c.beginCleanup(), nil
	case answers == c.awaiting:
		return c.ask(c.next()), nil
	case c.cleanup || c.asked.has(answers):
		return None, nil
	default:
		return None, &OrderError{Fact: f, Awaiting: c.awaiting}
	}
}

// Awaiting returns the action that was asked for last. Unless it is Complete, a fact has to follow.
func (c *Coordinator) Awaiting() Action { return c.awaiting }

// Done reports whether the hand-off is over: Complete has been asked for.
func (c *Coordinator) Done() bool { return c.awaiting == Complete }

// Succeeded reports whether the hand-off is over and the destination has the request.
func (c *Coordinator) Succeeded() bool { return c.Done() && !c.cleanup }

func (c *Coordinator) ask(a Action) Action {
	c.awaiting = a
	c.asked |= 1 << a
	return a
}

// next returns the action after the one awaited.
func (c *Coordinator) next() Action {
	if c.cleanup {
		return c.nextCancel()
	}
	chain := chains[c.order]
	for i, a := range chain {
		if a == c.awaiting {
			return chain[i+1]
		}
	}
	panic("handoff: " + c.awaiting.String() + " is not part of a hand-off that succeeds")
}

// beginCleanup starts to cancel what was asked for. A second failure changes nothing.
func (c *Coordinator) beginCleanup() Action {
	if c.cleanup {
		return None
	}
	c.cleanup = true
	return c.ask(c.nextCancel())
}

// nextCancel returns the next action of a cleanup: each side that was asked for something is cancelled once.
func (c *Coordinator) nextCancel() Action {
	switch {
	case c.asked.has(Submit) && !c.asked.has(CancelSource):
		return CancelSource
	case c.asked.has(Reserve) && !c.asked.has(CancelDestination):
		return CancelDestination
	default:
		return Complete
	}
}
