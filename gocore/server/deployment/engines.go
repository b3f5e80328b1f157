package deployment

import "time"

// Running is a request on its way, in this process ([Call]) or in another one ([Stream]). The goroutine that answers it waits for a
// note that it has come further and reads how far.
type Running interface {
	// Released is the number of tokens that may be sent.
	Released() int
	// Reused is the number of tokens of the prompt that were found in the cache.
	Reused() int
	// AdmittedAt is when the prompt began to be computed; the zero time if it has not.
	AdmittedAt() time.Time
	// DueAt is when the last of the released tokens was due.
	DueAt() time.Time
	// Failure is why the request has ended without all its tokens, nil if it has not. No tokens are released after it.
	Failure() *Failure
	// Cancel gives the request up. Nothing happens if it is over.
	Cancel()
}

var _ Running = (*Call)(nil)

// Remote has the requests for one model run by workers in other processes. What an answer says is not known before its tokens come.
type Remote interface {
	// Begin sends a request to a worker and returns at once. wake must have room for one note; it gets one whenever the answer has
	// come further. Several requests may share it.
	Begin(a Ask, wake chan<- struct{}) Stream
	// Waiting is the number of requests that no worker has begun to answer.
	Waiting() int
}

// Ask is what workers are told of a request.
type Ask struct {
	ID         string // by which logs of all processes name the request
	Prompt     []uint32
	Adapter    string // LoRA adapter, "" for the model itself
	Most       int    // tokens of the answer at most
	Fewest     int    // before which nothing ends it
	StopTokens []uint32
	IgnoreEnd  bool // whether the end-of-sequence tokens of the model end nothing
	Priority   int64
}

// Stream is an answer that comes from a worker.
type Stream interface {
	Running
	// Tokens are the released tokens from number from on. They must not be changed.
	Tokens(from int) []uint32
	// Finish is why the answer is complete: "length", or "stop" for a stop token or the end of a sequence, which is then the last token.
	// It is "" while more may come.
	Finish() string
}
