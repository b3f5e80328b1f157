// Package faults describes what goes wrong in a run: the text that users write, when each fault happens, and how well a
// deployment did before, during and after it.
//
//	text --Parse--> []Fault --Clock--> times of faults that are drawn
//	completions of requests --Around--> goodput before, during and after a fault, time to recover
//
// Nothing here knows workers, requests or a clock: package replay carries faults out. docs/faults.md says what each
// kind does to requests, routers and hand-offs.
//
// Read fault.go first, then parse.go; clock.go draws, goodput.go measures.
package faults
