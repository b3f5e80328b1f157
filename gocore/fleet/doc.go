// Package fleet is the event loop of a deployment in virtual time: pools of workers behind routers, and what happens to
// requests on their way through them. Package replay gives it a workload, package server/cluster requests from outside.
//
//	fleet.go      Fleet, World (where requests come from), the order of an instant
//	pool.go       Pool: workers that are alike, and their router
//	targets.go    what the router chooses from: workers, or their data-parallel ranks
//	coast.go      coasting: passes of a worker that nothing else can affect are computed in one step, to save time;
//	              innerends.go has the next of their ends
//	flow.go       flow: how requests go through the pools, with one implementation for each of the next four files
//	direct.go     one pool: a single worker serves a request
//	handoffs.go   two pools by Dynamo's rules: package handoff moves the KV from a prefill to a decode worker
//	pulls.go      two pools by vLLM's own rules: decode workers load the KV of computed prompts
//	pushes.go     two pools by SGLang's: prefill workers send it to where decode workers have taken room before
//	transfer.go   transfers of KV in both cases, whose speed may change
//	lifecycle.go  workers that start and drain; startup.go draws start-up times, scaler.go asks the planner, tally.go
//	              counts for it
//	open.go       requests that come from outside and may be withdrawn: what a server needs
//	keepers.go    routers with a queue of their own (Traits.Keeps), timers of routers (Ticker), requests that they refuse
//	hooks.go      Recorder (what is recorded of a run), Faults and Hooks (what may go wrong), what faults do to pools
//
// The clock is one float64 in milliseconds. It never sleeps; it jumps to the next instant at which something happens.
// There [Fleet.round] takes these steps, again and again until nothing changes any more:
//
//  1. passes that end now: tokens are seen, the KV of computed prompts is held, requests leave, next turns are due
//  2. workers whose start-up ends now become active
//  3. transfers that end now
//  4. faults, once everything has ended that ends now
//  5. timers of routers that are due
//  6. requests that arrive now go to routers, or start their hand-offs
//  7. the flow acts: with handoffs.go one queue of Submit, Reserve, StartTransfer, Activate, Release and Complete; with
//     pulls.go computed prompts go to the router of the decode workers, with pushes.go requests that have a prefill
//     worker
//  8. idle workers start passes, pool by pool, lowest number first
//
// Then drained workers go, and a tick of the planner comes. The order matters: a slot freed at an instant is filled
// again at that instant, and the new request joins the pass that starts then. What a worker does never depends on map
// order, threads or real time, so equal runs give equal bits.
//
// An action on a worker whose pass is running waits for the end of that pass. A hand-off by Dynamo's rules reserves
// blocks on a decode worker before its KV is sent. The fleet tries to reserve them when the hand-off asks, if the
// worker is idle, again at the end of each of its passes, and after each Activate; every try is for one request. When
// no other event is due, a request that finds no room may be overtaken by the next one; ai-dynamo reports a deadlock
// there.
//
// A run in which time cannot advance although work is left ends with an engine.DeadEnd.
package fleet
