// Package rendezvous carries hand-offs between live workers over TCP: package bootstrap says what is said, this one has the
// sockets, the clock and the goroutines.
//
//	prefill worker                                            decode worker
//	request --Listener.Serve--+                               request --Connector.Run--+
//	                          |                                                        |
//	             bootstrap.Table  <-- Register -- connection <------------- dial ------+
//	                          |                                                        |
//	               converse(Source) <===== frames =====> converse(Destination)
//	                   |   ^                                    |   ^
//	                  Do   tell                                Do   tell
//	                   v   |                                    v   |
//	                  Engine                                   Engine
//
// Serve and Run return when the hand-off is over, nil if the destination has the request. Each is one goroutine that owns
// one session, and one that reads its connection. An [Engine] is the request in the engine of this side: it is asked, and
// tells later what has come of it.
//
// A decode worker may be there long before the request is here. Its connection then waits in the table, and so does a
// request whose decode worker is late. Neither waits for longer than thirty seconds.
//
// Peers may be anybody: what they send has a largest size and must come in time, connections that have not said who they
// are are limited in number, the oldest going first, and so are those that wait for a request. A peer that vanishes ends its
// hand-off, and with that frees the blocks it held here.
//
// Go sends small messages at once (TCP_NODELAY); a hand-off would otherwise wait some 40 ms for the peer's delayed
// acknowledgement.
package rendezvous
