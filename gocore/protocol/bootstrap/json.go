package bootstrap

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"dynosim/gocore/handoff"
)

// tagged is a value with its name: {"name": value}.
type tagged map[string]any

type frameJSON struct {
	Identity *Identity      `json:"identity"`
	Message  jsontext.Value `json:"message"`
}

type registerJSON struct {
	Role       string  `json:"role"`
	Rank       *uint32 `json:"dp_rank"`
	Order      string  `json:"order"`
	EngineType string  `json:"engine_type"`
}

type actionJSON struct {
	ID     *uint64        `json:"id"`
	Action jsontext.Value `json:"action"`
}

type ackJSON struct {
	ActionID *uint64        `json:"action_id"`
	Outcome  jsontext.Value `json:"outcome"`
}

type handoffJSON struct {
	HandoffID *uuid.UUID `json:"handoff_id"`
}

type heldJSON struct {
	handoffJSON
	Timing *timingJSON `json:"transfer_timing"`
}

type timingJSON struct {
	Mode          string  `json:"mode"`
	PromptTokens  *int64  `json:"full_prompt_tokens"`
	BytesPerToken *uint64 `json:"kv_bytes_per_token"`
	BandwidthGBs  *number `json:"bandwidth_gb_s"`
}

type reservedJSON struct {
	handoffJSON
	Tokens *int64 `json:"transferable_prompt_tokens"`
}

type textJSON struct {
	Message *string `json:"message"`
}

// number is a float that is written with a decimal point even if it is whole.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(n), 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return []byte(text), nil
}

const roleDestination = "Destination"

// maxTokens bounds numbers of tokens and bytes per token: all below it are exact as floats.
const maxTokens = 1 << 53

// appendJSON appends a frame. Its longest texts are errors, which may quote what a peer has sent.
func appendJSON(dst []byte, f Frame) []byte {
	message := marshal(f.Message.content(f.Identity.HandoffID))
	return append(dst, marshal(frameJSON{&f.Identity, message})...)
}

func marshal(v any) jsontext.Value {
	text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("bootstrap: %v", err)) // plain values of our own
	}
	return text
}

func (m Register) content(uuid.UUID) any {
	return tagged{"Register": registerJSON{roleDestination, &m.Rank, orderNames[m.Order], m.EngineType}}
}

func (Registered) content(uuid.UUID) any { return "Registered" }

func (m Action) content(id uuid.UUID) any {
	return tagged{"Action": actionJSON{&m.ID, marshal(tagged{verbNames[m.Verb]: handoffJSON{&id}})}}
}

func (m Ack) content(uuid.UUID) any {
	outcome := any(m.Outcome.String())
	if m.Outcome == OutcomeFailed {
		outcome = tagged{m.Outcome.String(): short(m.Failure)}
	}
	return tagged{"ActionAck": ackJSON{&m.ActionID, marshal(outcome)}}
}

func (m Held) content(id uuid.UUID) any {
	tokens := int64(m.PromptTokens)
	timing := timingJSON{Mode: modeNames[m.Transfer.Mode], PromptTokens: &tokens}
	if n := uint64(m.Transfer.BytesPerToken); n > 0 {
		timing.BytesPerToken = &n
	}
	if n := number(m.Transfer.BandwidthGBs); n > 0 {
		timing.BandwidthGBs = &n
	}
	return tagged{"Fact": tagged{"SourceHeld": heldJSON{handoffJSON{&id}, &timing}}}
}

func (m Reserved) content(id uuid.UUID) any {
	tokens := int64(m.MissingTokens)
	return tagged{"Fact": tagged{"DestinationReserved": reservedJSON{handoffJSON{&id}, &tokens}}}
}

func (Complete) content(uuid.UUID) any   { return "Complete" }
func (Overloaded) content(uuid.UUID) any { return "Overloaded" }

func (m Abort) content(uuid.UUID) any { return tagged{"Abort": text(m.Reason)} }

func (m ProtocolError) content(uuid.UUID) any { return tagged{"ProtocolError": text(m.Reason)} }

func text(reason string) textJSON {
	reason = short(reason)
	return textJSON{&reason}
}

// short cuts a text so that its frame is never too long: JSON may need six bytes for one.
func short(text string) string {
	const longest = MaxFrame / 8
	if len(text) > longest {
		text = text[:longest]
	}
	return strings.ToValidUTF8(text, "?")
}

// decodeJSON reads the JSON of a frame. Unknown members are skipped, as other implementations do.
func decodeJSON(text []byte) (Frame, error) {
	var f frameJSON
	err := json.Unmarshal(text, &f)
	if err == nil && (f.Identity == nil || f.Message == nil) {
		err = errors.New("want an identity and a message")
	}
	if err != nil {
		return Frame{}, fmt.Errorf("bootstrap frame: %w", err)
	}
	name, content, err := untag(f.Message)
	var m Message
	if err == nil {
		m, err = decodeMessage(name, content, f.Identity.HandoffID)
	}
	if err != nil {
		return Frame{}, fmt.Errorf("bootstrap message: %w", err)
	}
	return Frame{Identity: *f.Identity, Message: m}, nil
}

// untag splits {"name": content}, or "name" without content.
func untag(v jsontext.Value) (name string, content jsontext.Value, err error) {
	if v.Kind() == '"' {
		err = json.Unmarshal(v, &name)
		return name, nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(v, &members); err != nil {
		return "", nil, err
	}
	if len(members) != 1 {
		return "", nil, fmt.Errorf("got %d names, want one", len(members))
	}
	for name, content = range members {
	}
	return name, content, nil
}

func decodeMessage(name string, content jsontext.Value, id uuid.UUID) (Message, error) {
	if content == nil {
		switch name {
		case "Registered":
			return Registered{}, nil
		case "Complete":
			return Complete{}, nil
		case "Overloaded":
			return Overloaded{}, nil
		}
		return nil, fmt.Errorf("unknown message %q", name)
	}
	switch name {
	case "Register":
		return decodeRegister(content)
	case "Action":
		return decodeAction(content, id)
	case "ActionAck":
		return decodeAck(content)
	case "Fact":
		return decodeFact(content, id)
	case "Abort":
		reason, err := decodeText(content)
		return Abort{reason}, err
	case "ProtocolError":
		reason, err := decodeText(content)
		return ProtocolError{reason}, err
	}
	return nil, fmt.Errorf("unknown message %q", name)
}

func decodeRegister(content jsontext.Value) (Message, error) {
	var r registerJSON
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, err
	}
	order, err := named("order", orderNames[:], r.Order)
	switch {
	case err != nil:
		return nil, err
	case r.Role != roleDestination:
		return nil, fmt.Errorf("role: got %q, want %s", r.Role, roleDestination)
	case r.Rank == nil || r.EngineType == "":
		return nil, errors.New("want dp_rank and engine_type")
	}
	return Register{Rank: *r.Rank, Order: handoff.Order(order), EngineType: r.EngineType}, nil
}

func decodeAction(content jsontext.Value, id uuid.UUID) (Message, error) {
	var a actionJSON
	if err := json.Unmarshal(content, &a); err != nil {
		return nil, err
	}
	if a.ID == nil || a.Action == nil {
		return nil, errors.New("want id and action")
	}
	name, argument, err := untag(a.Action)
	if err != nil {
		return nil, err
	}
	verb, err := named("action", verbNames[:], name)
	if err != nil {
		return nil, err
	}
	var h handoffJSON
	if err := unmarshal(argument, &h); err != nil {
		return nil, err
	}
	return Action{ID: *a.ID, Verb: handoff.Action(verb)}, h.check(id)
}

func decodeAck(content jsontext.Value) (Message, error) {
	var a ackJSON
	if err := json.Unmarshal(content, &a); err != nil {
		return nil, err
	}
	if a.ActionID == nil || a.Outcome == nil {
		return nil, errors.New("want action_id and outcome")
	}
	name, argument, err := untag(a.Outcome)
	if err != nil {
		return nil, err
	}
	outcome, err := named("outcome", outcomeNames[:], name)
	if err != nil {
		return nil, err
	}
	ack := Ack{ActionID: *a.ActionID, Outcome: Outcome(outcome)}
	if failed := ack.Outcome == OutcomeFailed; failed != (argument != nil) {
		return nil, fmt.Errorf("outcome: a text belongs to Failed, and to nothing else")
	} else if failed {
		err = json.Unmarshal(argument, &ack.Failure)
	}
	return ack, err
}

func decodeFact(content jsontext.Value, id uuid.UUID) (Message, error) {
	name, argument, err := untag(content)
	if err != nil {
		return nil, err
	}
	switch name {
	case "SourceHeld":
		var h heldJSON
		if err := unmarshal(argument, &h); err != nil {
			return nil, err
		}
		if err := h.check(id); err != nil {
			return nil, err
		}
		return h.Timing.decode()
	case "DestinationReserved":
		var r reservedJSON
		if err := unmarshal(argument, &r); err != nil {
			return nil, err
		}
		tokens, err := count("transferable_prompt_tokens", r.Tokens)
		return Reserved{tokens}, errors.Join(err, r.check(id))
	}
	return nil, fmt.Errorf("unknown fact %q", name)
}

func (t *timingJSON) decode() (Message, error) {
	if t == nil {
		return nil, errors.New("transfer_timing: missing")
	}
	mode, modeErr := named("mode", modeNames[:], t.Mode)
	tokens, err := count("full_prompt_tokens", t.PromptTokens)
	if err := errors.Join(modeErr, err); err != nil {
		return nil, err
	}
	transfer := handoff.Transfer{Mode: handoff.Mode(mode)}
	if n := t.BytesPerToken; n != nil {
		if *n > maxTokens {
			return nil, fmt.Errorf("kv_bytes_per_token: got %d, want at most %d", *n, maxTokens)
		}
		transfer.BytesPerToken = int(*n)
	}
	if n := t.BandwidthGBs; n != nil {
		if transfer.BandwidthGBs = float64(*n); !(transfer.BandwidthGBs > 0) || math.IsInf(transfer.BandwidthGBs, 0) {
			return nil, fmt.Errorf("bandwidth_gb_s: got %v, want a number above 0", transfer.BandwidthGBs)
		}
	}
	return Held{PromptTokens: tokens, Transfer: transfer}, nil
}

func decodeText(content jsontext.Value) (string, error) {
	var t textJSON
	if err := json.Unmarshal(content, &t); err != nil {
		return "", err
	}
	if t.Message == nil {
		return "", errors.New("message: missing")
	}
	return *t.Message, nil
}

// check compares the id that actions and facts repeat with that of their frame.
func (h handoffJSON) check(id uuid.UUID) error {
	if h.HandoffID == nil || *h.HandoffID != id {
		return errors.New("handoff_id: not that of the frame")
	}
	return nil
}

func unmarshal(content jsontext.Value, into any) error {
	if content == nil {
		return errors.New("got a name without content")
	}
	return json.Unmarshal(content, into)
}

// named returns the index of a name of the protocol.
func named(what string, names []string, name string) (int, error) {
	i := slices.Index(names, name)
	if name == "" || i < 0 {
		return 0, fmt.Errorf("%s: got %q", what, name)
	}
	return i, nil
}

func count(what string, n *int64) (int, error) {
	if n == nil || *n < 0 || *n > maxTokens {
		return 0, fmt.Errorf("%s: want a number from 0 to %d", what, maxTokens)
	}
	return int(*n), nil
}
