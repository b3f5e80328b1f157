// Package worker is one worker: an engine, made from its arguments, and the pass it is busy with. The shells know engines
// only by their common interface.
package worker

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engine/sglang"
	"dynosim/gocore/engine/vllm"
	"dynosim/gocore/engineargs"
)

// Worker is one engine and what the shell knows of it.
type Worker struct {
	Engine engine.Engine
	// Pass is the pass being run, until its end is applied; nil if the worker is idle.
	Pass *engine.Pass
}

// New returns an idle worker with an engine of the type that args ask for.
func New(args engineargs.Args, setup engine.Setup) Worker {
	if args.EngineType == engineargs.SGLang {
		return Worker{Engine: sglang.New(args, setup)}
	}
	return Worker{Engine: vllm.New(args, setup)}
}
