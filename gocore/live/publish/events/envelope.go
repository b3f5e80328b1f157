package events

import (
	"encoding/binary"

	"github.com/tinylib/msgp/msgp"
)

// The topics of the event plane.
const (
	KVTopic          = "kv-events"            // RouterEvent
	LoadTopic        = "kv_metrics"           // ActiveLoad
	ForwardPassTopic = "forward-pass-metrics" // ForwardPass
)

// Envelope is a message of the event plane.
type Envelope struct {
	PublisherID uint64
	Sequence    uint64 // of the publisher, from 0
	PublishedAt uint64 // Unix time in ms
	Topic       string
	Payload     []byte // MessagePack of the event
}

// Append appends the MessagePack of e.
func (e *Envelope) Append(b []byte) []byte {
	b = msgp.AppendMapHeader(b, 5)
	b = appendUint(b, "publisher_id", e.PublisherID)
	b = appendUint(b, "sequence", e.Sequence)
	b = appendUint(b, "published_at", e.PublishedAt)
	b = msgp.AppendString(appendKey(b, "topic"), e.Topic)
	return msgp.AppendBytes(appendKey(b, "payload"), e.Payload)
}

// Frames returns the ZeroMQ message of e: topic, publisher, sequence number and the envelope itself.
func (e *Envelope) Frames() [][]byte {
	const header = 5
	body := e.Append(append(make([]byte, 0, 128+len(e.Payload)), 1, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(body[1:], uint32(len(body)-header))
	return [][]byte{
		[]byte(e.Topic),
		binary.BigEndian.AppendUint64(nil, e.PublisherID),
		binary.BigEndian.AppendUint64(nil, e.Sequence),
		body,
	}
}

// ParseEnvelope decodes an envelope; its Payload is a part of b.
func ParseEnvelope(b []byte) (e Envelope, err error) {
	err = readWhole(b, "envelope", func(b []byte) ([]byte, error) {
		return readMap(b, func(key string, b []byte) (rest []byte, err error) {
			switch key {
			case "publisher_id":
				return readUint(b, &e.PublisherID)
			case "sequence":
				return readUint(b, &e.Sequence)
			case "published_at":
				return readUint(b, &e.PublishedAt)
			case "topic":
				return readString(b, &e.Topic)
			case "payload":
				e.Payload, rest, err = msgp.ReadBytesZC(b)
				return rest, err
			}
			return msgp.Skip(b)
		})
	})
	return e, err
}

// FrameError is the error of a malformed ZeroMQ message of the event plane.
type FrameError string

func (e FrameError) Error() string { return "event message: " + string(e) }

// ParseFrames decodes a ZeroMQ message.
func ParseFrames(frames [][]byte) (Envelope, error) {
	if len(frames) != 4 {
		return Envelope{}, FrameError("want 4 frames")
	}
	body := frames[3]
	if len(body) < 5 || body[0] != 1 {
		return Envelope{}, FrameError("want version 1 and a length before the envelope")
	}
	if uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-5) {
		return Envelope{}, FrameError("the envelope has another length than it says")
	}
	return ParseEnvelope(body[5:])
}
