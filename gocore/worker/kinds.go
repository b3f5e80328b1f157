package worker

import (
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	mockersglang "dynosim/gocore/engines/mocker/sglang"
	mockervllm "dynosim/gocore/engines/mocker/vllm"
	"dynosim/gocore/engines/sglang"
	"dynosim/gocore/engines/vllm"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
	"dynosim/gocore/worker/intake"
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
	{engineargs.VLLM, engineargs.Dynamo}:   {made(mockervllm.New), mockervllm.Traits},
	{engineargs.TRTLLM, engineargs.Dynamo}: {made(mockervllm.New), mockervllm.Traits},
	{engineargs.SGLang, engineargs.Dynamo}: {made(mockersglang.New), mockersglang.Traits},
	{engineargs.VLLM, engineargs.VLLMOwn}:  {vllmOwn, vllm.Traits},

	{engineargs.SGLang, engineargs.SGLangOwn}: {sglangOwn, sglang.Traits},
}

// vllmOwn returns a scheduler, or a group of them if there are several ranks. vLLM 0.28 counts the passes of a wave for
// prefill_schedule_interval on one rank, too.
func vllmOwn(args engineargs.Args, setup engine.Setup) engine.Engine {
	if v := args.VLLM; args.Ranks > 1 || v.Release == engineargs.VLLM028 && v.PrefillInterval > 1 {
		return vllm.NewGroup(args, setup)
	}
	return vllm.New(args, setup)
}

// sglangOwn returns a scheduler, or a group of them if there are several ranks; decode workers have one of their own.
func sglangOwn(args engineargs.Args, setup engine.Setup) engine.Engine {
	switch {
	case setup.Role == engine.Decode:
		return sglang.NewDecoder(args, setup)
	case args.Ranks > 1:
		return sglang.NewGroup(args, setup)
	}
	return sglang.New(args, setup)
}

// made makes an engine.Engine of what a constructor returns.
func made[E engine.Engine](construct func(engineargs.Args, engine.Setup) E) func(engineargs.Args,
	engine.Setup) engine.Engine {
	return func(args engineargs.Args, setup engine.Setup) engine.Engine { return construct(args, setup) }
}

// Register adds the engine of a type that engineargs.AddEngineType has returned. It is for the init functions of
// packages that bring an engine along, and panics if the type has an engine.
func Register(t engineargs.EngineType, k Kind) {
	by := selector{t, engineargs.Dynamo}
	if _, taken := kinds[by]; taken {
		panic(fmt.Sprintf("worker: engine type %s has two engines", t))
	}
	kinds[by] = k
}

func kindOf(args engineargs.Args) Kind { return kinds[selector{args.EngineType, args.Scheduler}] }

// Traits returns those of the engine that args ask for.
func Traits(args engineargs.Args) engine.Traits { return kindOf(args).Traits(args) }

// Check refuses roles that the engine does not have.
func Check(args engineargs.Args) error {
	if args.Role == engine.Aggregated || Traits(args).Handoff != "" {
		return nil
	}
	return &strictjson.FieldError{
		Field: "worker_type", Got: args.Role.String(),
		Want: fmt.Sprintf("aggregated with engine_type %s, which has no hand-offs", args.EngineType),
	}
}

// New returns an idle worker with the engine that args ask for. To a prefill worker that is an [engine.Puller] or an
// [engine.Pusher], whose shell tells it of transfers at any time, requests come when they reach the scheduler:
// RequestDelay after they were sent.
func New(args engineargs.Args, setup engine.Setup) Worker {
	setup.Model = args.Knobs.Scaled(setup.Model)
	made := kindOf(args).New(args, setup)
	delay := RequestDelay(args)
	if delay == (Delay{}) || setup.Role == engine.Decode ||
		setup.Role == engine.Prefill && Traits(args).Handoff != engine.Coordinated {
		return Worker{Engine: made}
	}
	if ranks, several := made.(engine.Ranked); several {
		return Worker{Engine: intake.NewRanked(ranks, delay, args.BlockSize)}
	}
	return Worker{Engine: intake.New(made, delay, args.BlockSize)}
}

// Delay is how long requests are on their way to the scheduler of a worker.
type Delay = intake.Delay

// RequestDelay returns how long requests are on their way to the scheduler of a worker that is the first to get them.
func RequestDelay(args engineargs.Args) Delay {
	clock := timing.Clock{Speedup: args.SpeedupRatio}
	return Delay{Ms: clock.Ms(args.Knobs.RequestOverheadUs / 1000),
		TokenMs: clock.Ms(args.Knobs.RequestTokenOverheadUs / 1000)}
}
