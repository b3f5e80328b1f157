package detokenize

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// byteLevel makes bytes of the characters that stand for them, and one token of the text that these are. A token with
// another character is text itself.
type byteLevel struct {
	complete
	valid  Valid
	buffer []byte
	begun  bool
}

// byteOf is the byte that a character stands for, -1 for none: printable characters of Latin-1 stand for themselves,
// and the other bytes, in order, are the characters from 256 on.
var byteOf = func() []int16 {
	all := make([]int16, 0, 512)
	var others []int16
	for b := range int16(256) {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			all = append(all, b)
		} else {
			all = append(all, -1)
			others = append(others, b)
		}
	}
	return append(all, others...)
}()

func (l *byteLevel) end() {
	if !l.begun {
		l.begun = true
		l.next.begin()
	}
	l.buffer = l.buffer[:0]
	if standing(l.token) {
		for _, r := range string(l.token) {
			l.buffer = l.valid.Append(l.buffer, byte(byteOf[r]))
		}
	} else {
		for _, b := range l.token {
			l.buffer = l.valid.Append(l.buffer, b)
		}
	}
	if len(l.buffer) > 0 {
		l.next.part(string(l.buffer))
	}
}

// standing reports whether each character of a token stands for a byte.
func standing(token []byte) bool {
	for _, r := range string(token) {
		if int(r) >= len(byteOf) || byteOf[r] < 0 {
			return false
		}
	}
	return true
}

func (l *byteLevel) close() {
	if l.begun {
		l.next.part(string(l.valid.End(nil)))
		l.next.end()
	}
	l.next.close()
}

// byteFallback makes text of tokens that are bytes, such as <0xE2>: one token of each run of them, or a replacement
// character of each if the run is no text.
type byteFallback struct {
	complete
	run []byte
}

func (f *byteFallback) end() {
	if b, is := byteToken(string(f.token)); is {
		f.run = append(f.run, b)
		return
	}
	f.settle()
	whole(f.next, string(f.token))
}

// settle hands on the run of bytes, which is over.
func (f *byteFallback) settle() {
	switch {
	case len(f.run) == 0:
	case utf8.Valid(f.run):
		whole(f.next, string(f.run))
	default:
		for range f.run {
			whole(f.next, replacement)
		}
	}
	f.run = f.run[:0]
}

func byteToken(text string) (b byte, is bool) {
	digits, found := strings.CutPrefix(text, "<0x")
	digits, closed := strings.CutSuffix(digits, ">")
	if !found || !closed || len(digits) != 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 8)
	return byte(n), err == nil
}

func (f *byteFallback) close() {
	f.settle()
	f.next.close()
}
