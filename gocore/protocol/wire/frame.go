package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Frame is one request on a connection from a frontend to a worker:
//
//	u16 length, path | u16 length, headers as a JSON object | u32 length, payload
type Frame struct {
	Path    string            // INSTANCE/ENDPOINT, the instance in hexadecimal
	Headers map[string]string // nil if there are none, or they cannot be read
	Payload []byte            // a Message
}

// ErrTooLarge is the error of a frame or message above the limit of its reader.
var ErrTooLarge = errors.New("message too large")

// ReadFrame reads one frame of at most limit bytes. It allocates memory as data arrives, not by the announced size. If
// grow is not nil, it is called with the size of the whole frame before the payload is read; its error ends the
// reading.
func ReadFrame(r io.Reader, limit int, grow func(size int) error) (Frame, error) {
	path, err := readShort(r)
	if err != nil {
		return Frame{}, err // io.EOF between two frames
	}
	headers, err := readShort(r)
	if err != nil {
		return Frame{}, unexpected(err)
	}
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return Frame{}, unexpected(err)
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	total := int64(len(path)) + int64(len(headers)) + 8 + size
	if total > int64(limit) {
		return Frame{}, fmt.Errorf("%w: %d bytes, at most %d are accepted", ErrTooLarge, total, limit)
	}
	if grow != nil {
		if err := grow(int(total)); err != nil {
			return Frame{}, err
		}
	}
	payload, err := readBytes(r, size)
	if err != nil {
		return Frame{}, err
	}
	f := Frame{Path: string(path), Payload: payload}
	_ = json.Unmarshal(headers, &f.Headers) // they are for tracing only
	return f, nil
}

// AppendFrame appends the bytes of f to dst. Path and headers must be shorter than 64 KiB.
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	headers := []byte("{}")
	if len(f.Headers) > 0 {
		headers, _ = json.Marshal(f.Headers) // a map of strings
	}
	if len(f.Path) > 1<<16-1 || len(headers) > 1<<16-1 || int64(len(f.Payload)) > 1<<32-1 {
		return dst, ErrTooLarge
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(f.Path)))
	dst = append(dst, f.Path...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(headers)))
	dst = append(dst, headers...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Payload)))
	return append(dst, f.Payload...), nil
}

// Texts of an Ack. The empty one means that the request is accepted, and will be answered on a connection of its own.
const (
	Accepted   = ""
	Overloaded = "Server overloaded: worker at capacity"
	// UnknownEndpoint stands before the path of a frame that is not served here. A frontend does not take it for a
	// refusal.
	UnknownEndpoint = "Unknown endpoint: "
)

// AppendAck appends the answer to one frame.
func AppendAck(dst []byte, text string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	return append(dst, text...)
}

// ReadAck reads the answer to one frame.
func ReadAck(r io.Reader) (string, error) {
	const limit = 1 << 16
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > limit {
		return "", fmt.Errorf("%w: an answer of %d bytes", ErrTooLarge, size)
	}
	text, err := readBytes(r, int64(size))
	return string(text), err
}

// readShort reads up to 64 KiB after their length.
func readShort(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	return readBytes(r, int64(binary.BigEndian.Uint16(length[:])))
}

// readBytes reads size bytes. It allocates at most four times as much as has arrived, so a peer that announces much has
// to send much.
func readBytes(r io.Reader, size int64) ([]byte, error) {
	const trusted = 64 << 10
	if size <= trusted {
		text := make([]byte, size)
		_, err := io.ReadFull(r, text)
		return text, unexpected(err)
	}
	text := make([]byte, 0, trusted)
	for room := int64(trusted); ; room = min(4*room, size) {
		n, err := io.ReadFull(r, text[len(text):room])
		text = text[:len(text)+n]
		if err != nil || room == size {
			return text, unexpected(err)
		}
		text = append(make([]byte, 0, min(4*room, size)), text...)
	}
}

// unexpected returns err, or io.ErrUnexpectedEOF for an io.EOF within a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
