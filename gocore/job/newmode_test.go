package job_test

import (
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/job"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// fewest is a routing mode as another package might bring it along: each request goes to the worker with the fewest
// requests, of several to the one with the lowest index. docs/architecture.md, "How to add a routing mode", shows it.
type fewest struct {
	requests []int         // by worker
	workers  map[int32]int // by request
	admitted [1]router.Admission
}

func newFewest(o router.Options) router.Router {
	return &fewest{requests: make([]int, o.Workers), workers: map[int32]int{}}
}

func init() {
	router.Register(router.Mode{Name: "fewest_requests", New: newFewest})
}

func (*fewest) Traits() router.Traits { return router.Traits{} }

func (f *fewest) Submit(r router.Request, _ float64) ([]router.Admission, error) {
	to := slices.Index(f.requests, slices.Min(f.requests))
	f.requests[to]++
	f.workers[r.ID] = to
	f.admitted[0] = router.Admission{ID: r.ID, Worker: to}
	return f.admitted[:], nil
}

func (*fewest) PrefillCompleted(int32, float64) ([]router.Admission, error) { return nil, nil }

func (f *fewest) Free(id int32, _ float64) ([]router.Admission, error) {
	if worker, active := f.workers[id]; active {
		f.requests[worker]--
		delete(f.workers, id)
	}
	return nil, nil
}

func (f *fewest) Cancel(id int32, nowMs float64) ([]router.Admission, error) {
	return f.Free(id, nowMs)
}

func (*fewest) Apply(int, []kvcache.Event) {}

// run carries out a job that must succeed.
func run(t *testing.T, config string) *job.Result {
	t.Helper()
	result, err := job.Run(config, &job.Monitor{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestNewRoutingMode: a mode that a package registers is chosen by its name, in runs of one pool and of two, on the
// virtual clock and on the real one.
func TestNewRoutingMode(t *testing.T) {
	// The first request is long. Its worker gets no other one while the short ones come and go.
	const lengths = `{"kind":"trace","trace_files":["testdata/one_long_request.jsonl"],"router_mode":"fewest_requests",`
	workers, _ := run(t, lengths+`"num_workers":2}`).Ints("decode_worker_idx")
	if want := []int64{0, 1, 1, 1}; !slices.Equal(workers, want) {
		t.Errorf("workers %v, want %v", workers, want)
	}
	inTurn, _ := run(t, strings.Replace(lengths, "fewest_requests", "round_robin", 1)+`"num_workers":2}`).
		Ints("decode_worker_idx")
	if want := []int64{0, 1, 0, 1}; !slices.Equal(inTurn, want) {
		t.Errorf("in turn: workers %v, want %v", inTurn, want)
	}
	pools := run(t, lengths+`"num_decode_workers":2,"prefill_engine_args":"{\"worker_type\":\"prefill\"}",`+
		`"decode_engine_args":"{\"worker_type\":\"decode\"}"}`)
	if workers, _ := pools.Ints("decode_worker_idx"); !slices.Equal(workers, []int64{0, 1, 1, 1}) {
		t.Errorf("two pools: decode workers %v", workers)
	}
	online := run(t,
		lengths+`"num_workers":2,"replay_mode":"online","arrival_speedup_ratio":50,`+
			`"extra_engine_args":"{\"speedup_ratio\":1000}"}`)
	if workers, _ := online.Ints("decode_worker_idx"); len(workers) != 4 {
		t.Errorf("on the clock: workers %v", workers)
	}
}
