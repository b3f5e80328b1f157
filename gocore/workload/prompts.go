package workload

import (
	"math"

	"dynosim/gocore/kvcache"
)

// promptLoader turns the block ids of rows into prompts.
//
// A row that only gives a prompt becomes a list of chunks, as many as trace blocks. Where blocks of generated tokens
// can be found again, because a later turn of the session contains them (mooncake-delta) or because the row says which
// tokens they are (output_token_ids), they need ids as well; then all prompts of the trace are lists of single blocks.
type promptLoader struct {
	w      *Workload
	blocks *interner
	delta  bool
	named  bool    // a row names its output tokens
	inputs []input // delta: what each turn adds
}

// input is what a turn of a mooncake-delta session adds to it.
type input struct {
	root    uint64 // of the interner
	salt    string
	hashIDs []uint64
	length  int
	output  []uint32 // the tokens that will be generated, if the row says so
}

func newPromptLoader(w *Workload, spec TraceSpec) *promptLoader {
	blocks := newInterner(spec.TraceBlockSize, spec.EngineBlockSize)
	blocks.partial = spec.NamePartialBlocks
	return &promptLoader{w: w, blocks: blocks, delta: w.Format == MooncakeDelta}
}

// look notes oddities of the prompt of a turn, whose lengths are known.
func (l *promptLoader) look(turn *Turn, r *row) {
	for _, id := range r.hashIDs {
		if id > math.MaxUint32 {
			l.w.Notes.WideIDs++
			break
		}
	}
	if l.used(turn) < len(r.hashIDs) {
		l.w.Notes.Surplus++
	}
}

// used returns how many block ids the prompt of a turn needs.
func (l *promptLoader) used(turn *Turn) int {
	return (turn.InputTokens + l.blocks.traceBlock - 1) / l.blocks.traceBlock
}

// add takes the prompt of a turn, whose lengths are known, from its row.
func (l *promptLoader) add(turn *Turn, r *row) {
	if r.given&hintFields != 0 {
		l.w.hint(int32(len(l.w.Turns)), r.given, r.hints)
	}
	l.named = l.named || len(r.outputTokens) > 0
	root := l.blocks.root(r.cacheSalt)
	switch {
	case l.delta:
		l.inputs = append(l.inputs, input{
			root:    root,
			salt:    r.cacheSalt,
			hashIDs: append([]uint64(nil), r.hashIDs[:l.used(turn)]...),
			length:  turn.InputTokens,
			output:  append([]uint32(nil), r.outputTokens...),
		})
	case len(r.outputTokens) > 0:
		h := &history{blocks: l.blocks, root: root}
		h.appendBlocks(r.hashIDs, turn.InputTokens)
		h.appendOutput(turn.OutputTokens, r.outputTokens)
		turn.Prompt, turn.NamedBlocks = h.prompt(), len(h.ids)
	default:
		turn.Prompt = l.blocks.prompt(root, r.hashIDs, turn.InputTokens)
	}
}

// finish completes the prompts once all turns are known.
func (l *promptLoader) finish() error {
	switch {
	case l.delta && (l.named || len(l.w.Sessions) < len(l.w.Turns)):
		l.w.delta = &accumulation{w: l.w, inputs: l.inputs, blocks: l.blocks}
		l.w.delta.plan()
	case l.delta: // sessions of one turn have nothing to accumulate
		for i := range l.w.Turns {
			in := &l.inputs[i]
			l.w.Turns[i].Prompt = l.blocks.prompt(in.root, in.hashIDs, in.length)
		}
	case l.named:
		for i := range l.w.Turns {
			listBlocks(&l.w.Turns[i], l.blocks.engineBlock)
		}
	}
	if l.blocks.overflows(l.named || l.w.delta != nil) {
		return l.blocks.tooMany(l.w)
	}
	return nil
}

// listBlocks writes the prompt of a turn, a list of chunks, as a list of its full blocks.
func listBlocks(turn *Turn, engineBlock int) {
	if turn.Prompt.PerSegment == 1 {
		return
	}
	full := turn.InputTokens / engineBlock
	segments := make([]uint32, full)
	for i, id := range turn.Prompt.AppendBlocks(nil, 0, full) {
		segments[i] = uint32(id)
	}
	turn.Prompt = kvcache.Prompt{Segments: segments, PerSegment: 1}
}

// appendOutput appends generated tokens: those that the trace names, or else tokens that no other sequence has.
func (h *history) appendOutput(count int, named []uint32) {
	if len(named) == 0 {
		h.appendOwn(count)
		return
	}
	for _, token := range named {
		h.append(token, 1)
	}
}

// prompt lists the blocks so far. Later appends do not change it.
func (h *history) prompt() kvcache.Prompt {
	return kvcache.Prompt{Segments: h.ids[:len(h.ids):len(h.ids)], PerSegment: 1}
}
