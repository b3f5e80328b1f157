package report

// timeline is the emitting passes of one worker. They come in stretches, because a list that has to grow would be
// copied again and again, and there may be many millions.
type timeline struct {
	stretches []*stretch // with room for one pass more than there are; nil where they are folded
	passes    int

	folded int    // stretches, the first ones
	at     gapEnd // of the last pass of these
}

// gapEnd is where a gap between two passes ends and the next one begins: how many requests have the former, and when.
type gapEnd struct {
	requests int64
	ms       float64
}

const stretchPasses = 512

type stretch struct {
	endsMs [stretchPasses]float64
	// change is by how much the number of requests with a gap that ends with a pass differs from that of the pass
	// before.
	change [stretchPasses]int32
	open   int32 // runs of requests that have begun in these passes and are not counted, if passes are folded
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

// addAll records the ends of several passes.
func (t *timeline) addAll(endsMs []float64) {
	for t.extend(); len(endsMs) > 0; t.extend() {
		n := copy(t.stretches[t.passes/stretchPasses].endsMs[t.passes%stretchPasses:], endsMs)
		endsMs = endsMs[n:]
		t.passes += n
	}
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

// appendGaps appends the gaps between one pass and the next, each with the number of requests that have it. Equal ones
// in a row share an entry.
func (t *timeline) appendGaps(all []repeated) []repeated {
	at := t.at
	for i := t.folded; i < len(t.stretches); i++ {
		all = t.appendStretch(all, i, &at)
	}
	return all
}

// appendStretch does what appendGaps does, for one stretch, before which a gap ends.
func (t *timeline) appendStretch(all []repeated, i int, at *gapEnd) []repeated {
	s := t.stretches[i]
	var last repeated
	for pass := range min(stretchPasses, t.passes-i*stretchPasses) {
		at.requests += int64(s.change[pass])
		value := gap(at.ms, s.endsMs[pass])
		at.ms = s.endsMs[pass]
		if value == last.value && at.requests == last.weight {
			last.count++
			continue
		}
		if last.weight > 0 {
			all = append(all, last)
		}
		last = repeated{value: value, weight: at.requests, count: 1}
	}
	if last.weight > 0 {
		all = append(all, last)
	}
	return all
}

// fold moves the gaps of passes that are over for all requests to a list, as far as such passes are the first ones: a
// run that is not counted yet needs the passes from its first one on.
func (t *timeline) fold(gaps *gapList) {
	for t.folded < t.passes/stretchPasses && t.stretches[t.folded].open == 0 {
		gaps.all = t.appendStretch(gaps.all, t.folded, &t.at)
		t.stretches[t.folded] = nil
		t.folded++
	}
	gaps.settle()
}

// foldAll does what fold does, when the run has ended.
func (t *timeline) foldAll(gaps *gapList) {
	gaps.all = t.appendGaps(gaps.all)
	*t = timeline{}
	gaps.settle()
}

func (t *timeline) stretch(pass int32) *stretch { return t.stretches[pass/stretchPasses] }
