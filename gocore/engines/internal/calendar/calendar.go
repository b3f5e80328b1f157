// Package calendar says which pass has to look at which request, for engines in which most passes give a request one
// token and need not look at it.
//
//	pass      7     8     9    10    11    12
//	due       A     -     C,A   -     -     B
//
// A request is entered for one pass at a time, and again when it was due, if there is a next time. That pass is one of
// the next ones, as many as the calendar has days: a day stands for the passes of its number, modulo the number of
// days.
package calendar

import (
	"math"
	"slices"
)

// Calendar is the requests that merely decode, each under the pass that has to look at it.
type Calendar[R any] struct {
	days    []day[R] // nil until a request is entered
	lastDay int
	compare func(a, b R) int // in running order
	due     []R              // scratch
}

// day is the requests of one day. Looking ahead means to look at days, and at none of their requests: there may be
// many workers, whose requests are not in the cache of the processor.
type day[R any] struct {
	first *Entry[R]
	count int32
	plain int32 // see Enter; the least of its requests
}

// Entry is a request on a calendar. It is part of the request, so that entering takes no memory.
type Entry[R any] struct {
	Request R
	next    *Entry[R] // of the same day
}

// New returns an empty calendar of the given number of days, a power of two. compare orders requests as they run.
func New[R any](days int, compare func(a, b R) int) Calendar[R] {
	return Calendar[R]{lastDay: days - 1, compare: compare}
}

// Enter puts a request under a pass. From that one on, at least plain passes do no more for the request than to open
// blocks and to give it tokens, which are not its last ones.
func (c *Calendar[R]) Enter(e *Entry[R], pass, plain int) {
	if c.days == nil {
		c.days = make([]day[R], c.lastDay+1)
	}
	d := &c.days[pass&c.lastDay]
	if e.next = d.first; d.first == nil {
		d.plain = math.MaxInt32
	}
	d.first = e
	d.count++
	d.plain = min(d.plain, int32(plain))
}

// Due returns how many requests are due in a pass, and how many passes from that one on are plain for all of these.
func (c *Calendar[R]) Due(pass int) (requests, plain int) {
	if c.days == nil {
		return 0, math.MaxInt32
	}
	d := &c.days[pass&c.lastDay]
	if d.first == nil {
		return 0, math.MaxInt32
	}
	return int(d.count), int(d.plain)
}

// Repeat leaves the requests that are due in a pass on the calendar, for the pass that comes as many passes later as
// the calendar has days. Until then that day must be plain for them.
func (c *Calendar[R]) Repeat(pass int) { c.days[pass&c.lastDay].plain -= int32(c.lastDay + 1) }

// Take takes the requests that are due in a pass off the calendar, in running order. The slice is valid until the next
// call.
func (c *Calendar[R]) Take(pass int) []R {
	c.due = c.due[:0]
	if c.days == nil {
		return nil
	}
	d := &c.days[pass&c.lastDay]
	for e := d.first; e != nil; e = e.next {
		c.due = append(c.due, e.Request)
	}
	*d = day[R]{}
	slices.SortFunc(c.due, c.compare)
	return c.due
}

// Clear takes all requests off the calendar.
func (c *Calendar[R]) Clear() { clear(c.days) }
