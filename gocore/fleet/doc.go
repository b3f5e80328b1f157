// Package fleet is the event loop of a deployment in virtual time: pools of workers behind routers, and what happens to
// requests on their way through them. Package replay gives it a workload, package server/cluster requests from outside.
//
//	fleet.go      Fleet, World (where requests come from), the order of an instant
//	pool.go       Pool: workers that are alike, and their router
//	coast.go      workers that run many passes at once
//	flow.go       the way of requests through the pools, and what all ways have in common
//	direct.go     of requests that one worker serves
//	handoffs.go   of those whose KV goes from a prefill worker to a decode worker
//	lifecycle.go  workers that start and drain; scaler.go has a planner decide on them, tally.go counts for it
//	pulls.go      of those whose KV decode workers load by their engine's own rules
//	transfer.go   transfers of both kinds, whose speed may change
//	open.go       requests that come from outside and may be taken back: what a server needs
//	keepers.go    routers that keep requests although workers are idle, want to know the time, or refuse requests
//	hooks.go      Recorder (what is recorded of a run), Faults and Hooks (what may go wrong), what faults do to pools
//
// The clock is one float64 in milliseconds. It never sleeps; it jumps to the next instant at which something happens.
// There [Fleet.round] takes these steps, again and again until nothing changes any more:
//
//  1. passes that end now: tokens are seen, the KV of computed prompts is held, requests leave, next turns are due
//  2. workers whose start-up ends now become active
//  3. transfers that end now
//  4. faults, once everything has ended that ends now
//  5. requests that arrive now go to routers, or start their hand-offs
//  6. actions of hand-offs, one queue for all: Submit, Reserve, StartTransfer, Activate, Release, Complete
//  7. idle workers start passes, pool by pool, lowest number first
//
// Then drained workers go, and a tick of the planner comes. The order matters: a slot freed at an instant is filled
// again at that instant, and the new request joins the pass that starts then. What a worker does never depends on map
// order, threads or real time, so equal runs give equal bits.
//
// An action on a worker whose pass is running waits for its end. Room on a decode worker is looked for when it is asked
// for on an idle worker, at the end of each pass, and after each activation, for one request each time. When no further
// event is due, workers may let requests overtake those that wait for them; the reference reports a dead end there.
//
// A run in which time cannot advance although work is left ends with an engine.DeadEnd.
package fleet
