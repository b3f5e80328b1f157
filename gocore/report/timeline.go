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

// appendGaps appends the gaps between one pass and the next, each with the number of requests that have it. Equal ones in
// a row share an entry.
func (t *timeline) appendGaps(all []repeated) []repeated {
	requests, before := int64(0), 0.0
	var last repeated
	for i, s := range t.stretches {
		passes := min(stretchPasses, t.passes-i*stretchPasses)
		for pass := range passes {
			requests += int64(s.change[pass])
			value := gap(before, s.endsMs[pass])
			before = s.endsMs[pass]
			if value == last.value && requests == last.weight {
				last.count++
				continue
			}
			if last.weight > 0 {
				all = append(all, last)
			}
			last = repeated{value: value, weight: requests, count: 1}
		}
	}
	if last.weight > 0 {
		all = append(all, last)
	}
	return all
}
