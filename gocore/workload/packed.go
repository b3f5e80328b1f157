package workload

import (
	"fmt"
	"math"
	"sort"

	"dynosim/gocore/kvcache"
)

// packed is the requests of a trace in a form that takes some 50 bytes each, however long their prompts are. It holds
// traces whose rows are sessions of their own, in the order of their timestamps, with nothing in them but lengths and
// block ids. For runs that keep nothing of a request (TraceSpec.Passing) they become turns one by one, when they
// arrive, otherwise all at once when the trace has been read.
type packed struct {
	prompts    chunkPaths
	rows       stretches[packedRow]
	skipped    []skippedLines
	perSegment int // engine blocks per chunk
	traceBlock int
	least      int     // tokens that begin a chunk
	speedup    float64 // of arrivals, which begin at 0

	allSegments int // of all prompts
}

type packedRow struct {
	timestampMs   float64
	prompt        chunkPlace // of the last chunk
	input, output uint32
}

// skippedLines says how many empty lines there are before a request and those that follow it.
type skippedLines struct{ from, lines int32 }

// newPacked returns nil if prompts are not lists of chunks.
func newPacked(blocks *interner) *packed {
	if blocks.traceBlock%blocks.engineBlock != 0 {
		return nil
	}
	return &packed{perSegment: blocks.perSegment, traceBlock: blocks.traceBlock, least: blocks.least(), speedup: 1}
}

// takes reports whether a row can be packed, after those before it.
func (p *packed) takes(r *row) bool {
	const fields = fieldTimestamp | fieldInputLength | fieldOutputLength | fieldHashIDs
	if r.given&^fields != 0 || r.given&fieldTimestamp == 0 || !isDuration(r.timestamp) {
		return false
	}
	if n := p.rows.len(); n > 0 && r.timestamp < p.rows.at(uint32(n-1)).timestampMs {
		return false
	}
	return uint64(p.prompts.chunks)+uint64(len(r.hashIDs)) <= maxPathChunks
}

// add packs a row, whose lengths are those of the turn. It reports false if they are too large.
func (p *packed) add(t *Turn, r *row) bool {
	if t.InputTokens > math.MaxUint32 {
		return false
	}
	index := int32(p.rows.len())
	if lines := t.Row - index; lines != p.skippedBefore(index) {
		p.skipped = append(p.skipped, skippedLines{index, lines})
	}
	at := beforeAll
	for _, id := range r.hashIDs[:p.segments(t.InputTokens)] {
		at = p.prompts.next(at, uint32(id))
	}
	p.allSegments += p.segments(t.InputTokens)
	p.rows.add(packedRow{timestampMs: r.timestamp, prompt: at, input: uint32(t.InputTokens),
		output: uint32(t.OutputTokens)})
	return true
}

// segments returns the number of chunks of a prompt.
func (p *packed) segments(inputTokens int) int {
	if inputTokens < p.least {
		return 0
	}
	return (inputTokens-p.least)/p.traceBlock + 1
}

// skippedBefore returns the number of empty lines before a request.
func (p *packed) skippedBefore(turn int32) int32 {
	i := sort.Search(len(p.skipped), func(i int) bool { return p.skipped[i].from > turn })
	if i == 0 {
		return 0
	}
	return p.skipped[i-1].lines
}

func (p *packed) len() int { return p.rows.len() }

func (p *packed) row(turn int32) int32 { return turn + p.skippedBefore(turn) }

func (p *packed) lengths(turn int32) (input, output int) {
	r := p.rows.at(uint32(turn))
	return int(r.input), int(r.output)
}

func (p *packed) make(t *Turn, turn int32) {
	r := p.rows.at(uint32(turn))
	p.unpack(t, turn, make([]uint32, p.segments(int(r.input))))
}

// unpack writes a turn to t, whose prompt is to be a list that has its length.
func (p *packed) unpack(t *Turn, turn int32, segments []uint32) {
	r := p.rows.at(uint32(turn))
	p.prompts.path(r.prompt, segments)
	*t = Turn{
		Row: p.row(turn), Session: turn, InputTokens: int(r.input), OutputTokens: int(r.output),
		Prompt: kvcache.Prompt{Segments: segments, PerSegment: p.perSegment},
	}
}

// unpackAll gives a workload the turns and sessions. Their prompts share one list.
func (p *packed) unpackAll(w *Workload) {
	count := p.len()
	segments := make([]uint32, p.allSegments)
	w.Turns, w.Sessions = make([]Turn, count), make([]Session, count)
	for turn := range int32(count) {
		r := p.rows.at(uint32(turn))
		n := p.segments(int(r.input))
		p.unpack(&w.Turns[turn], turn, segments[:n:n])
		segments = segments[n:]
		w.Sessions[turn] = Session{First: turn, StartMs: r.timestampMs, Timed: true}
	}
}

func (p *packed) startMs(turn int32) float64 {
	return (p.rows.at(uint32(turn)).timestampMs - p.rows.at(0).timestampMs) / p.speedup
}

// accelerate implements [passing].
func (p *packed) accelerate(w *Workload, speedup float64) error {
	p.speedup = speedup
	for turn := range int32(p.len()) {
		if !isDuration(p.startMs(turn)) {
			return fmt.Errorf("arrival_speedup_ratio: got %v, want a number that leaves all times finite: %s starts at %v ms",
				speedup, w.TurnName(turn), p.rows.at(uint32(turn)).timestampMs-p.rows.at(0).timestampMs)
		}
	}
	return nil
}

// unpack makes turns of all rows so far, as if they had never been packed.
func (l *sessionLoader) unpack() {
	l.packed.unpackAll(l.w)
	for i := range l.w.Sessions {
		s := &l.w.Sessions[i]
		l.tails = append(l.tails, sessionTail{last: s.First, timestampMs: s.StartMs, timed: true})
	}
	l.prompts.blocks.take(&l.packed.prompts)
	l.packed = nil
}

// take gives an interner that has no chunks those of paths.
func (n *interner) take(paths *chunkPaths) {
	n.chunks = uint64(paths.chunks)
	paths.each(func(before uint32, hasBefore bool, content, chunk uint32) {
		parent := noParent
		if hasBefore {
			parent = n.lastBlock(before)
		}
		n.numbers.add(prefix{parent: parent, content: uint64(content)}, chunk)
	})
}

// lastBlock returns the id of the last block of a chunk.
func (n *interner) lastBlock(chunk uint32) uint64 {
	return uint64(chunk)*uint64(n.perSegment) + uint64(n.perSegment) - 1
}
