package bootstrap

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/handoff"
	"dynosim/gocore/scripttest"
)

// session is what both sides have in common.
type session interface {
	Begin(nowMs float64) Step
	Receive(Message, float64) Step
	Tell(Fact, float64) Step
	Tick(float64) Step
	Cancel(error, float64) Step
	Lost(error) Step
	WakeMs() float64
	Err() error
}

// TestSessionsGolden plays scripts to one side of a hand-off:
//
//	source|destination [order=destination-first] [mode=destination_missing] [prompt=N] [bytes=N] [bandwidth=N]
//	    [timeout=N]
//	MS begin | tick | cancel | lost      or a fact
//	MS < MESSAGE                         of the other side
//
// and shows what the session makes of each line.
func TestSessionsGolden(t *testing.T) {
	scripttest.Run(t, "testdata/sessions", func(t *testing.T, d *datadriven.TestData) string {
		s := newSession(t, d)
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			at, what, _ := strings.Cut(line, " ")
			nowMs, err := strconv.ParseFloat(at, 64)
			if err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
			fmt.Fprintf(&out, "%-44s %s\n", line, showStep(play(s, what, nowMs), s))
		}
		if wake := s.WakeMs(); wake < 1e12 {
			fmt.Fprintf(&out, "%-44s wakes at %v\n", "", wake)
		}
		return out.String()
	})
}

func newSession(t *testing.T, d *datadriven.TestData) session {
	text := func(name, standard string) string {
		if d.HasArg(name) {
			d.ScanArgs(t, name, &standard)
		}
		return standard
	}
	number := func(name string, standard float64) float64 {
		n, err := strconv.ParseFloat(text(name, fmt.Sprint(standard)), 64)
		if err != nil {
			d.Fatalf(t, "%s: %v", name, err)
		}
		return n
	}
	order := handoff.SourceFirst
	if text("order", "source-first") == "destination-first" {
		order = handoff.DestinationFirst
	}
	if d.Cmd == "destination" {
		return NewDestination(Register{Order: order, EngineType: "vllm"}, number("timeout", 1000))
	}
	held := Held{PromptTokens: int(number("prompt", 100)), Transfer: handoff.Transfer{
		BytesPerToken: int(number("bytes", 1_000_000)), BandwidthGBs: number("bandwidth", 0),
	}}
	if text("mode", "full_prompt") == "destination_missing" {
		held.Transfer.Mode = handoff.DestinationMissing
	}
	return NewSource(order, held, number("timeout", 1000))
}

func play(s session, what string, nowMs float64) Step {
	for kind, name := range factNames {
		if rest, found := strings.CutPrefix(what, name); found {
			f := Fact{Kind: FactKind(kind)}
			if f.Kind == Failed {
				f.Reason = "rejected"
			}
			_, _ = fmt.Sscan(rest, &f.MissingTokens)
			return s.Tell(f, nowMs)
		}
	}
	switch what {
	case "begin":
		return s.Begin(nowMs)
	case "tick":
		return s.Tick(nowMs)
	case "cancel":
		return s.Cancel(errors.New("the client has gone"), nowMs)
	case "lost":
		return s.Lost(errors.New("the connection broke"))
	}
	return s.Receive(parseMessage(strings.TrimPrefix(what, "< ")), nowMs)
}

// parseMessage reads a message in the form that its String has, except for Held: Held MODE TOKENS BYTES BANDWIDTH.
func parseMessage(text string) Message {
	name, rest, _ := strings.Cut(text, " ")
	words := strings.Fields(rest)
	switch strings.TrimSuffix(name, ":") {
	case "Register":
		return Register{EngineType: "vllm"}
	case "Registered":
		return Registered{}
	case "Action":
		id, _ := strconv.ParseUint(words[0], 10, 64)
		verb, _ := named("action", verbNames[:], words[1])
		return Action{id, handoff.Action(verb)}
	case "Ack":
		id, _ := strconv.ParseUint(words[0], 10, 64)
		outcome, _ := named("outcome", outcomeNames[:], strings.TrimSuffix(words[1], ":"))
		return Ack{id, Outcome(outcome), strings.Join(words[2:], " ")}
	case "Held":
		var h Held
		mode, _ := named("mode", modeNames[:], words[0])
		h.Transfer.Mode = handoff.Mode(mode)
		_, _ = fmt.Sscan(strings.Join(words[1:], " "), &h.PromptTokens, &h.Transfer.BytesPerToken,
			&h.Transfer.BandwidthGBs)
		return h
	case "Reserved":
		var r Reserved
		_, _ = fmt.Sscan(rest, &r.MissingTokens)
		return r
	case "Complete":
		return Complete{}
	case "Abort":
		return Abort{rest}
	case "Overloaded":
		return Overloaded{}
	case "ProtocolError":
		return ProtocolError{rest}
	}
	panic("no message: " + text)
}

func showStep(step Step, s session) string {
	var parts []string
	for _, m := range step.Send {
		parts = append(parts, "> "+m.String())
	}
	if step.Do != handoff.None {
		parts = append(parts, "do "+step.Do.String())
	}
	if step.End {
		parts = append(parts, fmt.Sprintf("end: %v", s.Err()))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "; ")
}
