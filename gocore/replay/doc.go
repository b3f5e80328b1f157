// Package replay drives simulated workers through a workload in virtual time.
//
// Run chooses the loop. Package fleet has that of several workers or of pools of prefill and decode workers: world.go
// hands it the requests of a workload, record.go tells the report and the journal what happens. With one worker nothing
// else can happen while a pass runs, so single.go simply runs pass after pass. Workers that take the requests of a
// trace without sessions in turn do not depend on each other at all, and run one after the other or at the same time,
// each in the loop of single.go (independent.go; with a limit, as a fleet of one).
//
// What goes wrong in a run are hooks of the pools of its fleet: faults.go sets them, faultscript.go has the script
// carried out, faultworkers.go knows in which condition workers are, and faultrequests.go leads every request to its
// end.
package replay
