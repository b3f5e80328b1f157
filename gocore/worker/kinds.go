package worker

import (
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/engine/intake"
	"dynosim/gocore/engine/sglang"
	"dynosim/gocore/engine/sglangsrt"
	"dynosim/gocore/engine/vllm"
	"dynosim/gocore/engine/vllmv1"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// Kind is an engine that workers can have. Live workers want one that New returns to be an [engine.Reporter], too.
type Kind struct {
	New    func(engineargs.Args, engine.Setup) engine.Engine
	Traits func(engineargs.Args) engine.Traits
}

// selector is the arguments that choose the kind of an engine.
type selector struct {
	engineType engineargs.EngineType
	scheduler  engineargs.Scheduler
}

// kinds has a row for each engine. TensorRT-LLM differs from vLLM only in arguments.
var kinds = map[selector]Kind{
	{engineargs.VLLM, engineargs.Dynamo}:   {made(vllm.New), vllm.Traits},
	{engineargs.TRTLLM, engineargs.Dynamo}: {made(vllm.New), vllm.Traits},
	{engineargs.SGLang, engineargs.Dynamo}: {made(sglang.New), sglang.Traits},
	{engineargs.VLLM, engineargs.VLLMOwn}:  {made(vllmv1.New), vllmv1.Traits},

	{engineargs.SGLang, engineargs.SGLangOwn}: {made(sglangsrt.New), sglangsrt.Traits},
}

// made makes an engine.Engine of what a constructor returns.
func made[E engine.Engine](construct func(engineargs.Args, engine.Setup) E) func(engineargs.Args, engine.Setup) engine.Engine {
	return func(args engineargs.Args, setup engine.Setup) engine.Engine { return construct(args, setup) }
}

// Register adds the engine of a type that engineargs.AddEngineType has returned. It is for the init functions of packages
// that bring an engine along, and panics if the type has an engine.
func Register(t engineargs.EngineType, k Kind) {
	by := selector{t, engineargs.Dynamo}
	if _, taken := kinds[by]; taken {
		panic(fmt.Sprintf("worker: engine type %s has two engines", t))
	}
	kinds[by] = k
}

func kindOf(args engineargs.Args) Kind { return kinds[selector{args.EngineType, args.Scheduler}] }

// Traits are those of the engine that args ask for.
func Traits(args engineargs.Args) engine.Traits { return kindOf(args).Traits(args) }

// Check refuses roles that the engine does not have.
func Check(args engineargs.Args) error {
	if args.Role == engine.Aggregated || Traits(args).HandsOff {
		return nil
	}
	return &strictjson.FieldError{
		Field: "worker_type", Got: args.Role.String(),
		Want: fmt.Sprintf("aggregated with engine_type %s, which has no hand-offs", args.EngineType),
	}
}

// New returns an idle worker with the engine that args ask for.
func New(args engineargs.Args, setup engine.Setup) Worker {
	knobs := args.Knobs
	setup.Model = knobs.Scaled(setup.Model)
	made := kindOf(args).New(args, setup)
	if knobs.RequestOverheadUs == 0 || setup.Role == engine.Decode {
		return Worker{Engine: made}
	}
	return Worker{Engine: intake.New(made, RequestDelayMs(args), args.BlockSize)}
}

// RequestDelayMs is how long a request is on its way to the scheduler of a worker that is the first to get it.
func RequestDelayMs(args engineargs.Args) float64 {
	if args.Knobs.RequestOverheadUs == 0 {
		return 0
	}
	clock := timing.Clock{Speedup: args.SpeedupRatio}
	return clock.Ms(args.Knobs.RequestOverheadUs / 1000)
}
