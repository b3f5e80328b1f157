// Package vllm simulates vLLM by the rules of vLLM's own scheduler, that of its V1 engine, as of releases 0.28 and
// 0.33; releases.go has what these do differently. Package engines/mocker/vllm follows the rules of Dynamo's mocker
// instead, and is the default; docs/agreement.md compares both with vLLM.
//
// One pass is composed by compose, and its tokens come with deliver:
//
//	serveRunning   running requests first, in admission order: the next chunk of a prompt, or one token; a request that
//	               lacks blocks preempts the one admitted last
//	admitWaiting   then the waiting queue from its head, while token budget, seats and blocks last; not in a pass that
//	               preempts
//	deliver        every request whose tokens are all computed gets one more
//
// The simulator knows the tokens of a pass beforehand. Without asynchronous scheduling RunPass therefore composes and
// delivers at once, and the tokens are seen when the pass ends. With it, as a stock server runs, a pass is composed
// while the one before it runs, so it does not know that one's tokens yet.
//
// With host memory below the pool (host_cache) offload.go stores prompts there and loads them back; package
// kvcache/chunks holds the contents of that memory and the order of eviction. A pass may then have to wait for copies
// before it starts, and loading requests wait outside the queue.
//
// What differs from engines/mocker/vllm, with the rule's name in docs/agreement.md:
//
//   - R1: at least one token of a request is always computed, so the block with its last token is not looked up.
//   - R2: equal blocks are not merged (paged.LRUPool).
//   - R3: a generated token takes its block when the next pass is composed, so a pass never has to undo a token.
//   - R4: the last token of a request takes no block, because of R3.
//   - R5: blocks of generated tokens can be found after a preemption.
//   - R6: a block is registered when its tokens have been computed, not before.
//   - R7: the block that was unused for longest is evicted first (paged.LRUPool).
//
// Why this is a package of its own and not a set of policies in engines/mocker/vllm: the two engines take blocks at
// different moments, which decides where preemption can happen, and with that the shape of every function between
// RunPass and the pool. What they have in common is shared: the engine interface, the clock, the block table, the loops
// that drive them.
//
// Read scheduler.go, then batch.go (compose, deliver) and compose.go (serveRunning, admitWaiting) in the order of a
// pass. sequence.go is the state of one request. For models with several groups of layers groups.go and groupuse.go
// have what blocks each group needs, uses and reports. group.go, balance.go and experts.go run
// data-parallel ranks in lockstep, and pull.go hands prompts from prefill to decode workers.
// steady.go and coast.go are shortcuts for requests that merely decode; TestShortcuts and TestStepwise run every
// workload with and without them. Package truth compares the engine with recorded runs of vLLM, and tests/truth with
// vLLM itself.
//
// To follow a newer release of vLLM: run make truth with an environment that has it. The first pass that differs is
// printed for the smallest workload that shows the difference; find out by more such workloads which rule has changed.
package vllm
