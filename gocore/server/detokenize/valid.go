package detokenize

import "unicode/utf8"

// Valid makes valid UTF-8 of bytes that come one by one. Each longest beginning of a character that is not finished,
// and each other byte that is out of place, becomes one replacement character, as the Unicode standard recommends and
// other decoders do.
type Valid struct {
	begun [utf8.UTFMax]byte // of a character
	n     int
	need  int // bytes of the character
}

const replacement = "\uFFFD"

// Append appends the text that is certain with the next byte.
func (v *Valid) Append(to []byte, b byte) []byte {
	if v.n > 0 {
		if !v.continues(b) {
			v.n = 0
			return v.Append(append(to, replacement...), b)
		}
		v.begun[v.n] = b
		v.n++
		if v.n < v.need {
			return to
		}
		to = append(to, v.begun[:v.n]...)
		v.n = 0
		return to
	}
	switch {
	case b < utf8.RuneSelf:
		return append(to, b)
	case b >= 0xC2 && b <= 0xDF:
		v.need = 2
	case b >= 0xE0 && b <= 0xEF:
		v.need = 3
	case b >= 0xF0 && b <= 0xF4:
		v.need = 4
	default:
		return append(to, replacement...)
	}
	v.begun[0], v.n = b, 1
	return to
}

// continues reports whether a byte may follow the ones that have begun a character. The second one must not make the
// character longer than needed, a surrogate, or greater than all characters.
func (v *Valid) continues(b byte) bool {
	low, high := byte(0x80), byte(0xBF)
	if v.n == 1 {
		switch v.begun[0] {
		case 0xE0:
			low = 0xA0
		case 0xED:
			high = 0x9F
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F
		}
	}
	return b >= low && b <= high
}

// End appends what a character that has begun becomes if none of its bytes follow.
func (v *Valid) End(to []byte) []byte {
	if v.n > 0 {
		v.n = 0
		to = append(to, replacement...)
	}
	return to
}
