package vllm

import "dynosim/gocore/engine"

// groupUse is what is reported of a cache with several groups.
type groupUse struct {
	others int // blocks in use by the groups beside the first
	lacks  engine.Lack
	waits  engine.GroupUse // only the times
}

// pass counts the time of passes that run while the head of the queue waits.
func (u *groupUse) pass(ms float64) { u.waits.Wait(u.lacks, ms) }

// Groups implements [engine.GroupReporter].
func (s *Scheduler) Groups() (engine.GroupUse, bool) {
	now := s.use.waits
	now.Full, now.Others = s.pool.InUse()-s.use.others, s.use.others
	return now, s.groups.Beside > 0
}
