// Package zmtp is a part of ZeroMQ over TCP: PUB sockets, which publish messages, SUB sockets, which hear them, and
// ROUTER sockets, which answer requests.
//
//	Send ---> queue of subscriber A ---> connection      bounded: a subscriber that reads too slowly loses messages,
//	    \---> queue of subscriber B ---> connection      one that stops reading for 30 s is disconnected
//
// It speaks ZMTP 3.0 without security, as every libzmq since 4.0 does: a greeting of 64 bytes, a READY command with the
// type of the socket, then messages, each of one or more frames. Subscriptions come as messages, or from peers that
// speak 3.1 in spite of our greeting as commands; both are understood.
//
// Why not a library: these ports are open to the network, and a simulator must survive whatever arrives there. The only
// pure Go library (go-zeromq/zmq4 0.17, which the tests use as the other side) accepts one peer at a time, so a peer
// that connects and sends nothing keeps all later ones out. It allocates as many bytes as a frame promises before they
// arrive, so ten bytes can end the process. And it sends to one subscriber after the other.
//
// This package guarantees, whatever peers send:
//
//   - Send never waits, and costs nothing if no subscriber wants the topic.
//   - A peer has ten seconds to introduce itself, may send frames of 1 KiB at most, and cannot slow down another one.
//   - The queue of each subscriber is bounded in messages and bytes, and so is the number of peers.
//   - Close takes no longer than a second.
//
// wire.go has greeting, frames and commands; server.go accepts peers; pub.go and router.go are the sockets that listen,
// sub.go the one that connects.
package zmtp
