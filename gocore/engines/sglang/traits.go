package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
)

// Traits returns what shells have to know of an engine with any arguments. It is not independent: attempts to admit a
// request are counted, those that fail included.
func Traits(engineargs.Args) engine.Traits {
	return engine.Traits{
		Handoff: engine.Pushed, Undisturbed: true, CachesPrefixes: true, Metrics: engine.SGLangMetrics,
	}
}
