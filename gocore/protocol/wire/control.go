package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Control is the header of a request: its id, and where the answer goes.
type Control struct {
	ID      string
	Codec   Codec
	Address string // of the frontend, HOST:PORT
	Subject string // of the stream there
}

// Codec is the encoding of the bodies of a request and its answer.
type Codec uint8

// The codecs.
const (
	JSON Codec = iota
	MessagePack
)

// controlHeader is Control in JSON.
type controlHeader struct {
	ID             string         `json:"id"`
	RequestType    string         `json:"request_type"`
	ResponseType   string         `json:"response_type"`
	PayloadCodec   string         `json:"payload_codec,omitempty"`
	ConnectionInfo connectionInfo `json:"connection_info"`
}

type connectionInfo struct {
	Transport string `json:"transport"`
	Info      string `json:"info"` // a streamInfo as JSON text
}

type streamInfo struct {
	Address    string `json:"address"`
	Subject    string `json:"subject"`
	Context    string `json:"context"`
	StreamType string `json:"stream_type"`
}

const (
	transportTCP   = "tcp_server"
	streamResponse = "response"
)

// DecodeControl reads the header of a request. If only the codec is wrong, it returns the error and everything else, so
// that the frontend can be told.
func DecodeControl(header []byte) (Control, error) {
	var h controlHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return Control{}, fmt.Errorf("control header: %w", err)
	}
	if h.ConnectionInfo.Transport != transportTCP {
		return Control{}, fmt.Errorf("control header: connection_info.transport: got %q, want %q",
			h.ConnectionInfo.Transport, transportTCP)
	}
	var info streamInfo
	if err := json.Unmarshal([]byte(h.ConnectionInfo.Info), &info); err != nil {
		return Control{}, fmt.Errorf("control header: connection_info.info: %w", err)
	}
	switch {
	case info.StreamType != streamResponse:
		return Control{}, fmt.Errorf("control header: stream_type: got %q, want %q", info.StreamType, streamResponse)
	case info.Context != h.ID:
		return Control{}, errors.New("control header: context is another one than id")
	case info.Address == "":
		return Control{}, errors.New("control header: address: missing")
	}
	c := Control{ID: h.ID, Address: info.Address, Subject: info.Subject}
	switch h.PayloadCodec {
	case "", "json":
	case "msgpack":
		c.Codec = MessagePack
	default:
		return c, fmt.Errorf("control header: payload_codec: got %q, want json or msgpack", h.PayloadCodec)
	}
	return c, nil
}

// EncodeControl returns the header that a frontend sends.
func EncodeControl(c Control) []byte {
	info, _ := json.Marshal(streamInfo{Address: c.Address, Subject: c.Subject, Context: c.ID,
		StreamType: streamResponse})
	header, _ := json.Marshal(controlHeader{
		ID: c.ID, RequestType: "single_in", ResponseType: "many_out",
		PayloadCodec:   [...]string{"json", "msgpack"}[c.Codec],
		ConnectionInfo: connectionInfo{Transport: transportTCP, Info: string(info)},
	})
	return header
}

type handshake struct {
	Subject    string `json:"subject"`
	StreamType string `json:"stream_type"`
}

// AppendHandshake appends the first message of a response stream.
func AppendHandshake(dst []byte, subject string) []byte {
	header, _ := json.Marshal(handshake{Subject: subject, StreamType: streamResponse})
	return AppendMessage(dst, Message{Header: header})
}

// DecodeHandshake returns the subject of a response stream.
func DecodeHandshake(header []byte) (subject string, err error) {
	var h handshake
	if err := json.Unmarshal(header, &h); err != nil {
		return "", fmt.Errorf("handshake: %w", err)
	}
	if h.StreamType != streamResponse {
		return "", fmt.Errorf("handshake: stream_type: got %q, want %q", h.StreamType, streamResponse)
	}
	return h.Subject, nil
}

type prologue struct {
	Error *string `json:"error"`
}

// AppendPrologue appends the message that says whether a request is served. refusal is the reason if it is not, else
// "".
func AppendPrologue(dst []byte, refusal string) []byte {
	var p prologue
	if refusal != "" {
		p.Error = &refusal
	}
	header, _ := json.Marshal(p)
	return AppendMessage(dst, Message{Header: header})
}

// DecodePrologue returns why a request is not served, "" if it is.
func DecodePrologue(header []byte) (refusal string, err error) {
	var p prologue
	if err := json.Unmarshal(header, &p); err != nil {
		return "", fmt.Errorf("prologue: %w", err)
	}
	if p.Error == nil {
		return "", nil
	}
	return *p.Error, nil
}

// Signal is a message of one word.
type Signal string

// Sentinel ends a response stream. Stop and Kill ask the worker to end it.
const (
	Sentinel Signal = "sentinel"
	Stop     Signal = "stop"
	Kill     Signal = "kill"
)

// AppendSignal appends a message of one word.
func AppendSignal(dst []byte, s Signal) []byte {
	return AppendMessage(dst, Message{Header: []byte(`"` + s + `"`)})
}
