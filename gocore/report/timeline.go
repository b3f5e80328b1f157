package report

// timeline is the emitting passes of one worker. They come in stretches, because a list that has to grow would be copied
// again and again, and there may be many millions.
type timeline struct {
	stretches []*stretch // with room for one pass more than there are
	passes    int
}

const stretchPasses = 512

type stretch struct {
	endsMs [stretchPasses]float64
	// change is by how much the number of requests with a gap that ends with a pass differs from that of the pass before.
	change [stretchPasses]int32
}

// add appends a pass that ends at endMs and returns its number.
func (t *timeline) add(endMs float64) int {
	pass := t.passes
	t.passes++
	if t.passes/stretchPasses >= len(t.stretches) {
		t.extend()
	}
	t.stretches[pass/stretchPasses].endsMs[pass%stretchPasses] = endMs
	return pass
}

// extend makes room for the next pass and the one after it.
func (t *timeline) extend() {
	for len(t.stretches) <= t.passes/stretchPasses {
		t.stretches = append(t.stretches, new(stretch))
	}
}

func (t *timeline) endMs(pass int32) float64 {
	return t.stretches[pass/stretchPasses].endsMs[pass%stretchPasses]
}

// count counts the gaps inside a run.
func (t *timeline) count(n run) {
	*t.change(n.pass + 1)++
	*t.change(n.last + 1)--
}

func (t *timeline) change(pass int32) *int32 {
	return &t.stretches[pass/stretchPasses].change[pass%stretchPasses]
}

// appendGaps appends the gaps between one pass and the next, each with the number of requests that have it.
func (t *timeline) appendGaps(all []weighted) []weighted {
	requests, before := int64(0), 0.0
	for pass := range t.passes {
		s, i := t.stretches[pass/stretchPasses], pass%stretchPasses
		requests += int64(s.change[i])
		if requests > 0 {
			all = append(all, weighted{value: gap(before, s.endsMs[i]), weight: requests})
		}
		before = s.endsMs[i]
	}
	return all
}
