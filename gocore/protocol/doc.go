// Package protocol has no code. The packages below it are what live workers and the other parts of a Dynamo 1.3.1
// deployment agree on: documents, frames and messages, to the byte. Another release of Dynamo may change them, and
// nothing else here.
//
//	discovery  the records by which frontends, workers and subscribers find each other
//	card       the model card, from which a frontend serves a model
//	wire       requests and answers between a frontend and a worker
//	bootstrap  the hand-off of a prompt's KV from a prefill worker to a decode worker
//
// They convert and decide. Sockets, clocks and goroutines are those of package live and the packages below it, which
// import these and are never imported by them. The messages of the event plane are in live/publish/events, as only
// package publish sends them.
package protocol
