// Package router chooses a worker for each request: RoundRobin in turn, KV by what workers have cached and have to do.
//
// KV is a plain state machine. Its owner tells it what happens, with the time, and it answers with admissions:
// "request 7 goes to worker 2".
//
//	         Submit                            Apply: blocks stored, removed
//	           |                                            |
//	           v          has cached                        v
//	+---------------------+   <----------------  index: blocks cached per worker
//	| all workers busy,   |
//	| or others waiting?  |   <----------------  tracker: prefill tokens, active blocks per worker
//	+--+---------------+--+   has to do                 ^
//	no |           yes |                                | add, prefill completed, free
//	   |               v                                |
//	   |     queue: fcfs, lcfs, wspt --- drain ---+     |
//	   v                                          v     |
//	cost of every worker -> the cheapest, or a draw -> booked -> Admission
//
// # The life of a decision
//
//  1. A request arrives. The index says how many leading full blocks of its prompt each worker has cached. These
//     overlaps are not looked up again, however long the request waits.
//  2. While every worker has more prefill load than the threshold it waits, and so do all requests behind it.
//  3. Every worker gets a cost from its load at this instant (cost.go has the formula): the prompt tokens it would have
//     to work off, in blocks, less a credit for what it has cached, plus the blocks its requests would then fill.
//  4. The cheapest worker is taken; several that cost exactly the same are equally probable. At a temperature above 0
//     each worker has a probability, and cheap ones a higher one.
//  5. The tracker books the request on that worker: prompt tokens that are not cached until PrefillCompleted, full
//     blocks of the prompt until Free.
//
// Each PrefillCompleted, Free and Cancel of an active request can end the wait of others. Time alone does not, nor do
// cache events.
//
// # Invariants
//
//   - active blocks of a worker = distinct blocks of its active requests; prefill tokens = sum of their prefill
//     entries.
//   - What a worker has cached is exactly what it stored and has not removed since. Blocks are independent: the removal
//     of a block does not remove those that follow it in a prompt.
//   - Same calls and same generator, same answers. Workers are visited by ascending id, and a decision draws at most
//     one number: none when one worker alone is the cheapest, and none for a pinned request.
//   - The processor time of a decision grows with the number of units of 256 blocks in the prompt, times the workers
//     that have any of them, and not with the size of the index. Up to 16 workers are priced one by one; of more, only
//     those that have blocks of the prompt, and a ranking by load finds the cheapest of the others (ranked.go says when
//     that is exact).
//
// # Departures from ai-dynamo
//
// Ties and draws come from a generator with a seed, and workers are visited in order, so that runs can be repeated. The
// index is a set of blocks per worker. ai-dynamo keeps a tree: it drops all descendants of a block that is removed
// first, and a later removal of one of these fails its run. Here the removal of an unknown block is only counted. A
// temperature too low for the softmax to be a number counts as 0.
//
// Read kv.go first, then cost.go and ranked.go, then tracker.go and index.go; both stand on units.go. queue.go orders
// the waiting requests, decision.go has the log of decisions and pinned choices, prefillload.go the decay of prefill
// load over time, and fields.go every field of the configuration.
package router
