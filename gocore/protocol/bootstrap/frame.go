package bootstrap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Header is what a destination sends first: a magic word, the version of the protocol and flags, of which there are
// none.
var Header = [8]byte{'D', 'M', 'H', 'F', 1, 0, 0, 0}

// MaxFrame is the length of the longest frame in bytes, without its length.
const MaxFrame = 1 << 16

// ReadHeader reads and checks the first bytes of a connection.
func ReadHeader(r io.Reader) error {
	var got [len(Header)]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return fmt.Errorf("bootstrap header: %w", err)
	}
	switch {
	case !bytes.Equal(got[:4], Header[:4]):
		return fmt.Errorf("bootstrap header: got %x, want %x", got, Header)
	case got != Header:
		return fmt.Errorf("bootstrap header: got version %d and flags %#x, want version 1 without flags",
			binary.LittleEndian.Uint16(got[4:]), binary.LittleEndian.Uint16(got[6:]))
	default:
		return nil
	}
}

// Frame is one message and the hand-off it belongs to.
type Frame struct {
	Identity Identity
	Message  Message
}

// AppendFrame appends the bytes of a frame to dst. A text that would make it too long is cut.
func AppendFrame(dst []byte, f Frame) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendJSON(dst, f)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// ReadFrame reads one frame. Between two frames the error is io.EOF.
func ReadFrame(r io.Reader) (Frame, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return Frame{}, err
	}
	size := binary.LittleEndian.Uint32(length[:])
	if size == 0 || size > MaxFrame {
		return Frame{}, fmt.Errorf("bootstrap frame: got %d bytes, want 1 to %d", size, MaxFrame)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); errors.Is(err, io.EOF) {
		return Frame{}, io.ErrUnexpectedEOF
	} else if err != nil {
		return Frame{}, err
	}
	return decodeJSON(text)
}
