package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/tinylib/msgp/msgp"
)

// Request is the body of a request to generate: the prompt, and conditions for the answer. A frontend sends much more;
// members that a simulation does not need are skipped.
type Request struct {
	Model              string         `json:"model,omitempty"`
	TokenIDs           Tokens         `json:"token_ids"`
	StopConditions     StopConditions `json:"stop_conditions"`
	EOSTokenIDs        []uint32       `json:"eos_token_ids,omitempty"`
	Annotations        []string       `json:"annotations,omitempty"`
	Routing            *Routing       `json:"routing,omitempty"`
	PrefillResult      *PrefillResult `json:"prefill_result,omitempty"`
	BootstrapInfo      *Bootstrap     `json:"bootstrap_info,omitempty"`
	RequestTimestampMs *float64       `json:"request_timestamp_ms,omitempty"`
	// of our frontend: requests with others find nothing of this one
	CacheSalt string `json:"cache_salt,omitempty"`
}

// StopConditions say when the answer ends.
type StopConditions struct {
	MaxTokens           *uint32  `json:"max_tokens,omitempty"`
	MinTokens           *uint32  `json:"min_tokens,omitempty"`
	StopTokenIDs        []uint32 `json:"stop_token_ids,omitempty"`
	StopTokenIDsVisible []uint32 `json:"stop_token_ids_visible,omitempty"`
	StopTokenIDsHidden  []uint32 `json:"stop_token_ids_hidden,omitempty"`
	IgnoreEOS           *bool    `json:"ignore_eos,omitempty"`
}

// Routing is the decision of the router.
type Routing struct {
	DPRank   *uint32 `json:"dp_rank,omitempty"`
	LoRAName string  `json:"lora_name,omitempty"`
}

// PrefillResult is what a prefill worker has answered, for the decode worker.
type PrefillResult struct {
	DisaggregatedParams string `json:"disaggregated_params"`
}

// Bootstrap tells a prefill and a decode worker where to meet.
type Bootstrap struct {
	Host      string     `json:"bootstrap_host"`
	Port      uint16     `json:"bootstrap_port"`
	Room      uint64     `json:"bootstrap_room"`
	HandoffID *HandoffID `json:"handoff_id,omitempty"`
}

// HandoffID is text in JSON, and sixteen bytes in MessagePack.
type HandoffID struct{ uuid.UUID }

// UnmarshalJSON reads an id. The conversion from MessagePack to JSON has made base64 of bytes.
func (u *HandoffID) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	id, err := uuid.Parse(text)
	if err != nil {
		packed, notPacked := base64.StdEncoding.DecodeString(text)
		if notPacked != nil || len(packed) != len(id) {
			return fmt.Errorf("bootstrap_info.handoff_id: got %q, want a UUID: %w", text, err)
		}
		id = uuid.UUID(packed)
	}
	u.UUID = id
	return nil
}

// DecodeRequest reads the body of a request to generate.
func DecodeRequest(codec Codec, body []byte) (Request, error) {
	var r Request
	if err := Decode(codec, body, &r); err != nil {
		return Request{}, fmt.Errorf("request: %w", err)
	}
	return r, nil
}

// EncodeRequest returns the body that a frontend sends.
func EncodeRequest(codec Codec, r Request) ([]byte, error) { return Encode(codec, r) }

// Decode reads a body. The names of members are the same in MessagePack and JSON.
func Decode(codec Codec, body []byte, into any) error {
	if codec == MessagePack {
		if err := wellFormed(body); err != nil {
			return fmt.Errorf("msgpack: %w", err)
		}
		var text bytes.Buffer
		if _, err := msgp.UnmarshalAsJSON(&text, body); err != nil {
			return fmt.Errorf("msgpack: %w", err)
		}
		body = text.Bytes()
	}
	return json.Unmarshal(body, into)
}

// Encode writes a body.
func Encode(codec Codec, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if codec == JSON || err != nil {
		return text, err
	}
	var generic any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // ids need all 64 bits
	if err := d.Decode(&generic); err != nil {
		return nil, err
	}
	return msgp.AppendIntf(nil, numbers(generic))
}

// numbers replaces the numbers in a JSON value by integers, where they are whole, and floats.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n
		}
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	}
	return v
}
