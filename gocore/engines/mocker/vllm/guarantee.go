package vllm

import "dynosim/gocore/engineargs"

// Under guaranteed-no-evict, the policy of TensorRT-LLM, a request is admitted only if the pool has room for its whole
// output beside the whole outputs of all running requests. No running request ever lacks a block, so none is preempted.
// Outputs that no pool of this size could hold are cut (engineargs.Args.Output).

// guaranteed reports whether that policy applies.
func (s *Scheduler) guaranteed() bool { return s.args.Admission == engineargs.GuaranteedNoEvict }

// promised returns the number of blocks that running requests are still going to take. They hold as many as their
// tokens so far fill; a block that several hold counts for each of them.
func (s *Scheduler) promised() (blocks int) {
	for _, r := range s.running {
		blocks += max(0, s.ceilBlocks(r.promptTokens+r.maxOutput)-len(r.slots))
	}
	return blocks
}

// tookShareable notes that a running request took, or filled, a block that other requests may share. That can keep a
// promise without making fewer blocks available, or lower the need of the head of the waiting queue, so the head may
// fit now. A block that only one request can use does neither: there is one promised and one available block less.
func (s *Scheduler) tookShareable() {
	if s.guaranteed() {
		s.lookAgain()
	}
}
