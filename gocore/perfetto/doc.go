// Package perfetto writes traces that ui.perfetto.dev shows: files of TrackEvent messages in protobuf.
//
// A trace is a list of packets in any order. Each belongs to a sequence, which has its own table of names: the first
// packet that uses a name defines its number, later ones give the number alone.
//
//	track "workers"                  a track may have tracks below it
//	  track "worker 0"
//	    track "passes"               slices: Begin and End, properly nested on one track
//	    track "KV blocks"            a counter: Count
//
// Flows are arrows between slices: all slices that name the same flow are joined in the order of time.
//
// A sequence is bytes that grow; nothing here opens a file. Several sequences may be written at the same time, each by
// one goroutine. Their bytes, one after the other, are a trace.
//
// The numbers of fields are those of protos/perfetto/trace in Perfetto's repository; tests read traces back with the
// messages of the Python package perfetto.
package perfetto
