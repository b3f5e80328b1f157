package kvcache

// Key is the identities of the full blocks of one request, prompt and output together.
type Key struct {
	Prompt    Prompt
	Shareable int     // leading blocks whose ids are in Prompt: other requests may have them too
	Private   BlockID // block i from Shareable on has the id Private + i
}

// Block returns the id of full block i.
func (k *Key) Block(i int) BlockID {
	if i < k.Shareable {
		return k.Prompt.Block(i)
	}
	return k.Private + BlockID(i)
}

// Run returns the id of full block from, and how many of the blocks from..to-1 have ids that follow each other from
// there on.
func (k *Key) Run(from, to int) (first BlockID, n int) {
	if from >= k.Shareable {
		return k.Private + BlockID(from), to - from
	}
	for first, n = range k.Prompt.Runs(from, min(to, k.Shareable)) {
		break
	}
	return first, n
}

// AppendBlocks appends the ids of full blocks from..to-1 to dst.
func (k *Key) AppendBlocks(dst []BlockID, from, to int) []BlockID {
	if shared := min(to, k.Shareable); from < shared {
		dst = k.Prompt.AppendBlocks(dst, from, shared)
		from = shared
	}
	for i := from; i < to; i++ {
		dst = append(dst, k.Private+BlockID(i))
	}
	return dst
}

// Namer names the blocks of the requests of one cache, so that no two requests have a private id in common. The zero
// value is ready.
type Namer struct{ named BlockID }

// Key names the blocks of a request that may come to have blocks full ones.
func (n *Namer) Key(prompt Prompt, shareable, blocks int) Key {
	k := Key{Prompt: prompt, Shareable: shareable, Private: PrivateIDs + n.named - BlockID(shareable)}
	n.named += BlockID(max(0, blocks-shareable))
	return k
}
