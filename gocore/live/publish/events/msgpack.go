package events

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// Encoding appends to a buffer, with the primitives of msgp; decoding takes a value off the front of one and returns
// the rest. Unknown members of maps are skipped, so that peers may add some; missing ones are zero.

// appendKey appends the key of a member of a map.
func appendKey(b []byte, key string) []byte { return msgp.AppendString(b, key) }

// appendUint appends a member that is a number.
func appendUint(b []byte, key string, n uint64) []byte {
	return msgp.AppendUint64(appendKey(b, key), n)
}

// appendInt appends a member that is a count.
func appendInt(b []byte, key string, n int) []byte { return msgp.AppendInt(appendKey(b, key), n) }

// appendFloat appends a member that is a float.
func appendFloat(b []byte, key string, f float64) []byte {
	return msgp.AppendFloat64(appendKey(b, key), f)
}

// appendOptional appends a member that is a number or nil.
func appendOptional(b []byte, key string, n *uint64) []byte {
	if n == nil {
		return msgp.AppendNil(appendKey(b, key))
	}
	return appendUint(b, key, *n)
}

// appendUints appends a list of numbers.
func appendUints[T uint32 | uint64](b []byte, list []T) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(list)))
	for _, n := range list {
		b = msgp.AppendUint64(b, uint64(n))
	}
	return b
}

// readMap reads a map. member gets each key and what follows it, and returns what follows the value.
func readMap(b []byte, member func(key string, b []byte) ([]byte, error)) ([]byte, error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	for i := uint32(0); i < n && err == nil; i++ {
		var key []byte
		if key, b, err = msgp.ReadMapKeyZC(b); err != nil {
			break
		}
		name := string(key)
		if b, err = member(name, b); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return b, err
}

// readArray reads an array by reading each element.
func readArray(b []byte, element func(b []byte) ([]byte, error)) ([]byte, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	for i := uint32(0); i < n && err == nil; i++ {
		b, err = element(b)
	}
	return b, err
}

func readUint(b []byte, to *uint64) (rest []byte, err error) {
	*to, rest, err = msgp.ReadUint64Bytes(b)
	return rest, err
}

func readUint32(b []byte, to *uint32) (rest []byte, err error) {
	*to, rest, err = msgp.ReadUint32Bytes(b)
	return rest, err
}

func readString(b []byte, to *string) (rest []byte, err error) {
	*to, rest, err = msgp.ReadStringBytes(b)
	return rest, err
}

// readOptional reads a number or nil.
func readOptional(b []byte, to **uint64) ([]byte, error) {
	*to = nil
	if msgp.IsNil(b) {
		return b[1:], nil
	}
	n, rest, err := msgp.ReadUint64Bytes(b)
	if err == nil {
		*to = &n
	}
	return rest, err
}

// readUints reads a list of numbers.
func readUints[T uint32 | uint64](b []byte, to *[]T) ([]byte, error) {
	*to = nil
	return readArray(b, func(b []byte) ([]byte, error) {
		n, rest, err := msgp.ReadUint64Bytes(b)
		if err == nil && uint64(T(n)) != n {
			err = msgp.UintOverflow{Value: n, FailedBitsize: 32}
		}
		*to = append(*to, T(n))
		return rest, err
	})
}

// readWhole decodes a buffer that must hold exactly one value.
func readWhole(b []byte, what string, read func(b []byte) ([]byte, error)) error {
	rest, err := read(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes left over", len(rest))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
