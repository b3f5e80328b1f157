package detokenize

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// fuse makes one token of all.
type fuse struct {
	link
	begun bool
}

func (f *fuse) begin() {
	if !f.begun {
		f.begun = true
		f.next.begin()
	}
}

func (f *fuse) part(text string) { f.next.part(text) }

func (*fuse) end() {}

func (f *fuse) close() {
	if f.begun {
		f.next.end()
	}
	f.next.close()
}

// metaspace replaces the character that stands for a blank, or for nothing in the first token.
type metaspace struct {
	link
	mark     string
	dropping bool // it stands for nothing in the token that comes next
}

func (s *settings) metaspace() (func() stage, error) {
	if _, err := oneRune("replacement", s.Replacement); err != nil {
		return nil, err
	}
	drop := s.Prepend != "never" && (s.AddPrefix == nil || *s.AddPrefix) // old files have only the latter
	return func() stage { return &metaspace{mark: s.Replacement, dropping: drop} }, nil
}

func (m *metaspace) begin() { m.next.begin() }

func (m *metaspace) part(text string) {
	blank := " "
	if m.dropping {
		blank = ""
	}
	m.next.part(strings.ReplaceAll(text, m.mark, blank))
}

func (m *metaspace) end() {
	m.dropping = false
	m.next.end()
}

func (m *metaspace) close() { m.next.close() }

// replace replaces a text wherever it is in a token.
type replace struct {
	link
	old, new string
	kept     string // with which the old text may begin
}

func (s *settings) replace() (func() stage, error) {
	var pattern struct {
		Text *string `json:"String"`
	}
	if err := json.Unmarshal(s.Pattern, &pattern); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	if pattern.Text == nil || *pattern.Text == "" {
		return nil, errors.New("pattern: want a String that is not empty; regular expressions are not known")
	}
	return func() stage { return &replace{old: *pattern.Text, new: s.Content} }, nil
}

func (r *replace) begin() { r.next.begin() }

func (r *replace) part(text string) {
	text = r.kept + text
	keep := 0
	for {
		before, rest, found := strings.Cut(text, r.old)
		if !found {
			break
		}
		r.next.part(before)
		r.next.part(r.new)
		text = rest
	}
	for n := min(len(r.old)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, r.old[:n]) {
			keep = n
			break
		}
	}
	r.kept = text[len(text)-keep:]
	r.next.part(text[:len(text)-keep])
}

func (r *replace) end() {
	r.next.part(r.kept)
	r.kept = ""
	r.next.end()
}

func (r *replace) close() { r.next.close() }

// strip takes a character away at the beginning and at the end of each token, each time that it is there, up to a
// number of times.
type strip struct {
	link
	mark        rune
	start, stop int
	left        int // to be taken away at the beginning
	kept        int // that may be the end
}

func (s *settings) strip() (func() stage, error) {
	mark, err := oneRune("content", s.Content)
	if err != nil {
		return nil, err
	}
	if s.Start < 0 || s.Stop < 0 {
		return nil, errors.New("start, stop: want integers >= 0")
	}
	return func() stage { return &strip{mark: mark, start: s.Start, stop: s.Stop} }, nil
}

func (s *strip) begin() {
	s.left, s.kept = s.start, 0
	s.next.begin()
}

func (s *strip) part(text string) {
	for s.left > 0 && text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if r != s.mark {
			s.left = 0
			break
		}
		s.left--
		text = text[size:]
	}
	if s.stop == 0 {
		s.next.part(text)
		return
	}
	rest := strings.TrimRight(text, string(s.mark))
	marks := utf8.RuneCountInString(text[len(rest):])
	if rest != "" {
		s.hand(s.kept)
		s.kept = 0
		s.next.part(rest)
	}
	s.kept += marks
	if s.kept > s.stop {
		s.hand(s.kept - s.stop)
		s.kept = s.stop
	}
}

// hand hands on characters that are not the end.
func (s *strip) hand(n int) { s.next.part(strings.Repeat(string(s.mark), n)) }

func (s *strip) end() { s.next.end() }

func (s *strip) close() { s.next.close() }
