package bootstrap

import (
	"errors"
	"fmt"
	"math"

	"dynosim/gocore/handoff"
)

// Source is the side of the prefill worker in one hand-off. After the End all its methods do nothing.
type Source struct {
	coordinator handoff.Coordinator
	first       handoff.Action
	held        Held
	timeoutMs   float64

	nextID   uint64 // of the next action
	asked    []asked
	reserved *Reserved

	transferEndMs float64 // of the current transfer, or infinity
	deadlineMs    float64
	owes          bool // the engine has got the request, and no later action
	over          bool
	err           error
}

// asked is an action that was sent to the destination.
type asked struct {
	Action
	ack *Ack
}

// NewSource returns the source of a hand-off, which has to be over within timeoutMs, not counting the transfer. held is
// the message that it sends when the prompt is computed.
func NewSource(order handoff.Order, held Held, timeoutMs float64) *Source {
	s := &Source{held: held, timeoutMs: timeoutMs, transferEndMs: math.Inf(1), deadlineMs: math.Inf(1)}
	s.coordinator, s.first = handoff.New(order)
	return s
}

// Begin starts the hand-off, once the destination has been found.
func (s *Source) Begin(nowMs float64) Step {
	s.deadlineMs = nowMs + s.timeoutMs
	step := Step{Send: []Message{Registered{}}}
	s.ask(s.first, nowMs, &step)
	return step
}

// WakeMs returns when Tick has to be called.
func (s *Source) WakeMs() float64 { return min(s.deadlineMs, s.transferEndMs) }

// Err returns the error with which the session has ended, nil if the destination has the request.
func (s *Source) Err() error { return s.err }

// Tick checks deadlines and the end of the transfer.
func (s *Source) Tick(nowMs float64) (step Step) {
	switch {
	case s.over:
	case nowMs >= s.transferEndMs:
		s.transferEndMs = math.Inf(1)
		s.handle(handoff.Transferred, nowMs, &step)
	case nowMs >= s.deadlineMs && s.err != nil:
		s.abort(&step)
	case nowMs >= s.deadlineMs:
		s.giveUp(handoff.Failed, errors.New("the hand-off took too long"), nowMs, &step)
	}
	return step
}

// Tell handles a fact about the request in the engine of this side.
func (s *Source) Tell(f Fact, nowMs float64) (step Step) {
	if s.over {
		return step
	}
	switch f.Kind {
	case PromptComputed:
		if s.coordinator.Awaiting() == handoff.Submit {
			step.Send = append(step.Send, s.held)
		}
		s.handle(handoff.SourceHeld, nowMs, &step)
	case Released:
		s.handle(handoff.SourceReleased, nowMs, &step)
	case Canceled:
		s.handle(handoff.SourceCanceled, nowMs, &step)
	case Failed:
		s.giveUp(handoff.Failed, errors.New(f.Reason), nowMs, &step)
	default:
		s.fail(fmt.Errorf("%v, on a prefill worker", f.Kind), &step)
	}
	return step
}

// Receive handles a message of the destination.
func (s *Source) Receive(m Message, nowMs float64) (step Step) {
	if s.over {
		return step
	}
	switch m := m.(type) {
	case Ack:
		s.acknowledged(m, nowMs, &step)
	case Reserved:
		s.roomFound(m, nowMs, &step)
	case Abort:
		return s.Lost(fmt.Errorf("the decode worker gave up: %s", m.Reason))
	case ProtocolError:
		return s.Lost(fmt.Errorf("the decode worker did not understand: %s", m.Reason))
	default:
		s.fail(fmt.Errorf("a decode worker must not send %q", m), &step)
	}
	return step
}

// Cancel ends the hand-off of a request that is not wanted any more.
func (s *Source) Cancel(cause error, nowMs float64) (step Step) {
	if !s.over {
		s.giveUp(handoff.Canceled, cause, nowMs, &step)
	}
	return step
}

// Lost says that the destination cannot be reached any more.
func (s *Source) Lost(cause error) (step Step) {
	if !s.over {
		s.end(cause, &step)
	}
	return step
}

func (s *Source) acknowledged(ack Ack, nowMs float64, step *Step) {
	var a *asked
	for i := range s.asked {
		if s.asked[i].ID == ack.ActionID {
			a = &s.asked[i]
		}
	}
	switch {
	case a == nil:
		s.fail(fmt.Errorf("%q: there is no such action", ack), step)
		return
	case a.ack != nil && *a.ack != ack:
		s.fail(fmt.Errorf("%q came after %q", ack, *a.ack), step)
		return
	case a.ack != nil:
		return
	}
	a.ack = &ack
	switch {
	case a.Verb == handoff.Reserve && ack.Outcome == Accepted:
	case a.Verb == handoff.Activate && ack.Outcome == Applied:
		s.handle(handoff.Activated, nowMs, step)
	case a.Verb == handoff.CancelDestination && (ack.Outcome == Applied || ack.Outcome == Noop):
		s.handle(handoff.DestinationCanceled, nowMs, step)
	case a.Verb != handoff.CancelDestination && ack.Outcome == OutcomeFailed:
		s.giveUp(handoff.Failed, fmt.Errorf("the decode worker refused: %s", ack.Failure), nowMs, step)
	default:
		s.fail(fmt.Errorf("%q does not answer %q", ack, a.Action), step)
	}
}

func (s *Source) roomFound(r Reserved, nowMs float64, step *Step) {
	switch {
	case s.reserved != nil && *s.reserved != r:
		s.fail(fmt.Errorf("%q came after %q", r, *s.reserved), step)
	case s.reserved != nil:
	case !s.accepted():
		s.fail(fmt.Errorf("%q came before Reserve was accepted", r), step)
	default:
		s.reserved = &r
		s.handle(handoff.DestinationReserved, nowMs, step)
	}
}

// accepted reports whether the destination has accepted Reserve.
func (s *Source) accepted() bool {
	for _, a := range s.asked {
		if a.Verb == handoff.Reserve {
			return a.ack != nil && a.ack.Outcome == Accepted
		}
	}
	return false
}

func (s *Source) handle(f handoff.Fact, nowMs float64, step *Step) {
	action, err := s.coordinator.Handle(f)
	if err != nil {
		s.fail(err, step)
		return
	}
	s.ask(action, nowMs, step)
}

// ask carries out an action of the coordinator, or sends it to the destination.
func (s *Source) ask(a handoff.Action, nowMs float64, step *Step) {
	if a == handoff.None {
		return
	}
	id := s.nextID
	s.nextID++
	switch a {
	case handoff.Submit, handoff.Release, handoff.CancelSource:
		s.owes = a == handoff.Submit
		step.Do = a
	case handoff.Reserve, handoff.Activate, handoff.CancelDestination:
		message := Action{ID: id, Verb: a}
		s.asked = append(s.asked, asked{Action: message})
		step.Send = append(step.Send, message)
	case handoff.StartTransfer:
		s.startTransfer(nowMs, step)
	case handoff.Complete:
		if s.coordinator.Succeeded() {
			step.Send = append(step.Send, Complete{})
			s.end(nil, step)
		} else {
			s.abort(step)
		}
	}
}

func (s *Source) startTransfer(nowMs float64, step *Step) {
	delayMs := s.held.Transfer.DelayMs(s.held.PromptTokens, s.reserved.MissingTokens)
	if delayMs > 0 {
		s.transferEndMs = nowMs + delayMs
		s.deadlineMs += delayMs
	} else {
		s.handle(handoff.Transferred, nowMs, step)
	}
}

// giveUp starts the clean-up: both sides are canceled, one after the other.
func (s *Source) giveUp(f handoff.Fact, cause error, nowMs float64, step *Step) {
	if s.err != nil {
		return
	}
	s.err = cause
	s.deadlineMs, s.transferEndMs = nowMs+RendezvousMs, math.Inf(1)
	s.handle(f, nowMs, step)
}

// abort ends a hand-off after its clean-up.
func (s *Source) abort(step *Step) {
	step.Send = append(step.Send, Abort{"handoff canceled"})
	s.end(nil, step)
}

// fail ends a hand-off in which the protocol was violated.
func (s *Source) fail(cause error, step *Step) {
	step.Send = append(step.Send, Abort{cause.Error()})
	s.end(cause, step)
}

// end ends the session. Only the first cause is kept.
func (s *Source) end(cause error, step *Step) {
	if s.err == nil {
		s.err = cause
	}
	if s.owes {
		s.owes = false
		step.Do = handoff.CancelSource
	}
	s.over, step.End = true, true
}
