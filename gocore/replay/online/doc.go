// Package online replays a workload on the clock: the workload, routers, engines and report of offline replay, with each
// engine on a goroutine of its own that sleeps through its passes.
//
//	desk (one goroutine)                          worker (one goroutine each)
//	  workload.Driver: whose time has come
//	  router.Router: to which worker ------------> inbox -> Add
//	                                               RunPass, sleep until its end
//	  Collector, router, Driver <-- messages ----- what the pass did
//
// Arrivals are recorded at the time they were due, so that being late counts as latency; admissions when their pass started;
// tokens and completions when the dispatcher hears of them, which is never before their simulated time.
package online
