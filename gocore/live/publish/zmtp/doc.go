// Package zmtp is the server half of ZeroMQ over TCP: PUB sockets that announce, and ROUTER sockets that answer.
//
//	Send ---> queue of subscriber A ---> connection      bounded: a subscriber that reads too slowly loses messages,
//	    \---> queue of subscriber B ---> connection      one that stops reading for 30 s is disconnected
//
// It speaks ZMTP 3.0 without security, as every libzmq since 4.0 does: a greeting of 64 bytes, a READY command with the
// type of the socket, then messages, each of one or more frames. Subscriptions come as messages, or from peers that
// speak 3.1 in spite of our greeting as commands; both are understood.
//
// Why not a library: these ports are open to the network, and a simulator must survive what comes in. The one library
// there is in Go (go-zeromq/zmq4 0.17, which the tests use as the other side) accepts one peer at a time, so that a peer
// that connects and says nothing keeps all later ones out; it allocates what a frame's length says before the frame is
// there, so that ten bytes end the process; and it sends to one subscriber after the other.
//
// What holds here, whatever peers send:
//
//   - Send never waits, and costs nothing if nobody wants the topic.
//   - A peer has ten seconds to introduce itself, may send frames of 1 KiB at most, and cannot slow down another one.
//   - What waits for a subscriber is bounded in messages and bytes, and so is the number of peers.
//   - Close takes no longer than a second.
//
// wire.go has greeting, frames and commands; server.go accepts peers; pub.go and router.go are the two sockets.
package zmtp
