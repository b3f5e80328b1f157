package replay

import (
	"errors"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

// StageRouter chooses the workers of one stage of a disaggregated run. What its methods return are requests that may go to
// their workers now, in this order: usually the one just submitted, possibly none of them now and several later. The slice
// is valid until the next call. An error ends the run.
type StageRouter interface {
	// Submit routes a request. For prefill workers that is when its prompt is to be computed, for decode workers when room
	// is needed for it.
	Submit(req engine.Request, nowMs float64) ([]Admission, error)

	// PrefillCompleted tells that the prompt of a request has been computed. Only the router of prefill workers is told.
	PrefillCompleted(id engine.RequestID, nowMs float64) ([]Admission, error)

	// Free tells that a request has left: for prefill workers when its hand-off is complete, for decode workers with its
	// last token.
	Free(id engine.RequestID, nowMs float64) ([]Admission, error)

	// Cancel tells that the hand-off of a request has failed, whether it has been admitted or still waits. It may come
	// twice, or for a request that was never submitted.
	Cancel(id engine.RequestID, nowMs float64) ([]Admission, error)

	// Apply tells what a worker has stored in its cache and removed. Only the router of prefill workers is told.
	Apply(worker int, events []kvcache.Event)
}

// Admission sends a request to a worker.
type Admission struct {
	ID            engine.RequestID
	Worker        int
	OverlapTokens int // of the prompt, that the router takes to be cached there, in whole blocks
}

// inTurn hands requests to the workers of a stage in turn, at once.
type inTurn struct {
	router   router.RoundRobin
	workers  int
	admitted [1]Admission
}

func (t *inTurn) Submit(req engine.Request, _ float64) ([]Admission, error) {
	t.admitted[0] = Admission{ID: req.ID, Worker: t.router.Pick(t.workers)}
	return t.admitted[:], nil
}

func (t *inTurn) PrefillCompleted(engine.RequestID, float64) ([]Admission, error) { return nil, nil }
func (t *inTurn) Free(engine.RequestID, float64) ([]Admission, error)             { return nil, nil }
func (t *inTurn) Cancel(engine.RequestID, float64) ([]Admission, error)           { return nil, nil }
func (t *inTurn) Apply(int, []kvcache.Event)                                      {}

// kvStage is the KV-aware router of one stage.
type kvStage struct {
	kv        *router.KV
	w         *workload.Workload
	blockSize int
	admitted  []Admission
}

// NewKVStage returns a KV-aware router for one stage of a run of w.
func NewKVStage(options router.Options, w *workload.Workload) StageRouter {
	return &kvStage{kv: router.New(options), w: w, blockSize: options.BlockSize}
}

func (k *kvStage) Submit(req engine.Request, nowMs float64) ([]Admission, error) {
	return k.admissions(k.kv.Submit(RouterRequest(req, k.w), nowMs))
}

func (k *kvStage) PrefillCompleted(id engine.RequestID, nowMs float64) ([]Admission, error) {
	return k.admissions(k.kv.PrefillCompleted(int32(id), nowMs))
}

func (k *kvStage) Free(id engine.RequestID, nowMs float64) ([]Admission, error) {
	return k.admissions(k.kv.Free(int32(id), nowMs))
}

func (k *kvStage) Cancel(id engine.RequestID, nowMs float64) ([]Admission, error) {
	return k.admissions(k.kv.Cancel(int32(id), nowMs))
}

func (k *kvStage) Apply(worker int, events []kvcache.Event) { k.kv.Apply(worker, events) }

func (k *kvStage) admissions(admitted []router.Admission, err error) ([]Admission, error) {
	k.admitted = k.admitted[:0]
	for _, a := range admitted {
		k.admitted = append(k.admitted, Admission{
			ID:            engine.RequestID(a.ID),
			Worker:        a.Worker,
			OverlapTokens: a.OverlapBlocks * k.blockSize,
		})
	}
	return k.admitted, NameRequest(err, k.w)
}

// RouterRequest is what a KV-aware router needs to know of a request.
func RouterRequest(req engine.Request, w *workload.Workload) router.Request {
	hints := w.Hints[int32(req.ID)]
	return router.Request{
		ID:             int32(req.ID),
		Prompt:         req.Prompt,
		PromptTokens:   req.PromptTokens,
		Priority:       int64(hints.Priority),
		StrictPriority: uint64(hints.StrictPriority),
	}
}

// NameRequest gives the request in an error of the router the name that messages use.
func NameRequest(err error, w *workload.Workload) error {
	if err == nil { // asked for every admission
		return nil
	}
	var pin *router.PinError
	if errors.As(err, &pin) {
		pin.Name = w.TurnName(pin.ID)
	}
	return err
}
