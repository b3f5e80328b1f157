package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/handoff"
)

// Traits returns what shells have to know of an engine with any arguments. It is not independent: with each pass
// without effect the share of new tokens that requests reserve shrinks, until one can be admitted.
func Traits(engineargs.Args) engine.Traits {
	return engine.Traits{
		Handoff: engine.Coordinated, HandoffOrder: handoff.DestinationFirst,
		CachesPrefixes: true,
		Metrics:        engine.SGLangMetrics,
	}
}
