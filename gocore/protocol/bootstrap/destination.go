package bootstrap

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/handoff"
)

// Destination is the side of the decode worker in one hand-off. After the End all its methods do nothing.
type Destination struct {
	register  Register
	timeoutMs float64

	registered bool
	held       *Held
	extended   bool       // deadlineMs has the transfer in it
	queue      []Action   // that are not acknowledged; the first one is being carried out
	answered   []answered // the last ones
	missing    int        // tokens, once reserved
	place      place

	deadlineMs float64
	over       bool
	err        error
}

// place is the state of the request in the engine.
type place uint8

const (
	unknown  place = iota
	pending        // Reserve has been asked for
	reserved       // there is room
	active         // its KV has arrived
	gone           // canceled, or refused
)

type answered struct {
	Action
	ack Ack
}

// remembered is how many outcomes a destination keeps, and how many actions may wait.
const remembered = 16

// NewDestination returns the destination of a hand-off, which has to be over within timeoutMs of its registration, not
// counting the transfer.
func NewDestination(register Register, timeoutMs float64) *Destination {
	return &Destination{register: register, timeoutMs: timeoutMs, deadlineMs: math.Inf(1)}
}

// Begin starts the hand-off, once the destination is connected to the source and has sent the header.
func (d *Destination) Begin(nowMs float64) Step {
	d.deadlineMs = nowMs + RendezvousMs
	return Step{Send: []Message{d.register}}
}

// WakeMs returns when Tick has to be called.
func (d *Destination) WakeMs() float64 { return d.deadlineMs }

// Err returns the error with which the session has ended, nil if the engine has the request.
func (d *Destination) Err() error { return d.err }

// Tick checks deadlines.
func (d *Destination) Tick(nowMs float64) (step Step) {
	switch {
	case d.over || nowMs < d.deadlineMs:
	case !d.registered:
		d.fail(errors.New("the prefill worker has not got the request in time"), &step)
	default:
		d.fail(errors.New("the hand-off took too long"), &step)
	}
	return step
}

// Tell handles a fact about the request in the engine of this side.
func (d *Destination) Tell(f Fact, _ float64) (step Step) {
	if d.over {
		return step
	}
	switch {
	case f.Kind == Queued && d.doing(handoff.Reserve):
		d.acknowledge(Accepted, "", &step)
	case f.Kind == Failed && d.doing(handoff.Reserve):
		d.place, d.err = gone, errors.New(f.Reason)
		d.acknowledge(OutcomeFailed, f.Reason, &step)
	case f.Kind == Failed:
		d.fail(errors.New(f.Reason), &step)
	case f.Kind == RoomFound && d.place == pending:
		d.place, d.missing = reserved, f.MissingTokens
		step.Send = append(step.Send, Reserved{f.MissingTokens})
		d.extend()
	case f.Kind == RoomFound && d.place == gone: // canceled meanwhile
	case f.Kind == Activated && d.doing(handoff.Activate):
		d.place = active
		d.acknowledge(Applied, "", &step)
	case f.Kind == Canceled && d.doing(handoff.CancelDestination):
		d.acknowledge(Applied, "", &step)
	default:
		d.fail(fmt.Errorf("%v, which was not asked for", f.Kind), &step)
	}
	return step
}

// Receive handles a message of the source.
func (d *Destination) Receive(m Message, nowMs float64) (step Step) {
	if d.over {
		return step
	}
	switch m := m.(type) {
	case Overloaded:
		d.end(errors.New("the prefill worker has too many hand-offs"), &step)
	case Abort:
		d.end(fmt.Errorf("the prefill worker gave up: %s", m.Reason), &step)
	case ProtocolError:
		d.end(fmt.Errorf("the prefill worker did not understand: %s", m.Reason), &step)
	case Registered:
		if d.registered {
			d.fail(errors.New("registered twice"), &step)
		}
		d.registered, d.deadlineMs = true, nowMs+d.timeoutMs
	default:
		if !d.registered {
			d.fail(fmt.Errorf("%q came before Registered", m), &step)
			return step
		}
		d.converse(m, &step)
	}
	return step
}

// converse handles a message that follows Registered.
func (d *Destination) converse(m Message, step *Step) {
	switch m := m.(type) {
	case Held:
		d.promptComputed(m, step)
	case Action:
		d.asked(m, step)
	case Complete:
		if d.place != active || len(d.queue) > 0 {
			d.fail(errors.New("destination handoff ended before completion"), step)
		} else {
			d.end(nil, step)
		}
	default:
		d.fail(fmt.Errorf("a prefill worker must not send %q", m), step)
	}
}

// Cancel ends the hand-off of a request that is not wanted any more.
func (d *Destination) Cancel(cause error, _ float64) (step Step) {
	if !d.over {
		d.fail(cause, &step)
	}
	return step
}

// Lost says that the source cannot be reached any more.
func (d *Destination) Lost(cause error) (step Step) {
	if !d.over {
		d.end(cause, &step)
	}
	return step
}

func (d *Destination) promptComputed(h Held, step *Step) {
	switch {
	case d.held == nil:
		d.held = &h
		d.extend()
	case *d.held != h:
		d.fail(fmt.Errorf("%q came after %q", h, *d.held), step)
	}
}

// extend adds the duration of the transfer to the deadline, once it is known.
func (d *Destination) extend() {
	if d.held == nil || d.extended || d.place < reserved && d.held.Transfer.Mode == handoff.DestinationMissing {
		return
	}
	d.extended = true
	d.deadlineMs += d.held.Transfer.DelayMs(d.held.PromptTokens, d.missing)
}

// asked handles an action. One that has been answered is answered again.
func (d *Destination) asked(a Action, step *Step) {
	for _, known := range d.answered {
		if known.ID == a.ID && known.Action == a {
			step.Send = append(step.Send, known.ack)
			return
		}
	}
	sameID := func(other Action) bool { return other.ID == a.ID }
	i := slices.IndexFunc(d.queue, sameID)
	switch {
	case i >= 0 && d.queue[i] == a:
	case i >= 0 || slices.ContainsFunc(d.answered, func(known answered) bool { return sameID(known.Action) }):
		d.fail(fmt.Errorf("%q: that number stands for something else", a), step)
	case len(d.queue) == remembered:
		d.fail(errors.New("too many actions at a time"), step)
	default:
		d.queue = append(d.queue, a)
		if len(d.queue) == 1 {
			d.carryOut(step)
		}
	}
}

// carryOut starts the first action of the queue.
func (d *Destination) carryOut(step *Step) {
	a := d.queue[0]
	switch {
	case a.Verb == handoff.Reserve && d.place == unknown:
		d.place = pending
	case a.Verb == handoff.Activate && d.place == reserved:
	case a.Verb == handoff.CancelDestination && d.owes():
		d.place = gone
	case a.Verb == handoff.CancelDestination:
		d.acknowledge(Noop, "", step)
		return
	default:
		d.fail(fmt.Errorf("%q is out of order", a), step)
		return
	}
	step.Do = a.Verb
}

func (d *Destination) doing(verb handoff.Action) bool {
	return len(d.queue) > 0 && d.queue[0].Verb == verb
}

// acknowledge answers the action that was carried out, and starts the next one.
func (d *Destination) acknowledge(o Outcome, failure string, step *Step) {
	a := d.queue[0]
	ack := Ack{ActionID: a.ID, Outcome: o, Failure: failure}
	step.Send = append(step.Send, ack)
	if d.answered = append(d.answered, answered{a, ack}); len(d.answered) > remembered {
		d.answered = d.answered[1:]
	}
	if d.queue = d.queue[1:]; len(d.queue) > 0 {
		d.carryOut(step)
	}
}

// fail ends the session and sends the source the cause.
func (d *Destination) fail(cause error, step *Step) {
	step.Send = append(step.Send, Abort{cause.Error()})
	d.end(cause, step)
}

// end ends the session. Only the first cause is kept.
func (d *Destination) end(cause error, step *Step) {
	if d.err == nil {
		d.err = cause
	}
	if d.err != nil && d.owes() {
		d.place, step.Do = gone, handoff.CancelDestination
	}
	d.over, step.End = true, true
}

// owes reports whether the engine has the request.
func (d *Destination) owes() bool {
	return d.place == pending || d.place == reserved || d.place == active
}
