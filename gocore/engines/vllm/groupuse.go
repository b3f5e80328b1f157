package vllm

import "dynosim/gocore/engine"

// groupUse is what there is to tell of a cache with several groups.
type groupUse struct {
	others                   int // blocks in use by the groups beside the first
	lacks                    lack
	waitFullMs, waitOthersMs float64
}

// lack is what the head of the waiting queue has no room for, as far as it was looked at.
type lack uint8

const (
	nothing     lack = iota
	fullBlocks       // the blocks of full attention, even if it had no others
	otherBlocks      // those of the other groups beside them
)

// find notes whether the head of the queue lacks blocks, and whether those of full attention alone are too many.
func (u *groupUse) find(lacks, full bool) {
	switch {
	case full:
		u.lacks = fullBlocks
	case lacks:
		u.lacks = otherBlocks
	default:
		u.lacks = nothing
	}
}

// pass counts the time of passes that run while the head of the queue waits.
func (u *groupUse) pass(ms float64) {
	switch u.lacks {
	case fullBlocks:
		u.waitFullMs += ms
	case otherBlocks:
		u.waitOthersMs += ms
	}
}

// Groups implements [engine.GroupReporter].
func (s *Scheduler) Groups() (engine.GroupUse, bool) {
	u := &s.use
	return engine.GroupUse{Full: s.pool.InUse() - u.others, WaitFullMs: u.waitFullMs, WaitOthersMs: u.waitOthersMs}, s.groups.Beside > 0
}
