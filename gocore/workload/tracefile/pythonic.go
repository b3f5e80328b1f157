package tracefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// jsonText is the text of a JSON file as the decoder gets it. It notes where lines end, so that errors can name a line,
// and puts texts of equal length in the place of the numbers that Python writes and JSON does not know: "inf", "-inf"
// and "" for Infinity, -Infinity and NaN.
type jsonText struct {
	r       io.Reader
	buffer  []byte
	ready   []byte // of buffer: translated, not handed out yet
	pending []byte // read, and perhaps the beginning of such a number
	ended   error  // what r returned at last
	failed  error  // why the text cannot be read, unless that is its end

	inString, escaped bool

	consumed func() int64 // how far the decoder has come
	offset   int64        // of the bytes handed out
	passed   int          // line ends before consumed
	ends     []int64      // offsets of line ends after it
}

// pythonNumbers are words that JSON does not have; none begins another one.
var pythonNumbers = []struct{ python, json []byte }{
	{[]byte("-Infinity"), []byte(`"-inf"   `)},
	{[]byte("Infinity"), []byte(`"inf"   `)},
	{[]byte("NaN"), []byte(`"" `)},
}

const longestNumber = len("-Infinity")

func (t *jsonText) Read(p []byte) (int, error) {
	if t.offset-t.consumed() > MaxLineBytes {
		t.failed = fmt.Errorf("longer than %d bytes, the limit for one value", MaxLineBytes)
		return 0, t.failed
	}
	if len(t.ready) == 0 {
		t.refill()
	}
	n := copy(p, t.ready)
	t.noteLines(p[:n])
	t.ready, t.offset = t.ready[n:], t.offset+int64(n)
	if n > 0 || t.ended == nil {
		return n, nil
	}
	if !errors.Is(t.ended, io.EOF) {
		t.failed = readFault(t.ended)
	}
	return 0, t.ended
}

// refill reads and translates the next piece. It is empty only at the end.
func (t *jsonText) refill() {
	if t.buffer == nil {
		t.buffer = make([]byte, 1<<16)
	}
	n := copy(t.buffer, t.pending)
	t.pending = t.pending[:0]
	for t.ended == nil && n <= longestNumber {
		var got int
		got, t.ended = t.r.Read(t.buffer[n:])
		n += got
	}
	t.ready = t.buffer[:t.translate(t.buffer[:n])]
}

// translate replaces Python's numbers in a piece of text. It returns how much of the piece is done: the rest may be the
// beginning of such a number, and is kept for the next piece.
func (t *jsonText) translate(piece []byte) int {
	for i := 0; i < len(piece); i++ {
		c := piece[i]
		switch {
		case t.escaped:
			t.escaped = false
		case t.inString:
			t.escaped = c == '\\'
			t.inString = c != '"'
		case c == '"':
			t.inString = true
		case c == 'I' || c == 'N' || c == '-':
			if t.ended == nil && len(piece)-i < longestNumber {
				t.pending = append(t.pending, piece[i:]...)
				return i
			}
			for _, number := range pythonNumbers {
				if bytes.HasPrefix(piece[i:], number.python) {
					copy(piece[i:], number.json)
					i += len(number.json) - 1
					break
				}
			}
		}
	}
	return len(piece)
}

func (t *jsonText) noteLines(piece []byte) {
	t.forget()
	for i, c := range piece {
		if c == '\n' {
			t.ends = append(t.ends, t.offset+int64(i))
		}
	}
}

// forget counts the line ends that the decoder has passed.
func (t *jsonText) forget() {
	done, at := 0, t.consumed()
	for done < len(t.ends) && t.ends[done] < at {
		done++
	}
	t.passed += done
	t.ends = t.ends[:copy(t.ends, t.ends[done:])]
}

// line returns the number of the line that the decoder has come to, from 1.
func (t *jsonText) line() int {
	t.forget()
	return t.passed + 1
}
