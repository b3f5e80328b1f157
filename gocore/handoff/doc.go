// Package handoff is the protocol by which a request moves from the worker that computed its prompt, the source, to the
// worker that generates its output, the destination.
//
// A Coordinator is the state of the hand-off of one request. It does nothing by itself: its owner carries out the
// action that it asked for last, and tells it the fact that answers the action. Each fact leads to at most one action.
//
//	action             fact that answers it     meaning
//	Submit             SourceHeld               the prompt is computed, its KV stays on the source
//	Reserve            DestinationReserved      the destination has blocks for the prompt
//	StartTransfer      Transferred              the KV has been copied
//	Activate           Activated                the destination may run the request
//	Release            SourceReleased           the source has given the KV back
//	Complete           -                        the hand-off is over
//
// The actions come in this order, source first. Destination first, Reserve comes before Submit, so that nothing is
// computed before there is a place for it.
//
//	          +-- source first: Submit --> Reserve --+
//	start ----+                                      +--> StartTransfer --> Activate --> Release --> Complete
//	          +-- destination first: Reserve --> Submit
//
//	Failed or Canceled, at any time:  CancelSource (if Submit was asked for)
//	                                  --> CancelDestination (if Reserve was) --> Complete
//
// Offline replay and live workers use the same Coordinator. What differs is how long an answer takes, and Transfer says
// that for the copy itself.
package handoff
