// Package online replays a workload on the clock: the workload, routers, engines and report of offline replay, with each
// engine on a goroutine of its own that sleeps through its passes.
//
//	dispatcher (one goroutine)                    worker (one goroutine each)
//	  workload.Driver: which requests are due
//	  router.Router: to which worker ------------> inbox -> Add
//	                                               RunPass, sleep until its end
//	  Collector, router, Driver <-- messages ----- what the pass did
//
// An arrival is recorded at the time when the request was due, so that a delay of the dispatcher counts as latency; an admission when
// its pass started; tokens and completions when their message arrives, which is never before their simulated time.
package online
