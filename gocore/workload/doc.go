// Package workload says what clients ask for, and when.
//
//	trace file --Load--------+
//	                         +--> Workload --Schedule--> Driver --Next--> requests
//	lengths    --Synthetic---+    sessions of turns      ^                   |
//	                                                     +---- Completed ----+
//
// A turn is one request. A session is a list of turns that run strictly one after another: turn n+1 becomes ready some
// delay after turn n has completed. A request that belongs to nobody is a session of one turn.
//
// A Driver runs a workload in one of two ways. In trace mode the first turn of each session starts at its own time. In
// concurrency mode these times are ignored, and at most N sessions are active; a session keeps its place while it waits
// between turns.
//
// Prompts are never expanded to tokens. intern.go turns the block ids of a trace into the engine's block identities while
// the file is read. mooncake.go reads rows, synthetic.go makes workloads up, schedule.go normalises and scales times,
// driver.go decides what is ready.
package workload
