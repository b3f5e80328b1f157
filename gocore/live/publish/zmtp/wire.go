package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// greetingSize is the length of what either side sends first: signature, version, mechanism, role.
const greetingSize = 64

// The bits of the byte before each frame.
const (
	moreFlag    = 1 // the message goes on in the next frame
	longFlag    = 2 // the length takes eight bytes
	commandFlag = 4
	knownFlags  = moreFlag | longFlag | commandFlag
)

// Limits for what peers send. Subscriptions and requests are short.
const (
	maxFrameBytes = 1024
	maxFrames     = 8
)

func greeting() []byte {
	g := make([]byte, greetingSize)
	g[0], g[9] = 0xff, 0x7f // signature
	g[10], g[11] = 3, 0     // version: newer peers adapt to it
	copy(g[12:32], "NULL")  // mechanism
	return g
}

func readGreeting(r io.Reader) error {
	var g [greetingSize]byte
	if _, err := io.ReadFull(r, g[:]); err != nil {
		return err
	}
	switch {
	case g[0] != 0xff || g[9]&1 != 1:
		return errors.New("not a ZMTP peer")
	case g[10] < 3:
		return fmt.Errorf("ZMTP version %d, want 3 or later", g[10])
	case string(g[12:32]) != "NULL"+string(make([]byte, 16)):
		return fmt.Errorf("security mechanism %q, want NULL", g[12:32])
	}
	return nil
}

// frame is a piece of a message, or a command.
type frame struct {
	body    []byte
	command bool
	more    bool
}

// readFrame reads a frame of at most limit bytes.
func readFrame(r *bufio.Reader, limit uint64) (frame, error) {
	flags, err := r.ReadByte()
	if err != nil {
		return frame{}, err
	}
	if flags&^knownFlags != 0 || flags&commandFlag != 0 && flags&moreFlag != 0 {
		return frame{}, fmt.Errorf("frame flags %#x", flags)
	}
	size, err := readSize(r, flags)
	if err != nil {
		return frame{}, err
	}
	if size > limit {
		return frame{}, fmt.Errorf("a frame of %d bytes, want at most %d", size, limit)
	}
	body := make([]byte, size)
	_, err = io.ReadFull(r, body)
	return frame{body: body, command: flags&commandFlag != 0, more: flags&moreFlag != 0}, err
}

func readSize(r *bufio.Reader, flags byte) (uint64, error) {
	if flags&longFlag == 0 {
		size, err := r.ReadByte()
		return uint64(size), err
	}
	var long [8]byte
	_, err := io.ReadFull(r, long[:])
	return binary.BigEndian.Uint64(long[:]), err
}

// readMessage reads the frames of a message after its first one, each of at most limit bytes.
func readMessage(r *bufio.Reader, first frame, limit uint64) ([][]byte, error) {
	message := [][]byte{first.body}
	for f := first; f.more; {
		var err error
		if f, err = readFrame(r, limit); err != nil {
			return nil, err
		}
		if f.command {
			return nil, errors.New("a command inside a message")
		}
		if message = append(message, f.body); len(message) > maxFrames {
			return nil, fmt.Errorf("a message of more than %d frames", maxFrames)
		}
	}
	return message, nil
}

// appendMessage appends the bytes of a message.
func appendMessage(b []byte, frames [][]byte) []byte {
	for i, body := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = moreFlag
		}
		b = appendFrame(b, flags, body)
	}
	return b
}

func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = append(b, flags|longFlag)
		b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

// appendCommand appends a command: its name and its data.
func appendCommand(b []byte, name string, data []byte) []byte {
	body := append([]byte{byte(len(name))}, name...)
	return appendFrame(b, commandFlag, append(body, data...))
}

// splitCommand splits the body of a command into name and data.
func splitCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || int(body[0]) > len(body)-1 {
		return "", nil, errors.New("a command without a name")
	}
	end := 1 + int(body[0])
	return string(body[1:end]), body[end:], nil
}

// socketTypeProperty is the one property that peers must send.
const socketTypeProperty = "Socket-Type"

// ready returns the command that ends the handshake.
func ready(socketType string) []byte {
	data := append([]byte{byte(len(socketTypeProperty))}, socketTypeProperty...)
	data = binary.BigEndian.AppendUint32(data, uint32(len(socketType)))
	return appendCommand(nil, "READY", append(data, socketType...))
}

// readReady reads the READY command of a peer, whose socket type must be one of those wanted.
func readReady(r *bufio.Reader, wanted []string) error {
	f, err := readFrame(r, maxFrameBytes)
	if err != nil {
		return err
	}
	if !f.command {
		return errors.New("a message before READY")
	}
	name, data, err := splitCommand(f.body)
	if err != nil {
		return err
	}
	if name != "READY" {
		return fmt.Errorf("command %q, want READY", name)
	}
	socketType, err := property(data, socketTypeProperty)
	if err != nil {
		return err
	}
	if !slices.Contains(wanted, socketType) {
		return fmt.Errorf("a %q socket, want one of %q", socketType, wanted)
	}
	return nil
}

// property finds a property, each of which is name and value with their lengths before them.
func property(data []byte, name string) (string, error) {
	for len(data) > 0 {
		n := 1 + int(data[0])
		if len(data) < n+4 {
			return "", errors.New("a property that is cut off")
		}
		found := string(data[1:n])
		size := uint64(binary.BigEndian.Uint32(data[n:]))
		data = data[n+4:]
		if size > uint64(len(data)) {
			return "", errors.New("a property that is cut off")
		}
		if found == name {
			return string(data[:size]), nil
		}
		data = data[size:]
	}
	return "", fmt.Errorf("no property %s", name)
}
