// Package rendezvous carries hand-offs between live workers over TCP. Package bootstrap decides which messages are
// sent; this one has the sockets, the clock and the goroutines.
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
// Serve and Run return when the hand-off is over, nil if the destination has the request. Each is one goroutine that
// owns one session, and one that reads its connection. An [Engine] is the request in the engine of this side: it is
// asked to do something, and reports later what has come of it.
//
// A decode worker may connect long before the request has reached the prefill worker. Its connection then waits in the
// table, and so does a request whose decode worker is late. Neither waits for longer than thirty seconds.
//
// Peers are not trusted: their messages have a largest size and must arrive in time. Connections that have not
// introduced themselves are limited in number, and so are those that wait for a request; if there are too many, the
// oldest is closed. If a peer disappears, its hand-off ends, which frees the blocks of the request here.
//
// Go sends small messages at once (TCP_NODELAY); a hand-off would otherwise wait some 40 ms for the peer's delayed
// acknowledgement.
package rendezvous
