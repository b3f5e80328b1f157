package tracestats

import (
	"fmt"

	"dynosim/gocore/workload"
)

// manyPerSecond is a rate of sessions that suggests times in another unit.
const manyPerSecond = 1000

// problems lists oddities that are no errors but may be mistakes.
func problems(w *workload.Workload, s *Stats) []string {
	found := w.Notes.Texts(s.Requests)
	short := 0
	for i := range w.Turns {
		if w.Turns[i].InputTokens < s.BlockSize {
			short++
		}
	}
	if short > 0 {
		found = append(found, fmt.Sprintf("%d of %d requests: the prompt is shorter than a block of %d tokens, "+
			"nothing of it can be reused",
			short, s.Requests, s.BlockSize))
	}
	return append(found, timeProblems(w, s)...)
}

// timeProblems checks the starts of sessions.
func timeProblems(w *workload.Workload, s *Stats) []string {
	var found []string
	untimed, negative, backwards := 0, 0, 0
	last := 0.0
	for i := range w.Sessions {
		session := &w.Sessions[i]
		switch {
		case w.WaitFor != nil && len(w.WaitFor[session.First]) > 0:
			continue
		case !session.Timed:
			untimed++
			continue
		case session.StartMs < 0:
			negative++
		}
		if i > 0 && session.StartMs < last {
			backwards++
		}
		last = session.StartMs
	}
	note := func(count int, what string) {
		if count > 0 {
			found = append(found, fmt.Sprintf("%d of %d sessions: %s", count, len(w.Sessions), what))
		}
	}
	if w.WaitFor == nil {
		note(untimed, "no timestamp, so that the trace runs with replay_concurrency only")
	}
	note(negative, "the timestamp is negative, which only a run without replay_concurrency accepts")
	note(backwards, "the timestamp is before that of the session before; sessions start in order of time")
	if s.Arrivals.Timed > 1 && s.Arrivals.SpanMs == 0 {
		found = append(found, "all sessions start at the same time")
	}
	if s.Arrivals.Timed >= 10 && s.Arrivals.RatePerSecond > manyPerSecond {
		found = append(found, fmt.Sprintf("%.0f sessions start per second on average: timestamps must be milliseconds",
			s.Arrivals.RatePerSecond))
	}
	return found
}
