// Package live runs simulated workers on the wall clock: the engines of offline replay, with real clients.
//
//	plane ==call==> generator --request--> rank: one goroutine, one engine
//	                   |  wait for tokens     |  inbox -> Add, Cancel
//	                   |                      |  RunPass(now), sleep until its end
//	plane <==tokens====+ <---- released ------+  count tokens out, tell the observer
//
// A [Process] is a plane and any number of [Worker]s behind it. A worker has a record in discovery, and a rank for each
// of its engines. A rank owns its engine: others put commands into its inbox, and the engine goroutine never waits for
// them: for a client it only raises the number of tokens that may be sent.
//
// Prefill and decode workers share requests: package rendezvous carries the hand-off from one to the other, handoffs.go
// is the worker's part in it, and handoffpart.go what a rank does for it between two passes. An answer ends when its
// hand-off has ended:
//
//	generator --run--> rendezvous --Do--> handoffPart: a command in the inbox --> Add with Hold, Reserve, Activate, ...
//	                              <-tell--------------------------- rank: computed, room found, activated, released, ...
//
// The tokens of an answer are drawn when its request arrives (output.go). So the blocks of an answer have names like
// those of prompts, the next turn of a conversation finds them in the cache, and KV events list the tokens that the
// client has seen.
//
// Simulated time is milliseconds since the rank was started and never runs ahead of the clock: no token is sent before
// the pass that made it has ended. A pass that follows another one at once starts where that ended, even if the
// goroutine was woken a little late, so that small delays do not add up.
//
// If an engine panics, or the duration of its passes can no longer be determined, its worker ends: it is withdrawn from
// discovery, and its answers break off, so that frontends send the requests to other workers. The process fails when no
// worker is left.
//
// Start reading at rank.go.
package live
