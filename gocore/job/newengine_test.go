package job_test

import (
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/job"
	"dynosim/gocore/worker"
)

// static is an engine as another package might bring it along: it takes all requests that wait into one batch,
// generates until the last of them is done, and only then takes others. Each token of the batch takes 10 ms. It has no
// KV cache, no hand-offs and no fast path. docs/architecture.md, "How to add an engine type", shows it.
type static struct {
	waiting, batch []*state
	out            engine.Pass
	observed       bool
}

// state is what the engine knows of a request.
type state struct {
	engine.Request
	generated int
}

func init() {
	staticType := engineargs.AddEngineType(engineargs.TypeSpec{Name: "static", BlockSize: 16})
	worker.Register(staticType, worker.Kind{
		New:    func(engineargs.Args, engine.Setup) engine.Engine { return &static{} },
		Traits: func(engineargs.Args) engine.Traits { return engine.Traits{Independent: true} },
	})
}

func (s *static) Add(r engine.Request) { s.waiting = append(s.waiting, &state{Request: r}) }
func (s *static) Requests() int        { return len(s.waiting) + len(s.batch) }
func (s *static) Observe()             { s.observed = true }
func (s *static) Unblock() bool        { return false }

func (s *static) Cancel(id engine.RequestID) {
	isIt := func(r *state) bool { return r.ID == id }
	s.waiting, s.batch = slices.DeleteFunc(s.waiting, isIt), slices.DeleteFunc(s.batch, isIt)
}

func (s *static) RunPass(nowMs float64) (*engine.Pass, bool) {
	s.out = engine.Pass{StartMs: nowMs, EndMs: nowMs}
	if len(s.batch) == 0 {
		s.batch, s.waiting = s.waiting, nil
		for _, r := range s.batch {
			s.out.Admitted = append(s.out.Admitted, engine.Admission{ID: r.ID})
			s.out.Started = append(s.out.Started, engine.TokenRun{ID: r.ID})
		}
	}
	for _, r := range s.batch {
		r.generated++
		first, last := r.generated == 1, r.generated == r.OutputTokens
		if s.observed && (first || last) {
			s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.ID, Final: last})
		}
		if last {
			s.out.Finished = append(s.out.Finished, r.ID)
		}
	}
	s.out.Tokens, s.out.Scheduled = len(s.batch), len(s.batch)
	if s.out.Tokens > 0 {
		s.out.EndMs += 10
	}
	s.batch = slices.DeleteFunc(s.batch, func(r *state) bool { return r.generated == r.OutputTokens })
	return &s.out, true
}

func (s *static) States() []engine.RequestState {
	var all []engine.RequestState
	for _, r := range slices.Concat(s.batch, s.waiting) {
		all = append(all, engine.RequestState{
			ID: r.ID, State: "waiting", PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens,
			Generated: r.generated,
		})
	}
	return all
}

// TestNewEngineType: an engine that a package registers runs in all loops, with every built-in router, although
// it cannot coast.
func TestNewEngineType(t *testing.T) {
	const config = `{"kind":"trace","trace_files":["testdata/one_long_request.jsonl"],` +
		`"extra_engine_args":"{\"engine_type\":\"static\"}"`
	// The batch of the first request lasts 10 s; the others wait for its end and then need two tokens.
	for options, want := range map[string][]float64{
		``:                 {10_000, 9920, 9020, 8020},
		`,"num_workers":2`: {10_000, 20, 9020, 20}, // workers 0, 1, 0, 1
		`,"num_workers":2,"router_mode":"fewest_requests"`: {10_000, 20, 20, 20},
		`,"replay_concurrency":4`:                          {10_000, 20, 20, 20},
	} {
		e2e, _ := run(t, config+options+"}").Floats("e2e_latency_ms")
		if !slices.Equal(e2e, want) {
			t.Errorf("%s: requests took %v ms, want %v", options, e2e, want)
		}
	}
	const short = `{"kind":"synthetic","input_tokens":80,"output_tokens":2,"request_count":6,"num_workers":2,` +
		`"router_mode":"kv_router","extra_engine_args":"{\"engine_type\":\"static\"}","replay_mode":`
	for _, mode := range []string{`"offline"}`, `"online"}`} {
		if status, _ := run(t, short+mode).
			Strings("terminal_status"); !slices.Equal(status, slices.Repeat([]string{"completed"}, 6)) {
			t.Errorf("%s: requests are %q", mode, status)
		}
	}
	_, err := job.Run(`{"kind":"synthetic","input_tokens":8,"output_tokens":2,"request_count":3,`+
		`"router_mode":"kv_router",`+
		`"prefill_engine_args":"{\"engine_type\":\"static\",\"worker_type\":\"prefill\"}",`+
		`"decode_engine_args":"{\"engine_type\":\"static\",\"worker_type\":\"decode\"}"}`, &job.Monitor{})
	const want = "prefill_engine_args: worker_type: got prefill, want aggregated with engine_type static, which has " +
		"no hand-offs"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
