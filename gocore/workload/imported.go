package workload

import (
	"math"
	"math/rand/v2"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/workload/traffic"
)

// loadTraffic reads a trace in a format of package traffic.
func loadTraffic(format Format, reader *traffic.Format, sources []Source, spec TraceSpec) (*Workload, error) {
	if err := spec.checkShared(); err != nil {
		return nil, err
	}
	files := make([]traffic.Source, len(sources))
	for i, source := range sources {
		files[i] = traffic.Source(source)
	}
	t, err := reader.Read(files, traffic.Options{BlockSize: spec.TraceBlockSize, Seed: spec.Seed, Gaps: gapsByName,
		Poll: spec.Poll})
	if err != nil {
		return nil, err
	}
	w := &Workload{File: sourceNames(sources), Format: format, untimed: !t.Timed, RequestIDs: t.IDs, WaitFor: t.WaitFor}
	w.Notes.Imported = t.Notes
	if t.Unit != "line" {
		w.unit = t.Unit
	}
	if len(sources) > 1 {
		for _, source := range sources {
			w.sources = append(w.sources, source.Name)
		}
	}
	l := &trafficLoader{w: w, t: t, spec: spec}
	l.makeRoom()
	for i := range t.Requests {
		l.add(&t.Requests[i])
	}
	if t.BlockSize == 0 {
		t.Requests = nil // a big trace needs the memory for prompts
	}
	if err := l.addPrompts(); err != nil {
		return nil, err
	}
	return w, nil
}

// gapsByName draws gaps between arrivals with the mean 1.
func gapsByName(distribution string, cv float64, src rand.Source) func() float64 {
	process, err := ParseArrivalProcess(distribution)
	if err != nil {
		panic("workload: " + err.Error())
	}
	return Arrivals{Process: process, CV: cv}.gaps(1, src)
}

// trafficLoader turns requests into turns of sessions.
type trafficLoader struct {
	w      *Workload
	t      *traffic.Trace
	spec   TraceSpec
	blocks *interner
	shared [][]uint32 // by group: the chunks of its prefix
}

// makeRoom prepares lists of the lengths that they will have: to grow, one takes several times that.
func (l *trafficLoader) makeRoom() {
	sessions := 0
	for i := range l.t.Requests {
		if l.t.Requests[i].After < 0 {
			sessions++
		}
	}
	l.w.Turns = make([]Turn, 0, len(l.t.Requests))
	l.w.Sessions = make([]Session, 0, sessions)
}

// add appends a request as a turn: of the session of the request that it waits for, or else of a session of its own.
func (l *trafficLoader) add(r *traffic.Request) {
	index := int32(len(l.w.Turns))
	turn := Turn{Row: r.Place - 1, InputTokens: int(r.Input), OutputTokens: int(r.Output)}
	if l.w.sources != nil {
		turn.Row = index
		l.w.places = append(l.w.places, place{source: r.File, line: r.Place})
	}
	turn.DelayMs = r.DelayMs()
	if r.After >= 0 {
		before := &l.w.Turns[r.After]
		before.Next = index
		turn.Session, turn.Index = before.Session, before.Index+1
	} else {
		turn.Session = int32(len(l.w.Sessions))
		session := Session{First: index, StartMs: r.StartMs(), Timed: l.t.Timed}
		if r.Session >= 0 {
			session.Name, session.Named = l.t.Names[r.Session], true
		}
		l.w.Sessions = append(l.w.Sessions, session)
	}
	l.w.Turns = append(l.w.Turns, turn)
}

// addPrompts gives all turns their prompts.
func (l *trafficLoader) addPrompts() error {
	l.blocks = newInterner(l.blockSize(), l.spec.EngineBlockSize)
	l.blocks.partial = l.spec.NamePartialBlocks
	if l.spec.NumPrefixGroups > 0 {
		l.shared = make([][]uint32, min(l.spec.NumPrefixGroups, len(l.w.Sessions)))
	}
	for i := range l.w.Turns {
		if l.spec.Poll != nil && i%pollEvery == pollEvery-1 {
			if err := l.spec.Poll(); err != nil {
				return err
			}
		}
		turn := &l.w.Turns[i]
		if l.t.BlockSize > 0 {
			turn.Prompt = l.named(l.t.Requests[i].BlockIDs, turn.InputTokens)
		} else {
			turn.Prompt = l.unnamed(int(turn.Session), turn.InputTokens)
		}
	}
	if l.blocks.overflows(false) {
		return l.blocks.tooMany(l.w)
	}
	return nil
}

// blockSize returns the number of tokens that an id stands for. Where there are none, a multiple of the engine's block
// size makes the shortest lists.
func (l *trafficLoader) blockSize() int {
	engineBlock := l.spec.EngineBlockSize
	switch {
	case l.t.BlockSize > 0:
		return l.t.BlockSize
	case l.spec.NumPrefixGroups > 0:
		return engineBlock // shared to the block
	}
	return (DefaultTraceBlockSize + engineBlock - 1) / engineBlock * engineBlock
}

// named returns a prompt that begins with the blocks of these ids. What they do not cover is unlike any other prompt.
func (l *trafficLoader) named(ids []uint32, inputTokens int) kvcache.Prompt {
	n := l.blocks
	covered := min(len(ids), inputTokens/n.traceBlock)
	if len(ids) > covered && inputTokens%n.traceBlock > 0 {
		covered++ // the last block of the prompt is not full
	}
	wide := make([]uint64, covered)
	for i := range wide {
		wide[i] = uint64(ids[i])
	}
	tokens := min(inputTokens, covered*n.traceBlock)
	if n.traceBlock%n.engineBlock != 0 {
		h := &history{blocks: n, root: noParent}
		h.appendBlocks(wide, tokens)
		h.appendOwn(inputTokens - tokens)
		return h.prompt()
	}
	prompt := n.prompt(noParent, wide, tokens)
	prompt.Segments = l.fill(prompt.Segments, inputTokens)
	return prompt
}

// fill appends chunks that no other prompt has, as many as a prompt of this length needs.
func (l *trafficLoader) fill(segments []uint32, inputTokens int) []uint32 {
	least := l.blocks.least()
	for start := len(segments) * l.blocks.traceBlock; start+least <= inputTokens; start += l.blocks.traceBlock {
		segments = append(segments, l.blocks.fresh())
	}
	return segments
}

// unnamed returns a prompt of which only the length is known. A part of it is the prefix of the session's group, if
// there are groups; sessions take turns among them.
func (l *trafficLoader) unnamed(session, inputTokens int) kvcache.Prompt {
	n := l.blocks
	segments := make([]uint32, 0, (inputTokens+n.traceBlock-1)/n.traceBlock)
	if len(l.shared) > 0 {
		group := &l.shared[session%len(l.shared)]
		count := int(math.Round(float64(inputTokens/n.traceBlock) * l.spec.SharedPrefixRatio))
		*group = l.fill(*group, count*n.traceBlock)
		segments = append(segments, (*group)[:count]...)
	}
	return kvcache.Prompt{Segments: l.fill(segments, inputTokens), PerSegment: n.perSegment}
}
