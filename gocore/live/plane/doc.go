// Package plane is the request plane of a process: it takes requests from frontends, hands them to the endpoints of the
// workers of this process, and carries the answers back.
//
//	frontend == request ==> TCP or HTTP --admit--> Limiter --> Handler of the endpoint
//	frontend <== ack ======    |                                  |
//	frontend <== Accept, Output ..., Finish ======== Reply <------+
//
// A [Plane] holds what all workers of a process share: the endpoints by path, and one limiter. [TCP] is the way a
// Dynamo frontend knows: a request is acknowledged on the connection it came on, and answered on one that the worker
// dials back. [HTTP] serves the same handlers to curl: an answer is a stream of JSON lines.
//
// Every request gets an answer. Whatever goes wrong after the acknowledgement (an unknown endpoint, a body that cannot
// be read, a panic) is reported to the frontend, as long as the request contains the frontend's address.
//
// Peers are not trusted. Requests have a largest size, must arrive in time, and count against a budget of memory until
// they are decoded (budget.go); connections and requests are limited in number. A peer that does not read its answer
// delays no other peer, and is disconnected after a while.
package plane
