package vllm

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/handoff"
)

// Traits returns what shells have to know of an engine with these arguments.
func Traits(args engineargs.Args) engine.Traits {
	return engine.Traits{
		Handoff: engine.Coordinated, HandoffOrder: handoff.SourceFirst,
		Independent: true, CachesPrefixes: args.PrefixCaching, BoundsBatches: true, TracesCache: true, Policies: true,
		Metrics: engine.VLLMMetrics,
	}
}
