// Package tracestats says what a workload is like before anything is simulated: how many requests and sessions it has,
// how long they are and when they come, how much of the prompts a cache could serve at best, and what looks wrong.
//
//	workload.Load --Workload--> Inspect --> Stats --> Text, or JSON through its tags
//
// Inspect wants a workload as it was read, before its times are prepared for a run. The block size is that of the engine
// for which the workload was read: a smaller one finds more to share.
//
// inspect.go counts, summary.go describes numbers, prefix.go finds what prompts share, problems.go looks for what a user
// should know, text.go writes it down.
package tracestats
