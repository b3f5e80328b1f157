// Package tracestats computes statistics of a workload without simulating it: how many requests and sessions it has,
// how long they are and when they arrive, which part of the prompts a cache could serve at best, and what looks wrong.
//
//	workload.Load --Workload--> Inspect --> Stats --> Text, or JSON through its tags
//
// Inspect needs a workload as it was read, before its times are prepared for a run. The block size is that of the
// engine for which the workload was read: a smaller one finds more to share.
//
// inspect.go counts, summary.go describes numbers, prefix.go finds what prompts share, problems.go finds what looks
// like a mistake, text.go prints all of it.
package tracestats
