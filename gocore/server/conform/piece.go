package conform

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"dynosim/gocore/server/tokens"
)

// piece is a part of a text that is being made: a leaf, or items with something between them.
type piece struct {
	text        string // of a leaf
	open, close string
	between     string
	items       []*piece
	present     int  // items that are a part of the text
	absent      bool // it is not a part of the text yet
}

// add appends an item.
func (p *piece) add(item *piece) {
	p.items = append(p.items, item)
	if !item.absent {
		p.present++
	}
}

// enter puts a piece into the place of an item that is not a part of the text yet.
func (p *piece) enter(slot, made *piece) {
	*slot = *made
	p.present++
}

// String returns the text of a piece.
func (p *piece) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *piece) write(b *strings.Builder) {
	b.WriteString(p.open)
	b.WriteString(p.text)
	first := true
	for _, item := range p.items {
		if item.absent {
			continue
		}
		if !first {
			b.WriteString(p.between)
		}
		first = false
		item.write(b)
	}
	b.WriteString(p.close)
}

// size returns the length of the text of a piece.
func (p *piece) size() int {
	n := len(p.open) + len(p.text) + len(p.close) + max(p.present-1, 0)*len(p.between)
	for _, item := range p.items {
		if !item.absent {
			n += item.size()
		}
	}
	return n
}

// maker makes one text.
type maker struct {
	rng   *rand.Rand
	left  int  // bytes before the text is given up
	short bool // it has only what it must
	// growers make pieces longer that may be. They get how many bytes there are for them, and return how many they have
	// taken.
	growers []func(room int) int
	failed  error
}

// leaf returns a piece that is a text.
func (m *maker) leaf(text string) *piece {
	m.left -= len(text)
	return &piece{text: text}
}

// over tells that nothing more is to be made.
func (m *maker) over() bool { return m.left < 0 || m.failed != nil }

// fail gives the text up.
func (m *maker) fail(format string, args ...any) *piece {
	if m.failed == nil {
		m.failed = fmt.Errorf(format, args...)
	}
	return &piece{}
}

// maxRounds bounds how often growers are asked.
const maxRounds = 32

// fill lets pieces grow by the given number of bytes in all, as far as they can. Each gets a share that is drawn, and
// what others have left.
func (m *maker) fill(room int) {
	for range maxRounds {
		growers := m.growers
		if room <= 0 || len(growers) == 0 {
			return
		}
		weights, sum := make([]float64, len(growers)), 0.0
		for i := range weights {
			weights[i] = 0.1 + m.rng.Float64()
			sum += weights[i]
		}
		before, shares, given := room, float64(room), 0.0
		for i, grow := range growers {
			given += weights[i]
			if share := int(shares*given/sum) - (before - room); share > 0 {
				room -= grow(min(share, room))
			}
		}
		if room == before { // shares may have been too small for anything: the first that can takes all of it
			for _, grow := range growers {
				room -= grow(room)
			}
			if room == before && len(m.growers) == len(growers) { // not even something empty that may grow
				return
			}
		}
	}
}

// words returns the given number of bytes of words.
func words(n int, seed uint64) string {
	text := tokens.Bytes{}.Draw(n, seed).Text
	if strings.HasSuffix(text, " ") {
		text = text[:n-1] + "s"
	}
	return text
}

// wordy returns a piece of words between quotes. It has shortest to longest bytes; longest is negative for no limit.
func (m *maker) wordy(quote string, shortest, longest int) *piece {
	n, seed := shortest, m.rng.Uint64()
	if !m.short {
		n = max(n, 3+m.rng.IntN(6))
	}
	if longest >= 0 {
		n = min(n, longest)
	}
	m.left -= n
	if m.over() {
		n = min(n, shortest, Slack+max(0, m.left+n)) // as much as is shown of it
	}
	p := &piece{open: quote, close: quote, text: words(n, seed)}
	m.growers = append(m.growers, func(room int) int {
		if longest >= 0 {
			room = min(room, longest-len(p.text))
		}
		if room <= 0 {
			return 0
		}
		p.text = words(len(p.text)+room, seed)
		return room
	})
	return p
}

// more appends items to a piece while they fit. next makes one, nil if there can be no more.
func (m *maker) more(p *piece, room int, next func() *piece) (used int) {
	for room > 0 && !m.over() {
		kept := len(m.growers)
		item := next()
		if item == nil || m.over() {
			m.growers = m.growers[:kept]
			break
		}
		cost := item.size()
		if p.present > 0 {
			cost += len(p.between)
		}
		if cost > room {
			m.growers = m.growers[:kept]
			break
		}
		p.add(item)
		used, room = used+cost, room-cost
		if cost == 0 || m.rng.IntN(4) == 0 && len(m.growers) > kept {
			break // the rest is for what the item has inside
		}
	}
	return used
}
