// Package cluster is the deployment that serves one model: a router and the engines behind it, of which requests come
// from outside one by one and may be cancelled at any time. It is the world of a [fleet.Fleet] whose requests are not
// known beforehand: equal arrivals give equal times, those of a replay.
//
//	Step(atMs, arrivals, cancels)
//	  events before atMs, in the order of time:  end of a pass -> cache events, tokens -> Sink
//	                                             end of a transfer -> hand-off
//	  arrivals -> router -> worker -> Add
//	  every idle worker with requests starts a pass
//	NextMs()  when something happens next
//
// The cluster is pure: it sees no clock. Package deployment calls Step when the clock has reached NextMs, or when a
// request arrives.
//
// One pool of workers serves requests from prompt to last token; or one pool computes prompts and hands their KV to a
// second one, by the rules of the engine. A request that is cancelled while its worker runs a pass leaves the worker at
// the end of the pass, as in a real engine.
//
// Engines and routers know blocks by number. Package naming gives equal blocks equal numbers, whichever worker has
// them, and forgets those that are neither cached nor part of a request; names.go says what makes blocks equal.
//
// Read cluster.go first, then pool.go.
package cluster
