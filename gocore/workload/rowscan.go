package workload

import "math"

// scan reads a line as nearly all lines of traces are: an object in plain ASCII with some well-known keys, each once,
// and numbers as programs write them. It looks at each byte once, which makes reading a trace twice as fast. It reports
// false if the line is of any other form, good or bad; r is arbitrary then, and the line is for rowDecoder.decode.
func (r *row) scan(line []byte) bool {
	s := scanner{text: line}
	if !s.take('{') {
		return false
	}
	for !s.take('}') {
		if r.given != 0 && !s.take(',') {
			return false
		}
		field := s.key()
		if field == 0 || r.given&field != 0 || !r.scanValue(&s, field) {
			return false
		}
		r.given |= field
	}
	s.space()
	return s.at == len(s.text)
}

// scanValue reads the value of a key.
func (r *row) scanValue(s *scanner, field fields) (ok bool) {
	switch field {
	case fieldTimestamp:
		r.timestamp, ok = s.number()
	case fieldDelay:
		r.delay, ok = s.number()
	case fieldInputLength:
		r.inputLength, ok = s.unsigned()
	case fieldOutputLength:
		r.outputLength, ok = s.unsigned()
		ok = ok && r.outputLength <= math.MaxInt32
	case fieldSessionID:
		var text []byte
		text, ok = s.plainText()
		r.sessionID = string(text)
	case fieldHashIDs:
		r.hashIDs, ok = s.unsignedList(r.hashIDs)
	}
	return ok
}

// scanner reads a line from front to back.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take reads a character and the space before it, if it comes next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

// key reads a key and the colon behind it; 0 is none of those that scan knows.
func (s *scanner) key() fields {
	text, ok := s.plainText()
	if !ok || !s.take(':') {
		return 0
	}
	switch string(text) {
	case "timestamp":
		return fieldTimestamp
	case "input_length":
		return fieldInputLength
	case "output_length":
		return fieldOutputLength
	case "hash_ids":
		return fieldHashIDs
	case "session_id":
		return fieldSessionID
	case "delay":
		return fieldDelay
	}
	return 0
}

// plainText reads a string of printable ASCII without escapes.
func (s *scanner) plainText() (text []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	for begin := s.at; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[begin : s.at-1], true
		case c == '\\' || c < ' ' || c > '~':
			return nil, false
		}
	}
	return nil, false
}

// unsigned reads an integer of at most 18 digits.
func (s *scanner) unsigned() (x uint64, ok bool) {
	s.space()
	begin := s.at
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 {
		x = 10*x + uint64(s.text[s.at]-'0')
		s.at++
	}
	digits := s.at - begin
	return x, digits > 0 && digits <= 18 && (digits == 1 || s.text[begin] != '0') && s.ends()
}

// ends reports whether a number is over: no character of it follows.
func (s *scanner) ends() bool {
	if s.at == len(s.text) {
		return false
	}
	switch s.text[s.at] {
	case ',', ']', '}', ' ', '\t', '\r':
		return true
	}
	return false
}

// number reads a number without sign and exponent that a double holds as a quotient of two others, whose rounding is
// that of the number.
func (s *scanner) number() (x float64, ok bool) {
	s.space()
	begin, point := s.at, -1
	digits := uint64(0)
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		if c == '.' && point < 0 && s.at > begin {
			point = s.at
			continue
		}
		if c-'0' > 9 {
			break
		}
		digits = 10*digits + uint64(c-'0')
	}
	length := s.at - begin
	if length == 0 || length > 16 || digits > 1<<53 || !s.ends() {
		return 0, false
	}
	if s.text[begin] == '0' && length > 1 && point != begin+1 || point == s.at-1 {
		return 0, false
	}
	if point < 0 {
		return float64(digits), true
	}
	return float64(digits) / powersOfTen[s.at-point-1], true
}

var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// unsignedList appends the elements of a list of integers.
func (s *scanner) unsignedList(dst []uint64) ([]uint64, bool) {
	if !s.take('[') {
		return dst, false
	}
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') {
			return dst, false
		}
		x, ok := s.unsigned()
		if !ok || len(dst) == MaxHashIDs {
			return dst, false
		}
		dst = append(dst, x)
	}
	return dst, true
}
