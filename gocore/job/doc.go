// Package job is the shell around offline replay: it runs one request of a user from its JSON description to its
// result.
//
//	JSON --Parse--> Spec --load--> run --check, simulate, report--> Result (report, warnings, rows)
//
// Everything that touches the outside world on the Go side is here: opening traces, the wall clock, writing the
// per-request file, progress and cancellation. Errors have a Kind, which decides the exception and the exit code that a
// user sees.
//
// A run may need the AIC SDK, which only Python has: it asks through Monitor.Ask and waits (aic.go).
//
// table.go has all options, from which the Python shell is generated, too. spec.go turns the description
// into a typed Spec, which all later stages read: load.go opens traces, job.go runs, ineffective.go warns, result.go is
// what Python reads.
package job
