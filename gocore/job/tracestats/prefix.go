package tracestats

import "dynosim/gocore/workload"

// Prefix says how much prompts share. Only full blocks count, as in an engine.
type Prefix struct {
	Blocks         int64 `json:"blocks"`     // full blocks of all prompts
	NewBlocks      int64 `json:"new_blocks"` // of those, the ones that no request has asked for or generated before
	ReusableTokens int64 `json:"reusable_tokens"`

	// BestReuseRatio is the part of all prompt tokens that a cache without limit serves if requests run one after
	// another in the order of the trace.
	BestReuseRatio float64 `json:"best_reuse_ratio"`
	// WithinSessions is the part of BestReuseRatio in blocks that the same session was the last to ask for. The rest
	// comes from other sessions and needs them on the same worker.
	WithinSessions float64 `json:"within_sessions"`
}

// prefix counts blocks that an earlier request has asked for or generated.
func prefix(w *workload.Workload, session []int32, blockSize int) Prefix {
	var p Prefix
	known := make([]owner, segments(w))
	input, own := int64(0), int64(0)
	for i := range w.Turns {
		t := &w.Turns[i]
		full := t.InputTokens / blockSize
		reused, bySession := visit(known, t, session[i], full)
		p.Blocks += int64(full)
		p.NewBlocks += int64(full - reused)
		p.ReusableTokens += int64(reused) * int64(blockSize)
		own += int64(bySession) * int64(blockSize)
		input += int64(t.InputTokens)
		if t.NamedBlocks > full {
			visit(known, t, session[i], t.NamedBlocks)
		}
	}
	p.BestReuseRatio = float64(p.ReusableTokens) / float64(input)
	p.WithinSessions = float64(own) / float64(input)
	return p
}

// segments returns how many segments there may be. A workload numbers its own from 0 on, without gaps.
func segments(w *workload.Workload) int {
	count := 0
	for i := range w.Turns {
		for _, segment := range w.Turns[i].Prompt.Segments {
			count = max(count, int(segment)+1)
		}
	}
	return count
}

// owner is how many leading blocks of a segment are known, and which session asked for them last.
type owner struct{ blocks, session int32 }

// visit goes through the leading count blocks of a turn, counts those that are known, all of them and those last asked
// for by the same session, and makes all of them known. Blocks of a prompt only become known with all before them, so
// that the known ones are the first ones.
func visit(known []owner, t *workload.Turn, session int32, count int) (reused, bySession int) {
	for at, left := 0, count; left > 0; at++ {
		segment := t.Prompt.Segments[at]
		blocks := min(left, t.Prompt.PerSegment)
		left -= blocks
		o := known[segment]
		hit := min(blocks, int(o.blocks))
		reused += hit
		if o.session == session {
			bySession += hit
		}
		known[segment] = owner{blocks: max(o.blocks, int32(blocks)), session: session}
	}
	return reused, bySession
}
