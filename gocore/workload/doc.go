// Package workload says what clients ask for, and when.
//
//	trace files --Load-------+
//	                         +--> Workload --Schedule--> Driver --Next--> requests
//	numbers ------Synthetic--+       |                     ^                 |
//	                               Save                    +--- Completed ---+
//	                                                            Rejected
//
// A turn is one request. A session is a list of turns that run strictly one after another: turn n+1 becomes ready some
// delay after turn n has completed. A request that belongs to no session is one of a single turn. In an agentic trace
// every request is a session of its own, and waits for other requests instead.
//
// A Driver runs a workload in one of two ways. In trace mode the first turn of each session starts at its own time. In
// concurrency mode these times are ignored, and at most N sessions are active; a session keeps its place while it waits
// between turns.
//
// Prompts are never expanded to tokens. intern.go turns the block ids of a trace into the engine's block identities
// while the file is read. Two things make blocks of generated tokens visible to others: a mooncake-delta trace, in
// which a prompt is all that the session has said so far (delta.go), and output_token_ids. Such blocks have an identity
// in advance, Turn.NamedBlocks. What a rejected turn would have generated is missing from later prompts, so that the
// turns of a workload are a plan, and Driver.Turn says what became of it.
//
// The formats, one after another:
//
//	mooncake, mooncake-delta   mooncake.go (sessions), prompts.go, delta.go
//	agentic_mooncake           agentic.go, dependencies.go
//	applied_compute_agentic    applied.go
//	dynamo                     record.go (lines), recording.go (checks), lower.go (which request waits for which),
//	                           dynamo.go; and convert.go, which writes the same as Mooncake rows
//	all others                 package traffic reads them, imported.go makes turns of its requests
//
// format.go lists their names. Those with a reader here read lines with trace.go, objects with object.go and values
// with value.go; all word their errors the same way: file, line, field, value, what is allowed. synthetic.go makes
// workloads up, with lengths from distribution.go and starts from arrivals.go; write.go saves workloads; schedule.go
// normalises and scales times; driver.go decides what is ready.
package workload
