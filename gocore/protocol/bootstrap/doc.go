// Package bootstrap is the conversation by which a live prefill worker, the source, hands the KV of a prompt over to a live
// decode worker, the destination: the bytes, the two sides as state machines, and the table in which the sides find each
// other. It sees no socket and no clock; package rendezvous has those.
//
// The frontend sends a request to both workers, and tells both where the source listens. The destination connects, and
// either may be there first:
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
// A frame is a length of four bytes, least significant first, and JSON (frame.go, message.go). Each carries the Identity of
// the hand-off, which never changes within a connection.
//
// The source decides what happens next: Source is a handoff.Coordinator, the one of offline replay, whose actions for the
// destination travel, and whose actions for its own engine are a Step's Do. Its actions are numbered from 0, those that do
// not travel included. Destination carries out one action at a time and acknowledges it; an acknowledged action that
// comes again is acknowledged again.
//
// Both sides are fed with messages of the peer (Receive), what the engine has done (Tell), time (Tick at WakeMs) and the
// two ways to lose interest: Cancel, the client is gone, and Lost, the peer is. Each answer is a Step: what to send, what the
// engine is to do, and whether this was the end. Whatever goes wrong, the engine is told to cancel before a session ends, so
// no blocks stay behind.
package bootstrap
