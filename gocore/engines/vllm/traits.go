package vllm

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
)

// Traits returns what shells have to know of an engine with these arguments.
func Traits(args engineargs.Args) engine.Traits {
	return engine.Traits{
		Handoff: engine.Pulled, Independent: true, CachesPrefixes: args.PrefixCaching, BoundsBatches: true,
		TracesCache: true,
		Metrics:     engine.VLLMMetrics,
	}
}
