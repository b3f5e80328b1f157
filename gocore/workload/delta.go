package workload

// accumulation is what a mooncake-delta trace adds up to. The prompt of a turn is everything its session has said
// before: the inputs of the earlier turns, the tokens they generated, and its own input.
//
//	turn 0   input . . . . . . . . output o o o
//	turn 1   input . . . . . . . . . . . o o o . . . . output o o
//	blocks         |   0   |   1   |   2   |   3   |   4
//
// Block 2 was generated in part, and turn 1 finds it in the cache if it is still there; so it has an id from the start,
// which the engine learns with turn 0 (Turn.NamedBlocks). Generated tokens that the trace does not name occur in no
// other session: from the first of them on, all blocks of a session are its own, and their ids are simply new ones.
//
// The plan assumes that every turn completes. The tokens of a rejected turn are never generated, so the Driver then
// plans the rest of its session anew.
type accumulation struct {
	w      *Workload
	inputs []input // by turn
	blocks *interner
}

// plan sets the prompts of all turns.
func (a *accumulation) plan() {
	for s := range a.w.Sessions {
		first := a.w.Sessions[s].First
		h := &history{blocks: a.blocks, root: a.inputs[first].root}
		for turn := first; ; turn = a.w.Turns[turn].Next {
			a.extend(h, &a.w.Turns[turn], turn)
			if a.w.Turns[turn].Next == 0 {
				break
			}
		}
	}
}

// extend sets the prompt of a turn that follows h, and appends its input and its output to h.
func (a *accumulation) extend(h *history, t *Turn, turn int32) {
	in := &a.inputs[turn]
	h.appendBlocks(in.hashIDs, in.length)
	t.InputTokens, t.Prompt, t.NamedBlocks = h.tokens, h.prompt(), 0
	if t.Next != 0 || len(in.output) > 0 {
		h.appendOutput(t.OutputTokens, in.output)
		t.Prompt, t.NamedBlocks = h.prompt(), len(h.ids)
	}
}

// replan returns the turns after a rejected one with the prompts they have now. current gives the turns as planned so
// far, blocks hands out ids, and silent tells which turns up to rejected were rejected.
func (a *accumulation) replan(rejected int32, blocks *interner, current func(int32) *Turn,
	silent map[int32]bool) map[int32]*Turn {
	first := a.w.Sessions[a.w.Turns[rejected].Session].First
	h := &history{blocks: blocks, root: a.inputs[first].root}
	for turn := first; ; turn = a.w.Turns[turn].Next {
		h.appendBlocks(a.inputs[turn].hashIDs, a.inputs[turn].length)
		if turn == rejected {
			break
		}
		if !silent[turn] {
			h.appendOutput(a.w.Turns[turn].OutputTokens, a.inputs[turn].output)
		}
	}
	if h.own { // its own blocks were named when they were planned first
		h.keep(current(rejected).Prompt.Segments[:len(h.ids)])
	}
	changed := make(map[int32]*Turn)
	for turn := a.w.Turns[rejected].Next; turn != 0; turn = a.w.Turns[turn].Next {
		t := a.w.Turns[turn]
		a.extend(h, &t, turn)
		changed[turn] = &t
	}
	return changed
}
