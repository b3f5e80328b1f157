// Package publish sends the messages of one worker on the event plane. It has the sockets and clocks around package
// events.
//
//	engine loop of rank r                        sockets of the worker
//	  Cache(r, changes)  -- Feed r ------------> PUB kv-events, one for each rank          RouterEvent
//	                    \-- Native r ----------> PUB at NativePort + r, if asked for       vLLM's own format
//	  Pass(r, work, s)   -- PassCounter r -----> PUB forward-pass-metrics                  ForwardPass
//	  Load(r, blocks)    -- LoadGauge r -------> PUB kv_metrics                            ActiveLoad
//	request plane
//	  Answer(r, query)   <- Feed r
//	subscribers of vLLM's format
//	  ROUTER at ReplayPort + r, if asked for <-- Native r
//
// Start binds all sockets and fails if a port is taken. Channels lists what discovery records have to contain, by which
// routers find the sockets. Then each engine loop reports what it does; no call waits for a subscriber. One goroutine
// of the worker sends what is due later: loads that have changed, and heartbeats of ranks that run no passes.
//
// Instead of sockets of its own a worker may have a NATS server carry its messages: bare envelopes, on a subject for
// each topic. KV events may go to a stream of JetStream, which keeps them for routers that come later; these are JSON
// without envelopes. outlet.go has the three ways.
//
// After a pass, in this order: Cache as soon as its events are visible, then when it ends Pass, the tokens to the
// clients, and Load.
package publish
