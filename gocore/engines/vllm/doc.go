// Package vllm simulates vLLM by the rules of vLLM's own scheduler, that of its V1 engine, as of releases 0.28 and
// 0.33; releases.go has what these do differently. Package engines/mocker/vllm follows the rules of Dynamo's mocker
// instead, and is the default; docs/agreement.md compares both with vLLM.
//
// One pass is composed by compose, and its tokens come with deliver:
//
//	serveRunning   running requests first, in admission order: the next chunk of a prompt, or one token; a request that
//	               lacks blocks preempts the one admitted last
//	admitWaiting   then the waiting queue from its head, while token budget, seats and blocks last; not in a pass that preempts
//	deliver        every request whose tokens are all computed gets one more
//
// Without asynchronous scheduling both happen when the pass starts. With it, as a stock server runs, a pass is composed
// while the one before it runs, so it does not know that one's tokens yet (RunPass).
//
// With host memory below the pool (host_cache) offload.go stores prompts there and loads them back; package
// kvcache/chunks has what is there and what goes first. A pass may then have to wait for copies before it starts, and
// loading requests wait outside the queue.
//
// What differs from engines/mocker/vllm, with the rule's name in docs/agreement.md:
//
//   - At least one token of a request is always computed (R1): the block of its last token is not looked up.
//   - Equal blocks are not merged (R2), and the block unused for longest is evicted first (R7): paged.LRUPool.
//   - The block of a generated token is taken when the next pass is composed (R3), so a last token needs none (R4), and a
//     pass never has to undo a token.
//   - Blocks of generated tokens can be found after a preemption (R5).
//   - A block is registered when its tokens have been computed, not before (R6).
//
// Why this is a package of its own and not a set of policies in engines/mocker/vllm: the two engines take blocks at
// different moments, which decides where preemption can happen, and with that the shape of every function between
// RunPass and the pool. What they have in common is shared: the engine interface, the clock, the block table, the loops
// that drive them.
//
// Read scheduler.go, then compose.go and batch.go in the order of a pass. sequence.go is the state of one request.
// steady.go and coast.go are shortcuts for requests that merely decode; TestShortcuts and TestStepwise run every
// workload with and without them. Package truth compares the engine with recorded runs of vLLM, and tests/truth with
// vLLM itself.
//
// To follow a newer release of vLLM: run make truth with an environment that has it. The first pass that differs is
// printed for the smallest workload that shows the difference; find out by more such workloads which rule has changed.
package vllm
