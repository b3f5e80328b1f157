package live

import (
	"math"
	"sync/atomic"

	"dynosim/gocore/engines/emission"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/protocol/bootstrap"
)

// request is one request of an engine. The goroutine that answers it reads what the engine goroutine releases.
type request struct {
	prompt       []uint32 // nil once it has been named
	salt         string   // of its cache, "" for none
	promptTokens int
	output       output

	released atomic.Int32 // tokens that may be sent
	// tokens of the prompt that the engine has found in its cache; known when released is not 0
	cached  atomic.Int32
	onRank  int                     // the data-parallel rank that its router has chosen, from 1; 0 for none
	rank    atomic.Pointer[rank]    // known when released is not 0
	dueMs   atomic.Uint64           // bits of the simulated time of the last of them
	failure atomic.Pointer[failure] // why the request has ended without all of them
	wake    chan struct{}           // released or failure has changed; has room for one

	// What follows belongs to the engine goroutine.
	state        emission.State // its last tokens are not released before the pass has ended
	blocks       kvcache.Prompt
	admitted     bool
	over         bool
	held         bool                 // its KV stays after the last token, for the transfer
	awaitsAction bool                 // counted in runner.awaiting
	tell         func(bootstrap.Fact) // its hand-off, nil if there is none
}

// Emission implements [emission.Request].
func (r *request) Emission() *emission.State { return &r.state }

// failure is the end of a request without all its tokens.
type failure struct {
	reason string
	// elsewhere means that another worker may be able to serve the request.
	elsewhere bool
}

func newRequest(prompt []uint32, o output) *request {
	return &request{prompt: prompt, promptTokens: len(prompt), output: o, wake: make(chan struct{}, 1)}
}

// release makes n more tokens available to the client, which were emitted at a simulated time.
func (r *request) release(n int, atMs float64) {
	r.dueMs.Store(math.Float64bits(atMs))
	r.released.Add(int32(n))
	r.notify()
}

// end tells the client that no more tokens will come.
func (r *request) end(f failure) {
	r.failure.Store(&f)
	r.notify()
}

// fail tells the client and the hand-off. Only the engine goroutine does that.
func (r *request) fail(f failure) {
	r.end(f)
	if r.tell != nil {
		r.tell(bootstrap.Fact{Kind: bootstrap.Failed, Reason: f.reason})
	}
}

func (r *request) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
