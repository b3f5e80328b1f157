// Package vllm simulates the scheduler of a vLLM engine by the rules of Dynamo's mocker, which comments call the
// reference (vLLM's own rules are in engines/vllm): continuous batching, chunked prefill, paged KV cache with
// prefix reuse, and preemption with recomputation.
//
// One pass is one call of RunPass:
//
//	serveRunning   running requests first, in admission order: the next chunk of a prompt, or one token; a request that
//	               needs a block when none is left preempts another
//	admitWaiting   then the waiting queue, strictly from its head, while token budget, slots and blocks last
//	emit           every request whose tokens are all computed gets one more, in running order
//
// The durations of the prefill and the decode part follow from what was scheduled (package timing). All state changes
// happen at once, at the start of the pass; only their visibility is delayed (engine.Pass).
//
//	waiting --admit--> running --last token--> gone         computed: tokens whose KV is in the cache
//	   ^                  |                                 allocated: tokens whose blocks the request holds
//	   +----- preempt ----+  (to the front of the queue)    computed <= prompt + generated
//
// Facts that surprise, all of them the reference's and visible in users' numbers:
//
//   - The pass that completes a prompt also emits its first token and pays a decode step for it.
//   - A fully cached prompt costs no prefill and needs no budget.
//   - Recomputing generated tokens after a preemption costs budget but no time.
//   - Under FIFO preemption the request behind the one being served is skipped when the victim stood before it.
//   - The last token of a request takes a block, if it opens one, just to give it back.
//
// On a prefill worker the token that ends a prompt takes no time, and the request then holds its blocks until they are
// released. On a decode worker requests wait for room, get it, and join the waiting queue when their KV has arrived
// there; a prompt never costs time (handoff.go):
//
//   - While others wait for room, only requests that have all of their prompt's KV are admitted, wherever they stand.
//   - Blocks that are reserved count as active, and slow decode steps down; but the prefix that a reservation pins does
//     not count as held when the head of the queue is weighed against the pool.
//   - Room is looked for again only after a request has ended or was preempted, or blocks were given back.
//
// Where this engine departs on purpose from the reference: requests that can never run are rejected instead of hanging
// the run (reject.go), requests that keep preempting each other are run one at a time (stall.go), a watermark can keep
// blocks back for running requests, and on a decode worker requests that hold what the head of the queue lacks may go
// first when nothing else can happen.
//
// TensorRT-LLM engines are these with another admission policy, guaranteed-no-evict: room for whole outputs is kept,
// and nothing is ever preempted (guarantee.go).
//
// Read scheduler.go, then serve.go, admission.go and emission.go in the order of a pass. sequence.go is the state of
// one request. burst.go emits instead of emission.go when the engine decodes speculatively. steady.go is a shortcut for
// requests that merely decode, which is what most requests do in most passes; the tests run every workload with and
// without it.
package vllm
