// Package replay drives simulated workers through a workload in virtual time.
//
// The clock is one float64 in milliseconds. It never sleeps; it jumps to the next instant at which something happens.
// Two loops exist. With one worker nothing else can happen while a pass runs, so single.go simply runs pass after pass.
// With several, cluster.go keeps the ends of running passes in a heap and settles one instant after the other, in this
// order, until nothing changes any more:
//
//  1. passes that end now are applied: tokens seen, finished requests gone, next turns scheduled
//  2. requests that arrive now are routed to workers
//  3. idle workers start passes, lowest index first
//
// The order matters: a slot freed at an instant is refilled at that instant, and the newcomer joins the very pass that
// starts then. What one worker does never depends on map order, threads or real time, so equal runs give equal bits.
//
// Run chooses the loop. A run in which time cannot advance although work is left ends with an engine.DeadEnd.
package replay
