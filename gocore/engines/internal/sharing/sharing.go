// Package sharing is a link that several lanes share: each lane moves one thing at a time, no faster than its own link
// does, and all together no faster than the common one. What moves at the same time gets equal parts of it (processor
// sharing; what a lane cannot use goes to the others, so shares are max-min fair):
//
//	lane 1   |----- 10 blocks -----|       a lane alone takes 1 ms for a block, and so does the common link
//	lane 2        |- 4 blocks -|
//	ms       0    5           13  14
//
// From 5 to 13 ms each lane moves a block in 2 ms. So when something ends depends on what begins later. Where an end
// has to be known before, it may be kept ([Link.Keep]): what begins later then slows down the others only.
package sharing

import (
	"math"
	"slices"
)

// Link is the common link. It is not safe for concurrent use.
type Link struct {
	rate   float64 // blocks in a millisecond, +Inf for no bound
	lanes  []*Lane
	nowMs  float64 // until which everything has moved
	moving []*Move // scratch
}

// Lane is what one user of the link moves in one direction: one thing after the other.
type Lane struct {
	queue []*Move // that have not ended, in order
	endMs float64 // of the last one that has
}

// Move is something that moves.
type Move struct {
	fromMs  float64
	beganMs float64
	began   bool
	delayMs float64 // left
	blocks  float64 // left
	most    float64 // blocks in a millisecond, of its lane
	share   float64 // of the link, now
	endMs   float64
	ended   bool
	kept    []stretch // the shares that it gets, nil if they depend on others
}

// stretch is a share until a time.
type stretch struct{ untilMs, share float64 }

// New returns a link that takes blockMs for a block in either direction, 0 for no time.
func New(blockMs float64) *Link { return &Link{rate: 1 / blockMs} }

// Lane returns a new lane.
func (l *Link) Lane() *Lane {
	n := &Lane{}
	l.lanes = append(l.lanes, n)
	return n
}

// Submit adds something that moves once what is before it in the lane has ended, not before fromMs, which must not be
// before the last Advance. It moves after delayMs, and takes blockMs for a block at least.
func (n *Lane) Submit(fromMs, delayMs float64, blocks int, blockMs float64) *Move {
	m := &Move{fromMs: fromMs, delayMs: delayMs, blocks: float64(blocks), most: 1 / blockMs}
	n.queue = append(n.queue, m)
	return m
}

// Ended returns from when until when something has moved, and whether it has ended.
func (m *Move) Ended() (beganMs, endMs float64, ended bool) { return m.beganMs, m.endMs, m.ended }

// Left returns how many blocks are still to move, as of the last Advance.
func (m *Move) Left() float64 { return m.blocks }

// Stop ends a move at the time of the last Advance, wherever it is in its lane. What it has moved stays moved.
func (l *Link) Stop(n *Lane, m *Move) {
	for i, q := range n.queue {
		if q != m {
			continue
		}
		if m.ended, m.endMs = true, l.nowMs; m.began {
			n.endMs = l.nowMs
		} else {
			m.beganMs = l.nowMs
		}
		n.queue = append(n.queue[:i:i], n.queue[i+1:]...)
		return
	}
}

// Leave takes a lane away, with everything in it: the others share what it had from now on.
func (l *Link) Leave(n *Lane) {
	l.lanes = slices.DeleteFunc(l.lanes, func(other *Lane) bool { return other == n })
}

// Now returns the time of the last Advance.
func (l *Link) Now() float64 { return l.nowMs }

// Advance lets everything move until an instant.
func (l *Link) Advance(untilMs float64) {
	for {
		nextMs := l.next()
		if nextMs > untilMs {
			break
		}
		l.moveTo(nextMs)
	}
	if untilMs > l.nowMs {
		l.moveTo(untilMs)
	}
}

// Foresee returns when m ends if nothing is submitted any more.
func (l *Link) Foresee(m *Move) float64 {
	if m.ended {
		return m.endMs
	}
	endMs, _ := l.foresee(m)
	return endMs
}

// Keep returns when m ends, and what is before it in its lane: nothing that is submitted later changes that.
func (l *Link) Keep(n *Lane, m *Move) float64 {
	for _, q := range n.queue {
		if q.kept == nil {
			_, q.kept = l.foresee(q)
		}
		if q == m {
			break
		}
	}
	return l.Foresee(m)
}

// foresee moves a copy of everything until m has ended. It returns when that is, and the shares that m gets.
func (l *Link) foresee(m *Move) (endMs float64, shares []stretch) {
	c := &Link{rate: l.rate, nowMs: l.nowMs}
	var end *Move
	for _, n := range l.lanes {
		if len(n.queue) == 0 {
			continue
		}
		own := c.Lane()
		own.endMs = n.endMs
		for _, q := range n.queue {
			another := *q
			own.queue = append(own.queue, &another)
			if q == m {
				end = &another
			}
		}
	}
	for !end.ended {
		nextMs := c.next()
		if end.began {
			shares = append(shares, stretch{nextMs, end.share})
		}
		c.moveTo(nextMs)
	}
	return end.endMs, shares
}

// next sets the shares of what moves now, and returns when they change next, +Inf for never.
func (l *Link) next() float64 {
	nextMs := math.Inf(1)
	l.moving = l.moving[:0]
	for _, n := range l.lanes {
		if len(n.queue) == 0 {
			continue
		}
		m := n.queue[0]
		if beginsMs := max(m.fromMs, n.endMs); !m.began && beginsMs > l.nowMs {
			nextMs = min(nextMs, beginsMs)
			continue
		} else if !m.began {
			m.began, m.beganMs = true, beginsMs
		}
		l.moving = append(l.moving, m)
	}
	l.share()
	for _, m := range l.moving {
		nextMs = min(nextMs, m.changesMs(l.nowMs))
	}
	return nextMs
}

// share divides the link among what moves: those that are kept get what they have, the others equal parts of what is
// left.
func (l *Link) share() {
	left, open := l.rate, 0
	for _, m := range l.moving {
		switch {
		case m.kept != nil:
			m.share = m.kept[0].share
			left -= m.share
		case m.delayMs > 0:
			m.share = 0
		default:
			m.share = -1
			open++
		}
	}
	if math.IsInf(l.rate, 1) {
		for _, m := range l.moving {
			if m.share < 0 {
				m.share = m.most
			}
		}
		return
	}
	left = max(left, 0)
	for open > 0 {
		equal, small := left/float64(open), 0
		for _, m := range l.moving {
			if m.share < 0 && m.most <= equal {
				m.share = m.most
				left -= m.most
				small++
			}
		}
		if open -= small; small > 0 {
			continue
		}
		for _, m := range l.moving {
			if m.share < 0 {
				m.share = equal
			}
		}
		return
	}
}

// changesMs returns when a move that has its share until then gets another one, or has ended.
func (m *Move) changesMs(nowMs float64) float64 {
	switch {
	case m.kept != nil:
		return max(nowMs, m.kept[0].untilMs)
	case m.delayMs > 0:
		return nowMs + m.delayMs
	case m.blocks == 0 || math.IsInf(m.share, 1):
		return nowMs
	}
	return nowMs + m.blocks/m.share
}

// moveTo lets what moves go on until an instant, no later than the next change of a share.
func (l *Link) moveTo(atMs float64) {
	for _, m := range l.moving {
		m.moveTo(l.nowMs, atMs)
	}
	l.nowMs = atMs
	for _, n := range l.lanes {
		if len(n.queue) > 0 && n.queue[0].ended {
			n.endMs = atMs
			n.queue = n.queue[1:]
		}
	}
}

func (m *Move) moveTo(nowMs, atMs float64) {
	changes := m.changesMs(nowMs) <= atMs
	if m.kept != nil {
		if m.blocks -= m.share * (atMs - nowMs); changes {
			m.kept = m.kept[1:]
		}
		m.ended = len(m.kept) == 0
	} else if m.delayMs > 0 {
		if m.delayMs -= atMs - nowMs; changes {
			m.delayMs = 0
		}
		return
	} else if m.ended = changes; !changes {
		m.blocks -= m.share * (atMs - nowMs)
	}
	if m.ended {
		m.blocks, m.endMs = 0, atMs
	}
}
