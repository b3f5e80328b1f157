// Package events has the messages of workers to routers and planners: what is cached, the load, and what passes did.
//
// It only computes: changes and times go in, messages come out. Package publish has the sockets and clocks.
//
//	blocks.Change ---> Feed -------> RouterEvent --\
//	              \                                 >--> Envelope --> ZeroMQ frames of the event plane
//	load ----------|-> LoadGauge --> ActiveLoad ---/
//	passes --------|-> PassCounter-> ForwardPass -/
//	               \-> Native -----> NativeMessage ----> ZeroMQ frames of vLLM's own format
//	Query ---> Feed.Answer ---> Answer: events missed, or everything that is cached
//
// Each rank of a worker has a Feed, LoadGauge, PassCounter and Native of its own. All messages are MessagePack and
// equal those of the reference to the last byte, with these exceptions, all on purpose:
//
//   - The load of a rank is reported whatever other ranks do; the reference keeps one slot for all ranks of a worker
//     and loses what is overwritten within a millisecond.
//   - Engine-native events have nil where the reference leaves a field out. That omission shifts the fields behind it,
//     so that subscribers of the reference refuse every removal.
//   - A dump of everything is always made from what is cached now; the reference sends the events themselves while it
//     still has all of them.
//
// Decoders skip unknown members, never allocate more than has arrived, and refuse everything else with an error.
//
// routerevent.go has the KV events, envelope.go their envelope, and feed.go makes them from the changes of an engine;
// index.go and recovery.go help routers that have missed some; load.go, forwardpass.go and native.go are the other
// messages.
package events
