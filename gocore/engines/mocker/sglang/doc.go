// Package sglang simulates the scheduler of an SGLang engine by the rules of Dynamo's mocker, which comments call the
// reference (SGLang's own rules are in engines/sglang): batches of prompts, chunked prefill, a radix tree of
// cached pages, admission by an estimate of what running requests will still need, and retraction where it was too low.
//
// One pass is one call of RunPass:
//
//	promote        on a decode worker, requests whose prompt was computed elsewhere begin to run
//	orderQueue     longest-prefix-match sorts the waiting queue; otherwise it stays as it is
//	admitWaiting   a batch of prompts or chunks, strictly from the head of the queue, while all budgets last
//	decode         one token for every running request, those admitted in this very pass included, or several with
//	               speculative decoding (burst.go); if slots are short, requests are retracted first
//
// The durations of prefill and decode are added (package timing). All state changes happen at once, at the start of the
// pass; only their visibility is delayed (engine.Pass). KV events are visible at its end.
//
//	           +--- more chunks ---+
//	           v                   |
//	Add --> waiting --prefill--> computed in part, or --> running --last token--> gone
//	           ^                                            |
//	           +----------------- retract ------------------+   (to the front of the queue)
//
// On a prefill worker a request keeps its slots after its one token until they are released. On a decode worker
// requests wait for room, get it, and run when their KV has arrived there (handoff.go):
//
//	Reserve --> pending --TryReserve--> reserved --Activate--> prebuilt --promote--> running
//
// What surprises in these roles:
//
//   - The token that ends a prompt costs a decode step on the prefill worker, too.
//   - A prompt that is held there is in the cache only as far as it was cut into chunks; the rest follows at its
//     release.
//   - While any request waits for room or has all its KV but no place, none is admitted from the waiting queue.
//   - A retracted request computes its prompt anew on the decode worker, which costs no time.
//   - Room is looked for again only after a request has ended or was retracted, or slots were given back.
//
// Facts that surprise, all of them the reference's and visible in users' numbers:
//
//   - A request that is refused at the head keeps all requests behind it waiting.
//   - A prompt is in the cache from its first token on (or the end of a chunk), so equal prompts in one batch both pay.
//   - Room for a prompt is made before its prefix is looked up, and may cost it that prefix.
//   - The tokens of a request's earlier chunks count as reused; after a retraction, generated tokens do.
//   - A prompt up to chunked_prefill_size is not cut, max_prefill_tokens cuts nothing, and cached tokens are charged
//     too.
//   - The request with the fewest output tokens is retracted, of equals the one that has run longest.
//   - Retraction loses slots or returns too many (radix.Pool.Retract), unless the argument reference_quirks is false.
//
// Where this engine departs on purpose from the reference: requests that can never run are rejected instead of blocking
// the queue for ever (reject.go), or, when a decode worker has retracted them, go on as soon as no other runs
// (admission.go); and a dead end has a way out (unblock.go), also one in which passes go on without a token.
//
// Read scheduler.go, then admission.go, decode.go and retraction.go in the order of a pass; policy.go sorts the queue.
// handoff.go has what happens between passes on prefill and decode workers. sequence.go is the state of one request,
// and of all running ones together: as these get their tokens in the same passes, a pass costs hardly more than those
// that join or finish in it, and those whose generated tokens others may find in the cache. coast.go runs series of
// passes that merely decode at once; the scheduler does not know of it. The tests run every workload with and without
// bringing all requests up to date after each pass, and compare it with a slow model of the same rules (model_test.go).
package sglang
