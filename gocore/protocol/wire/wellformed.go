package wire

import (
	"encoding/binary"
	"errors"
)

// maxDepth bounds how deep values may be nested, as encoding/json bounds it for JSON.
const maxDepth = 1000

var (
	errTruncated = errors.New("a value is longer than what is left")
	errTooDeep   = errors.New("values are nested too deep")
	errReserved  = errors.New("a byte that begins no value")
)

// wellFormed checks that data begins with one whole MessagePack value before the library decodes it: the library
// decodes nested values by recursion, and would run out of stack on some megabytes of array headers.
func wellFormed(data []byte) error {
	left := []uint64{1} // values still to come, of each open array or map
	for len(left) > 0 {
		top := len(left) - 1
		if left[top] == 0 {
			left = left[:top]
			continue
		}
		left[top]--
		size, children, err := measure(data)
		if err != nil {
			return err
		}
		data = data[size:]
		if children == 0 {
			continue
		}
		if children > uint64(len(data)) {
			return errTruncated
		}
		if len(left) > maxDepth {
			return errTooDeep
		}
		left = append(left, children)
	}
	return nil
}

// measure returns how long the value at the start of data is, without its children, and how many of these follow.
func measure(data []byte) (size int, children uint64, err error) {
	if len(data) == 0 {
		return 0, 0, errTruncated
	}
	code := data[0]
	switch {
	case code < 0x80 || code >= 0xe0: // small numbers
		return 1, 0, nil
	case code < 0x90:
		return 1, 2 * uint64(code&0x0f), nil
	case code < 0xa0:
		return 1, uint64(code & 0x0f), nil
	case code < 0xc0:
		return fits(data, 1, uint64(code&0x1f))
	}
	f := formats[code-0xc0]
	if f.kind == reserved {
		return 0, 0, errReserved
	}
	if len(data) < 1+f.lengthBytes {
		return 0, 0, errTruncated
	}
	n := uint64(0)
	switch f.lengthBytes {
	case 1:
		n = uint64(data[1])
	case 2:
		n = uint64(binary.BigEndian.Uint16(data[1:]))
	case 4:
		n = uint64(binary.BigEndian.Uint32(data[1:]))
	}
	switch f.kind {
	case list:
		return 1 + f.lengthBytes, n, nil
	case pairs:
		return 1 + f.lengthBytes, 2 * n, nil
	default:
		return fits(data, 1+f.lengthBytes, n+uint64(f.fixed))
	}
}

func fits(data []byte, start int, n uint64) (size int, children uint64, err error) {
	if n > uint64(len(data)-start) {
		return 0, 0, errTruncated
	}
	return start + int(n), 0, nil
}

type kind uint8

const (
	plain kind = iota
	list
	pairs
	reserved
)

// formats are the codes from 0xc0 to 0xdf: the length that follows the code, if any, and how much follows besides.
var formats = [32]struct {
	kind        kind
	lengthBytes int
	fixed       int
}{
	{}, {kind: reserved}, {}, {}, // nil, never used, false, true
	{plain, 1, 0}, {plain, 2, 0}, {plain, 4, 0}, // bin
	{plain, 1, 1}, {plain, 2, 1}, {plain, 4, 1}, // ext
	{plain, 0, 4}, {plain, 0, 8}, // float
	{plain, 0, 1}, {plain, 0, 2}, {plain, 0, 4}, {plain, 0, 8}, // uint
	{plain, 0, 1}, {plain, 0, 2}, {plain, 0, 4}, {plain, 0, 8}, // int
	{plain, 0, 2}, {plain, 0, 3}, {plain, 0, 5}, {plain, 0, 9}, {plain, 0, 17}, // fixext
	{plain, 1, 0}, {plain, 2, 0}, {plain, 4, 0}, // str
	{list, 2, 0}, {list, 4, 0}, {pairs, 2, 0}, {pairs, 4, 0},
}
