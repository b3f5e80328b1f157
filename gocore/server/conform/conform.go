// Package conform makes up texts that conform to what a client demands: one of several choices, a regular expression,
// or a JSON Schema. Equal seeds give equal texts, and a text is as long as it is asked to be where its form allows
// that.
//
//	Choice, Regex, Schema, Object --> Form --> Text(seed, size): pieces (piece.go) that have what is demanded, which
//	                                           then grow until the text has its size; what is made is checked, by
//	                                           regexp or by jsonschema
package conform

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
)

// Form is what texts have to be like.
type Form interface {
	// Text makes up a text. size is its length in bytes, as far as the form allows that; it may be longer by at most
	// Slack. whole is false for a text that would have to be longer still: it is the beginning of one that conforms.
	Text(seed uint64, size int) (text string, whole bool, err error)
}

// Slack is by how many bytes a text may be longer than it is asked to be before it is given up.
const Slack = 64 << 10

// Limits on what clients demand.
const (
	maxSchema  = 256 << 10 // bytes
	maxRegex   = 16 << 10  // bytes
	maxChoices = 1024
)

// tries is how often another text is made up if one has not its size, or does not conform because its form says more
// than is known here, such as "not". The second half of them is as short as can be.
const tries = 16

// sizeTries is after how many of them a text is good enough that is shorter than it is asked to be.
const sizeTries = 3

// choice is one of several texts.
type choice []string

// Choice returns the form of texts that are one of a list.
func Choice(list []string) (Form, error) {
	switch {
	case len(list) == 0 || len(list) > maxChoices:
		return nil, fmt.Errorf("got %d choices, want 1 to %d", len(list), maxChoices)
	case slices.Contains(list, ""):
		return nil, fmt.Errorf("got an empty choice, want texts")
	}
	return choice(list), nil
}

// Text implements [Form].
func (c choice) Text(seed uint64, _ int) (text string, whole bool, err error) {
	return c[rand.New(rand.NewPCG(seed, 0)).IntN(len(c))], true, nil
}

// expression is a regular expression that whole texts match.
type expression struct {
	parsed *syntax.Regexp
	whole  *regexp.Regexp
}

// Regex returns the form of texts that a regular expression matches from beginning to end.
func Regex(pattern string) (Form, error) {
	if pattern == "" || len(pattern) > maxRegex {
		return nil, fmt.Errorf("got a regular expression of %d bytes, want 1 to %d", len(pattern), maxRegex)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, err
	}
	return &expression{parsed, whole}, nil
}

// Text implements [Form].
func (e *expression) Text(seed uint64, size int) (text string, whole bool, err error) {
	return best(seed, size, func(m *maker) *piece { return m.regex(e.parsed, 0) }, func(text string) error {
		if !e.whole.MatchString(text) {
			return fmt.Errorf("no text has been found that this regular expression matches")
		}
		return nil
	})
}

// best makes texts until one of them conforms and has its size, or the one of those that conform that comes closest to
// it.
func best(seed uint64, size int, begin func(*maker) *piece, check func(string) error) (text string, whole bool,
	err error) {
	found := false
	for try := range uint64(tries) {
		if text != "" && !found && try < tries/2 { // it was too long
			continue
		}
		m := &maker{rng: rand.New(rand.NewPCG(seed, try)), left: size + Slack, short: try >= tries/2}
		p := begin(m)
		if m.failed != nil {
			if err == nil {
				err = m.failed
			}
			continue
		}
		if m.left < 0 {
			if text == "" {
				text = p.String()
			} else if m.short {
				break
			}
			continue
		}
		if try < tries-1 { // the last one does not grow, which may do harm
			m.fill(size - p.size())
		}
		made := p.String()
		if wrong := check(made); wrong != nil {
			if err == nil {
				err = wrong
			}
			continue
		}
		if !found || distance(made, size) < distance(text, size) {
			text, found = made, true
		}
		if len(text) == size || try >= sizeTries && len(text) < size || try > tries/2 {
			break
		}
	}
	switch {
	case found:
		return text, true, nil
	case text != "":
		return text[:min(len(text), size+Slack)], false, nil
	case err == nil:
		err = fmt.Errorf("no text has been found that conforms")
	}
	return "", false, err
}

// distance returns how far a text is from its size.
func distance(text string, size int) int {
	if len(text) > size {
		return len(text) - size
	}
	return size - len(text)
}
