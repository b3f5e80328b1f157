// Package wire is the request plane in bytes: the messages of a Dynamo frontend and a worker about one request. It only
// converts; package plane has the sockets.
//
//	frontend --Frame--> worker      path, headers, payload; answered by one Ack each, in order
//	   payload = Message{Control, Request}
//	worker --connects to Control's address--> frontend
//	   Message{Handshake}           which stream this is
//	   Message{Prologue}            "accepted", or why not
//	   Message{data Item} ...       tokens
//	   Message{data final}, Message{"sentinel"}
//	frontend --Message{"stop" or "kill"}--> worker, on the same connection at any time
//
// Both directions consist of Messages: a header, a body, or both, each with its length. Numbers are big-endian.
// Control headers are JSON always; bodies are JSON or MessagePack, as the request says ([Codec]).
//
// Decoders do not trust what peers have sent: they bound every length before they allocate, and return errors. Start
// reading at frame.go.
package wire
