// Package sglang simulates SGLang by the rules of SGLang's own scheduler, that of its runtime (SRT), as of release
// 0.5.23. Package engines/mocker/sglang follows the rules of Dynamo's mocker instead, and is the default;
// docs/agreement.md compares both with SGLang.
//
// One batch is composed by compose, and its tokens come with deliver:
//
//	mergePrefilled   requests whose prompt the batch before completes run from now on
//	composePrefill   if the waiting queue's head fits, a batch of prompts: first the next part of a prompt that was cut,
//	                 then the queue from its head, while budgets, seats and pages last
//	composeDecode    otherwise one token for every running request; if pages are short, requests are retracted
//	deliver          one token for each request of the batch whose tokens are all computed; prompts enter the tree
//
// Without overlap scheduling both happen when the batch starts. With it, as a stock server runs, a batch is composed
// while the one before it runs, so it does not know that one's tokens yet (RunPass).
//
//	           +-- next part --+
//	           v               |
//	Add --> waiting --> chunked, or --> prefilled --> running --last token--> over
//	           ^                                         |
//	           +---------------- retracted --------------+   (to the end of the queue)
//
// What differs from engines/mocker/sglang, with the rule's name in docs/agreement.md:
//
//   - A batch is a prefill or a decode, not both, and a prefill goes first (R1). It yields the first token (R2).
//   - At least one token is computed (R3), a cached prefix costs no budget, and a page of reserve is charged (R4).
//   - A prompt is cut to what is left of the chunk budget (R5, R7); the input budget may be overrun by one request
//     (R6).
//   - A refusal for lack of room stops admission until a request leaves the running ones (R8).
//   - The new-token ratio falls with each decode, and follows the tokens generated after a retraction (R9).
//   - Which request is retracted, and where it waits then (R10, R11): retract, retractOne.
//   - Nothing enters the tree while a request decodes (R12). Room is made after prefixes were found and locked (R13).
//
// Details that the comparison with SGLang has brought to light, where the rules say less:
//
//   - A look-up also makes the rest of a node the youngest in which it ends (radix.LeasePool); pages that are added
//     where the node was cut are younger still.
//   - Whatever enters the tree is cut where the prompt ends, also after a retraction.
//   - Longest-prefix-match looks up whole sequences, then caps the hit at one token less, not at the page before.
//   - Requests that longest-prefix-match demotes keep their order, whatever they find in the cache; whether one is
//     looked at for that depends on what it finds of the whole sequence, not on the capped hit.
//   - After the next part of a cut prompt the queue is not looked at if the budgets are spent; if the pool has nothing
//     left, its head is looked up in any case, and refused for lack of room (testdata/head_looked_up.txt).
//   - The end of a request that only had a prefill (its output is one token) also reopens admission.
//
// With mixed chunks (enable_mixed_chunk, testdata/mixed.txt) requests that run do not wait for prompts (M1 to M6):
//
//   - Each of them takes a token from the budgets of the batch.
//   - Each gets a token in it, if there are pages for all of them besides those of the prompts (mixIn). If not, all sit
//     it out, and nothing is retracted for it.
//   - The batch lists the prompts first, so the requests whose prompt it completes run before the others from then on.
//   - The new-token ratio falls in batches without prompts only.
//
// If as many requests run as the chunk has tokens, a prompt that was cut waits until there are fewer; this is ours, as
// SGLang is not made for such settings.
//
// With a tier of host memory (host_cache; radix.HostTier has the tree) look-ups go on in what the host has. What is
// found there is loaded when its request is admitted, if there is room for all of it, and the batch ends no earlier
// than the load. Copies to the host lock what they copy (write_through), or hold the scheduler (write_back): then a
// batch starts later than its pass, or, with overlap scheduling, a pass only stands still. If requests wait and nothing
// runs, a pass waits for the end of the next copy.
//
// Why this is a package of its own and not a set of policies in engines/mocker/sglang: the phases of a round, the life
// of a chunk, and the moments at which pages are taken, shared and given back all differ; radix.LeasePool is a pool of
// its own for the same reason. What they have in common is shared: the radix tree, the engine interface, the clock, the
// loops that drive them.
//
// Read scheduler.go, then compose.go, decode.go and batch.go in the order of a round; policy.go sorts the queue.
// sequence.go is the state of one request, roll.go counts those that decode. coast.go is a shortcut for rounds that
// merely decode; TestShortcuts and TestStepwise run every workload with and without it, and with the roll counted anew
// in every round. Package truth compares the engine with recorded runs of SGLang, and tests/truth with SGLang itself.
//
// On prefill and decode workers (engine.Pusher, testdata of package replay), send.go has what a scheduler does besides
// on a prefill worker, and Decoder is a scheduler of its own: decoderround.go has its rules, in their order.
//
// Not simulated: speculative decoding. A request that SGLang would refuse, or whose output it
// would shorten, is rejected (reject.go). Two prompts that differ within their last page differ only where the engine's
// block size divides the trace's.
package sglang
