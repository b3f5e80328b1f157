package worker

import (
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestKinds: every engine that arguments can ask for exists, and can do what its traits say.
func TestKinds(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"engine_type":"sglang"}`, `{"engine_type":"trtllm"}`, `{"scheduler":"vllm"}`,
		`{"worker_type":"prefill"}`, `{"worker_type":"decode"}`,
		`{"engine_type":"sglang","worker_type":"prefill"}`, `{"engine_type":"sglang","worker_type":"decode"}`,
		`{"scheduler":"vllm","worker_type":"prefill","request_overhead_us":5}`,
		`{"scheduler":"vllm","worker_type":"decode"}`,
		`{"engine_type":"sglang","scheduler":"sglang"}`,
		`{"engine_type":"sglang","scheduler":"sglang","worker_type":"prefill","request_overhead_us":5}`,
		`{"engine_type":"sglang","scheduler":"sglang","worker_type":"decode"}`,
	} {
		args := enginetest.Args(t, text)
		if err := Check(args); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		made := New(args, engine.Setup{Role: args.Role}).Engine
		_, source := made.(engine.Source)
		_, destination := made.(engine.Destination)
		if hands := Traits(args).Handoff == engine.Coordinated; hands && !(source && destination) {
			t.Errorf("%s: hands off %t, source %t, destination %t", text, hands, source, destination)
		}
		if _, pulls := made.(engine.Puller); Traits(args).Handoff == engine.Pulled && !pulls {
			t.Errorf("%s: cannot hand off by its own rules", text)
		}
		if _, pushes := made.(engine.Pusher); Traits(args).Handoff == engine.Pushed && !pushes {
			t.Errorf("%s: cannot hand off by its own rules", text)
		}
		if _, reports := made.(engine.Reporter); !reports {
			t.Errorf("%s: cannot be used by live workers", text)
		}
	}
	args := engineargs.Default()
	args.EngineType, args.Scheduler, args.Role = engineargs.TRTLLM, engineargs.SGLangOwn, engine.Prefill
	alone := selector{args.EngineType, args.Scheduler}
	kinds[alone] = Kind{Traits: func(engineargs.Args) engine.Traits { return engine.Traits{} }}
	defer delete(kinds, alone)
	if err := Check(args); err == nil || !strings.Contains(err.Error(), "worker_type: got prefill, want aggregated") {
		t.Errorf("got %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an engine type got two engines")
		}
	}()
	Register(engineargs.VLLM, Kind{})
}
