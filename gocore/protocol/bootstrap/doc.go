// Package bootstrap is the protocol by which a live prefill worker, the source, hands the KV of a prompt over to a live
// decode worker, the destination: the bytes, the two sides as state machines, and the table in which the sides find
// each other. It has no socket and no clock; those are in package live/rendezvous.
//
// The frontend sends a request to both workers, with the address at which the source listens. The destination connects;
// the request may have reached the source before or not:
//
//	destination                                      source
//	DMHF 1 0, Register  ---------------------------> Table: wait for the other half, at most 30 s
//	                    <--------------------------- Registered
//	                                                 (vLLM: Submit here, and Held before Reserve)
//	Reserve in engine   <--------------------------- Action k ReserveDestination
//	                    ---------------------------> ActionAck k Accepted
//	room found          ---------------------------> Fact DestinationReserved
//	                                                 (SGLang: Submit here)
//	                    <--------------------------- Fact SourceHeld: the prompt is computed
//	                                                 the transfer takes its time
//	Activate in engine  <--------------------------- Action k ActivateDestination
//	                    ---------------------------> ActionAck k Applied
//	decode                                           Release in engine
//	                    <--------------------------- Complete
//
// A frame is a length of four bytes, least significant first, and JSON (frame.go, message.go). Each carries the
// Identity of the hand-off, which never changes within a connection.
//
// The source decides what happens next: Source has the handoff.Coordinator that offline replay uses, too. It sends the
// actions for the destination as messages; actions for its own engine are the Do of a Step. All actions are numbered
// from 0, also those that are not sent. Destination carries out one action at a time and acknowledges it. An
// acknowledged action that arrives again is acknowledged again.
//
// The inputs of both sides are messages of the peer (Receive), what the engine has done (Tell), time (Tick at WakeMs),
// and the end of the connection to the client (Cancel) or the peer (Lost). Each returns a Step: what to send, what the
// engine is to do, and whether the session is over. After an error, the engine is asked to cancel before the session
// ends, so that no blocks stay taken.
package bootstrap
