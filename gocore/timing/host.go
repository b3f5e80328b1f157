package timing

// Host is the time that an engine's process spends on every pass before or after the GPU works: scheduling, preparing
// inputs, sampling, handing tokens out. The zero value takes none.
type Host struct {
	StepMs float64 // of each pass that computes anything
	SeqMs  float64 // besides, for each request that has a share of the pass
	// Ranks is the number of attention data-parallel ranks that share the requests; each has a process of its own, and
	// the one with the most requests counts. 0 is taken for 1.
	Ranks int
}

// passMs returns the host time of a pass in which the given number of requests have a share.
func (h Host) passMs(requests int) float64 {
	if requests == 0 || h.StepMs == 0 && h.SeqMs == 0 {
		return 0
	}
	ranks := max(1, h.Ranks)
	return h.StepMs + float64(h.SeqMs*float64((requests+ranks-1)/ranks))
}
