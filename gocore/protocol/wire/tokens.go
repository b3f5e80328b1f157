package wire

import (
	"bytes"
	"fmt"
	"math"
)

// Tokens is a list of token ids. A prompt is by far the largest part of a request: it is read in one go, without
// growing.
type Tokens []uint32

// UnmarshalJSON implements [json.Unmarshaler], which is only given values that are well-formed.
func (t *Tokens) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*t = nil
		return nil
	}
	if text[0] != '[' {
		return fmt.Errorf("token_ids: got %.20s, want a list", text)
	}
	rest := bytes.TrimLeft(text[1:len(text)-1], jsonSpace)
	if len(rest) == 0 {
		*t = Tokens{}
		return nil
	}
	list := make(Tokens, 0, 1+min(bytes.Count(rest, comma), len(rest)/2))
	for {
		item, more, found := bytes.Cut(rest, comma)
		token, ok := tokenID(bytes.Trim(item, jsonSpace))
		if !ok {
			return fmt.Errorf("token_ids: entry %d: got %.20s, want an integer from 0 to %d", len(list), item,
				uint32(math.MaxUint32))
		}
		list = append(list, token)
		if !found {
			*t = list
			return nil
		}
		rest = more
	}
}

const jsonSpace = " \t\r\n"

var comma = []byte{','}

// tokenID reads a number of nothing but digits.
func tokenID(digits []byte) (id uint32, ok bool) {
	if len(digits) == 0 || len(digits) > 10 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return uint32(n), n <= math.MaxUint32
}
