package conform

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep what is made may be nested.
const maxDepth = 200

// regex makes a text that a regular expression matches, as far as its parts say so.
func (m *maker) regex(re *syntax.Regexp, depth int) *piece {
	if m.over() {
		return &piece{}
	}
	if depth > maxDepth {
		return m.fail("nested deeper than %d levels", maxDepth)
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return m.fail("nothing matches this regular expression")
	case syntax.OpLiteral:
		return m.leaf(string(re.Rune))
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return m.leaf(m.character(re))
	case syntax.OpCapture:
		return m.regex(re.Sub[0], depth+1)
	case syntax.OpConcat:
		p := &piece{}
		for _, sub := range re.Sub {
			p.add(m.regex(sub, depth+1))
		}
		return p
	case syntax.OpAlternate:
		return m.regex(re.Sub[m.rng.IntN(len(re.Sub))], depth+1)
	case syntax.OpStar:
		return m.repeat(re.Sub[0], 0, -1, depth)
	case syntax.OpPlus:
		return m.repeat(re.Sub[0], 1, -1, depth)
	case syntax.OpQuest:
		return m.repeat(re.Sub[0], 0, 1, depth)
	case syntax.OpRepeat:
		return m.repeat(re.Sub[0], re.Min, re.Max, depth)
	default: // anchors say nothing
		return &piece{}
	}
}

// repeat returns fewest to most times the same; most is negative for no limit.
func (m *maker) repeat(sub *syntax.Regexp, fewest, most, depth int) *piece {
	if sub.Op == syntax.OpCharClass || sub.Op == syntax.OpAnyChar || sub.Op == syntax.OpAnyCharNotNL {
		return m.characters(sub, fewest, most)
	}
	p := &piece{}
	for range fewest {
		if m.over() {
			break
		}
		p.add(m.regex(sub, depth+1))
	}
	m.growers = append(m.growers, func(room int) int {
		return m.more(p, room, func() *piece {
			if most >= 0 && len(p.items) >= most {
				return nil
			}
			return m.regex(sub, depth+1)
		})
	})
	return p
}

// characters returns a run of fewest to most characters of a class.
func (m *maker) characters(class *syntax.Regexp, fewest, most int) *piece {
	var b strings.Builder
	for range fewest {
		b.WriteString(m.character(class))
	}
	p, count := m.leaf(b.String()), fewest
	m.growers = append(m.growers, func(room int) int {
		var b strings.Builder
		b.WriteString(p.text)
		for most < 0 || count < most {
			c := m.character(class)
			if b.Len()+len(c) > len(p.text)+room {
				break
			}
			b.WriteString(c)
			count++
		}
		used := b.Len() - len(p.text)
		p.text = b.String()
		return used
	})
	return p
}

// character draws a character of a class: a letter or digit if there is one, else something that can be printed, else
// any.
func (m *maker) character(class *syntax.Regexp) string {
	if class.Op != syntax.OpCharClass {
		return string(rune('a' + m.rng.IntN(26)))
	}
	for _, wanted := range [][2]rune{{'a', 'z'}, {'0', '9'}, {'A', 'Z'}, {' ', '~'}} {
		if m.rng.IntN(3) == 0 && wanted[0] != ' ' { // not always letters
			continue
		}
		if c, found := m.within(class.Rune, wanted[0], wanted[1]); found {
			return string(c)
		}
	}
	for range tries {
		if c, found := m.within(class.Rune, 1, utf8.MaxRune); found && utf8.ValidRune(c) {
			return string(c)
		}
	}
	m.fail("a class of this regular expression has no characters")
	return ""
}

// within draws a character of ranges that is one of low to high.
func (m *maker) within(ranges []rune, low, high rune) (rune, bool) {
	count := 0
	for i := 0; i+1 < len(ranges); i += 2 {
		count += int(max(0, min(ranges[i+1], high)-max(ranges[i], low)+1))
	}
	if count == 0 {
		return 0, false
	}
	n := rune(m.rng.IntN(count))
	for i := 0; ; i += 2 {
		from := max(ranges[i], low)
		size := max(0, min(ranges[i+1], high)-from+1)
		if n < size {
			return from + n, true
		}
		n -= size
	}
}
