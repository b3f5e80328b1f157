// Package journal writes down what happens in a run: for a timeline that a person looks at, and for series of figures
// over time.
//
// An event loop tells it when a request arrives, joins a worker and leaves it, and shows it every pass. A nil *Journal
// is one that keeps nothing: all its methods return at once.
//
//	loop --Arrived, Joined, Pass, Coast, Step, Left--> Journal --+--> Timeline: slices, counters, arrows (perfetto)
//	                                                             +--> Series: windows of equal length
//
// A pass is recorded when it starts, and what it changes at its end is applied when the journal learns of a later
// moment (worker.reach). Passes in which the same number of requests merely decode are one stretch. Whether a worker
// ran them one by one or coasted through them makes no difference: the journal is the same with and without shortcuts,
// to the last byte.
//
// A request has up to two stays: with the worker that computes its prompt, and with the one that emits its tokens. A
// stay occupies a lane, a row of the timeline, and is written when it ends, together with the slices inside it:
//
//	worker 0, request 1   [request 17                                             ]
//	                      [queue][prompt 512][prompt 300][decode            ]
//
// The journals of workers that run by themselves are parts, as those of a report.Collector. Nothing depends on the
// order in which parts are used.
package journal
