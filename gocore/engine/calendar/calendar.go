// Package calendar says which pass has to look at which request, for engines in which most passes give a request one token
// and need not look at it.
//
//	pass      7     8     9    10    11    12
//	due       A     -     C,A   -     -     B
//
// A request is entered for one pass at a time, and again when it was due, if there is a next time. That pass is one of the
// next ones, as many as the calendar has days: a day stands for the passes of its number, modulo the number of days.
package calendar

import "slices"

// Calendar is the requests that merely decode, each under the pass that has to look at it.
type Calendar[R any] struct {
	days    []*Entry[R] // nil until a request is entered
	lastDay int
	compare func(a, b R) int // in running order
	due     []R              // scratch
}

// Entry is a request on a calendar. It is part of the request, so that entering takes no memory.
type Entry[R any] struct {
	Request R
	next    *Entry[R] // of the same day
}

// Next is another entry of the same day, nil after the last one.
func (e *Entry[R]) Next() *Entry[R] { return e.next }

// New returns an empty calendar of so many days, a power of two. compare orders requests as they run.
func New[R any](days int, compare func(a, b R) int) Calendar[R] {
	return Calendar[R]{lastDay: days - 1, compare: compare}
}

// Enter puts a request under a pass.
func (c *Calendar[R]) Enter(e *Entry[R], pass int) {
	if c.days == nil {
		c.days = make([]*Entry[R], c.lastDay+1)
	}
	day := pass & c.lastDay
	e.next = c.days[day]
	c.days[day] = e
}

// Due is one of the requests that are due in a pass, nil if none is. The others follow it, in any order.
func (c *Calendar[R]) Due(pass int) *Entry[R] {
	if c.days == nil {
		return nil
	}
	return c.days[pass&c.lastDay]
}

// Take takes the requests that are due in a pass off the calendar, in running order. The slice is valid until the next call.
func (c *Calendar[R]) Take(pass int) []R {
	c.due = c.due[:0]
	first := c.Due(pass)
	if first == nil {
		return nil
	}
	for e := first; e != nil; e = e.next {
		c.due = append(c.due, e.Request)
	}
	c.days[pass&c.lastDay] = nil
	slices.SortFunc(c.due, c.compare)
	return c.due
}

// Clear takes all requests off the calendar.
func (c *Calendar[R]) Clear() { clear(c.days) }
