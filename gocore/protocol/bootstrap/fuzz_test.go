package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"dynosim/gocore/handoff"
)

// anything is every kind of message with small numbers, right and wrong ones.
var anything = []Message{
	Register{EngineType: "vllm"}, Registered{}, Complete{}, Overloaded{}, Abort{"a"}, ProtocolError{"p"},
	Action{0, handoff.Reserve}, Action{1, handoff.Reserve}, Action{2, handoff.Activate}, Action{3, handoff.Activate},
	Action{3, handoff.CancelDestination}, Action{5, handoff.CancelDestination},
	Ack{0, Accepted, ""}, Ack{1, Accepted, ""}, Ack{1, OutcomeFailed, "f"}, Ack{3, Applied, ""}, Ack{3, Noop, ""},
	Ack{5, Noop, ""},
	Held{PromptTokens: 100}, Held{100, handoff.Transfer{BytesPerToken: 1_000_000, BandwidthGBs: 10,
		Mode: handoff.DestinationMissing}},
	Reserved{0}, Reserved{128},
}

// engineSide follows what a session asks of its engine.
type engineSide struct {
	source  bool
	has     bool // it has been given the request
	owed    []FactKind
	actions []handoff.Action
}

func (e *engineSide) do(a handoff.Action) error {
	if a == handoff.None {
		return nil
	}
	e.actions = append(e.actions, a)
	ours := a == handoff.Submit || a == handoff.Release || a == handoff.CancelSource
	if ours != e.source {
		return fmt.Errorf("%v is for the other side", a)
	}
	switch a {
	case handoff.Submit:
		e.owed = append(e.owed, PromptComputed)
	case handoff.Reserve:
		e.owed = append(e.owed, Queued, RoomFound)
	case handoff.Activate:
		e.owed = append(e.owed, Activated)
	case handoff.Release:
		e.owed = []FactKind{Released}
	default:
		e.owed = []FactKind{Canceled}
	}
	switch begins := a == handoff.Submit || a == handoff.Reserve; {
	case begins && slices.Contains(e.actions[:len(e.actions)-1], a):
		return fmt.Errorf("%v: twice", e.actions)
	case a != handoff.Activate: // cancels of what the engine does not know are fine
		e.has = begins
	}
	return nil
}

// watch checks a step of a session.
func (e *engineSide) watch(s session, step Step, wasOver bool) error {
	if wasOver && (len(step.Send) > 0 || step.Do != handoff.None || step.End) {
		return fmt.Errorf("after the end: %v", step)
	}
	if err := e.do(step.Do); err != nil {
		return err
	}
	if !step.End {
		return nil
	}
	if e.has && (e.source || s.Err() != nil) {
		return fmt.Errorf("%v: the engine keeps the request after %v", e.actions, s.Err())
	}
	if !e.has && !e.source && s.Err() == nil {
		return errors.New("success without a request")
	}
	return nil
}

// drive feeds a session with a script: each byte is a message, a fact, or something that happens to it.
func drive(s session, source bool, script []byte) error {
	e := &engineSide{source: source}
	over := false
	note := func(step Step) error {
		err := e.watch(s, step, over)
		over = over || step.End
		return err
	}
	if err := note(s.Begin(0)); err != nil {
		return err
	}
	nowMs := 0.0
	for i, b := range script {
		nowMs += float64(b % 7)
		var step Step
		switch {
		case b < 128:
			step = s.Receive(anything[int(b)%len(anything)], nowMs)
		case b < 200 && len(e.owed) > 0:
			fact := Fact{Kind: e.owed[0], MissingTokens: 128}
			e.owed = e.owed[1:]
			step = s.Tell(fact, nowMs)
		case b < 220:
			nowMs = max(nowMs, min(s.WakeMs(), 1e9))
			step = s.Tick(nowMs)
		case b < 230:
			kind := FactKind(i % len(factNames))
			e.has = e.has && kind != Failed
			step = s.Tell(Fact{Kind: kind, Reason: "r"}, nowMs)
		case b < 240:
			step = s.Cancel(errors.New("c"), nowMs)
		case b < 245:
			step = s.Lost(errors.New("l"))
		default:
			step = s.Tick(nowMs)
		}
		if err := note(step); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	for i := 0; !over; i++ { // silence ends everything
		if i == 10 {
			return errors.New("no end")
		}
		if err := note(s.Tick(s.WakeMs())); err != nil {
			return err
		}
	}
	return nil
}

func FuzzSource(f *testing.F) {
	f.Add(false, []byte{150, 13, 21, 15, 150})
	f.Add(true, []byte{12, 21, 150, 15, 150})
	f.Add(false, []byte{150, 13, 235, 150, 16})
	f.Fuzz(func(t *testing.T, destinationFirst bool, script []byte) {
		order := handoff.SourceFirst
		if destinationFirst {
			order = handoff.DestinationFirst
		}
		held := Held{100, handoff.Transfer{BytesPerToken: 1_000_000, BandwidthGBs: 10,
			Mode: handoff.DestinationMissing}}
		if err := drive(NewSource(order, held, 1000), true, script); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDestination(f *testing.F) {
	f.Add([]byte{1, 18, 7, 150, 150, 9, 150, 2})
	f.Add([]byte{1, 7, 150, 10, 150, 4})
	f.Fuzz(func(t *testing.T, script []byte) {
		if err := drive(NewDestination(Register{EngineType: "vllm"}, 1000), false, script); err != nil {
			t.Fatal(err)
		}
	})
}

// pair is a source and a destination that talk to each other, with one message at a time under way in each direction.
type pair struct {
	sessions [2]session
	engines  [2]engineSide
	under    [2][]Message // to that side
	over     [2]bool
	nowMs    float64
}

func (p *pair) note(side int, step Step) error {
	err := p.engines[side].watch(p.sessions[side], step, p.over[side])
	p.over[side] = p.over[side] || step.End
	p.under[1-side] = append(p.under[1-side], step.Send...)
	return err
}

// next lets one side hear its next message, or the end of the connection.
func (p *pair) next(side int) error {
	s := p.sessions[side]
	if len(p.under[side]) > 0 {
		m := p.under[side][0]
		p.under[side] = p.under[side][1:]
		return p.note(side, s.Receive(m, p.nowMs))
	}
	if p.over[1-side] && !p.over[side] {
		return p.note(side, s.Lost(errors.New("closed")))
	}
	return nil
}

func (p *pair) tell(side int, f Fact) error { return p.note(side, p.sessions[side].Tell(f, p.nowMs)) }

func (p *pair) answer(side int) error {
	e := &p.engines[side]
	if len(e.owed) == 0 {
		return nil
	}
	f := Fact{Kind: e.owed[0], MissingTokens: 64}
	e.owed = e.owed[1:]
	return p.tell(side, f)
}

func (p *pair) act(b byte) error {
	side := int(b & 1)
	p.nowMs++
	switch b / 2 % 16 {
	default:
		return p.next(side)
	case 8, 9, 10, 11, 12:
		return p.answer(side)
	case 13:
		return p.note(side, p.sessions[side].Tick(p.nowMs))
	case 14:
		return p.note(side, p.sessions[side].Cancel(errors.New("client"), p.nowMs))
	case 15:
		if e := &p.engines[side]; e.has && len(e.owed) > 0 && e.owed[0] != Activated {
			e.owed, e.has = nil, false
			return p.tell(side, Fact{Kind: Failed, Reason: "rejected"})
		}
	}
	return nil
}

// finish lets everything happen that can.
func (p *pair) finish() error {
	for round := 0; !p.over[0] || !p.over[1]; round++ {
		if round > 100 {
			return errors.New("no end")
		}
		for side := range 2 {
			if err := errors.Join(p.next(side), p.answer(side)); err != nil {
				return err
			}
			if wake := p.sessions[side].WakeMs(); !p.over[side] && round > 50 {
				p.nowMs = max(p.nowMs, wake)
				if err := p.note(side, p.sessions[side].Tick(p.nowMs)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// FuzzPair lets both sides of a hand-off talk in any interleaving, and lose interest at any moment. If the destination
// has succeeded, so has the source, and without a reason to fail both do.
func FuzzPair(f *testing.F) {
	f.Add(false, []byte{0, 1, 0, 1})
	f.Add(true, []byte{28, 16, 17, 29})
	f.Fuzz(func(t *testing.T, destinationFirst bool, script []byte) {
		order := handoff.SourceFirst
		if destinationFirst {
			order = handoff.DestinationFirst
		}
		p := &pair{}
		p.sessions[0] = NewSource(order, Held{100, handoff.Transfer{}}, 1000)
		p.sessions[1] = NewDestination(Register{Order: order, EngineType: "vllm"}, 1000)
		p.engines[0].source = true
		calm := len(script) < 200
		err := errors.Join(p.note(1, p.sessions[1].Begin(0)))
		p.under[0] = nil // the source has got Register before it began
		err = errors.Join(err, p.note(0, p.sessions[0].Begin(0)))
		for _, b := range script {
			calm = calm && b/2%16 < 14
			err = errors.Join(err, p.act(b))
		}
		if err = errors.Join(err, p.finish()); err != nil {
			t.Fatal(err)
		}
		source, destination := p.sessions[0].Err(), p.sessions[1].Err()
		if destination == nil && source != nil || calm && (source != nil || destination != nil) {
			t.Fatalf("source: %v, destination: %v", source, destination)
		}
	})
}
