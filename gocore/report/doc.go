// Package report turns what happened to each request into the metrics that users read.
//
//	shell --Arrival, Pass, Terminal--> Collector --Summarise--> []Value (the report's keys)
//	                                             --Rows-------> Rows     (one per request)
//
// A Collector does not store the time of every token. All requests of a worker that emit in one pass get the same time,
// so it keeps the end of each emitting pass once, and for each request the runs of passes in which it emitted:
//
//	pass     0    1    2    3    4    5        run of A: passes 0..3, run of B: 2..5
//	end    10.0 15.8 21.6 38.1 43.9 49.7       gaps: 5.8 (A) 5.8 (A) 16.5 (A, B) 5.8 (B) 5.8 (B)
//
// A burst of speculative decoding is a run that gets more than one token in a pass; the gaps inside it are zero, and
// only counted.
//
// An inter-token latency is then a difference of neighbouring ends with the number of requests that emitted in both as
// its weight, and percentiles are taken over thousands of weighted passes instead of millions of tokens.
//
// A run with prefill and decode workers records more about each request (handoff.go). Its tokens are those of the
// decode workers.
//
// A run that is to be explained also divides latencies among their parts: attribution.go records, divided.go makes the
// parts add up, explanation.go sums up.
//
// collector.go records, distribution.go has the statistics, summary.go the report's keys, rows.go the per-request
// table.
package report
