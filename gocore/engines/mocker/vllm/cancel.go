package vllm

import "dynosim/gocore/engine"

// Cancel implements [engine.Engine].
func (s *Scheduler) Cancel(id engine.RequestID) { s.remove(id) }
