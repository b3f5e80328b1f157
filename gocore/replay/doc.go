// Package replay drives simulated workers through a workload in virtual time.
//
// The clock is one float64 in milliseconds. It never sleeps; it jumps to the next instant at which something happens.
// Three loops exist. With one worker nothing else can happen while a pass runs, so single.go simply runs pass after pass.
// With several, cluster.go keeps the ends of running passes in a heap and handles one instant after the other, in this
// order, until nothing changes any more:
//
//  1. passes that end now are applied: tokens seen, finished requests gone, next turns scheduled
//  2. requests that arrive now are routed to workers
//  3. idle workers start passes, lowest index first
//
// Most passes only give every request another token. A worker runs such passes at once, up to the next one that affects others,
// and is stopped if a request comes in between (coast.go). Workers that take the requests of a trace without sessions in turn
// do not depend on each other at all, and run one after the other or at the same time (independent.go).
//
// The order matters: a slot freed at an instant is filled again at that instant, and the new request joins the pass that starts
// then. What one worker does never depends on map order, threads or real time, so equal runs give equal bits.
//
// With a pool of workers for prompts and another for outputs, disagg.go handles an instant in six steps, and handoffs.go carries
// out the actions of the coordinators of package handoff:
//
//  1. passes of either pool that end now: deferred actions are queued, the KV of computed prompts is held, requests leave
//  2. transfers that end now
//  3. requests that arrive now start their hand-offs
//  4. actions, one queue for all hand-offs: Submit, Reserve, StartTransfer, Activate, Release, Complete
//  5. idle prefill workers start passes, 6. idle decode workers do
//
// An action on a worker whose pass is running waits for its end. Room on a decode worker is looked for when it is asked
// for on an idle worker, at the end of each pass, and after each activation, for one request each time. The pools have a router
// of package router each, as a cluster has. When no further event is due, decode workers may let requests overtake those that wait
// for them; the reference reports a dead end there.
//
// Run chooses the loop. A run in which time cannot advance although work is left ends with an engine.DeadEnd.
package replay
