package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Message has a header, a body, or both:
//
//	u64 length of header | u64 length of body | u64 checksum, 0 for none | header | body
type Message struct {
	Header, Body []byte
}

const messageStart = 24

// DecodeMessage splits data into header and body, without copying.
func DecodeMessage(data []byte) (Message, error) {
	if len(data) < messageStart {
		return Message{}, fmt.Errorf("a message of %d bytes lacks its lengths", len(data))
	}
	header, body, rest := binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:]),
		uint64(len(data)-messageStart)
	if header > rest || body != rest-header {
		return Message{}, fmt.Errorf("a message with %d + %d bytes came in %d", header, body, rest)
	}
	data = data[messageStart:]
	return Message{Header: data[:header:header], Body: data[header:]}, nil
}

// ReadMessage reads one message of at most limit bytes.
func ReadMessage(r io.Reader, limit int) (Message, error) {
	var start [messageStart]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return Message{}, err
	}
	header, body := binary.BigEndian.Uint64(start[:]), binary.BigEndian.Uint64(start[8:])
	if most := uint64(limit); header > most || body > most-header {
		return Message{}, fmt.Errorf("%w: %d + %d bytes, at most %d are accepted", ErrTooLarge, header, body, limit)
	}
	data, err := readBytes(r, int64(header+body))
	if err != nil {
		return Message{}, err
	}
	return Message{Header: data[:header:header], Body: data[header:]}, nil
}

// AppendMessage appends the bytes of m to dst.
func AppendMessage(dst []byte, m Message) []byte {
	dst = beginMessage(dst, len(m.Header), len(m.Body))
	dst = append(dst, m.Header...)
	return append(dst, m.Body...)
}

func beginMessage(dst []byte, header, body int) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(header))
	dst = binary.BigEndian.AppendUint64(dst, uint64(body))
	return binary.BigEndian.AppendUint64(dst, 0)
}

// appendBody appends a message with a body that fill appends.
func appendBody(dst []byte, fill func([]byte) []byte) []byte {
	start := len(dst)
	dst = fill(beginMessage(dst, 0, math.MaxInt32))
	binary.BigEndian.PutUint64(dst[start+8:], uint64(len(dst)-start-messageStart))
	return dst
}
