package models

import "fmt"

// Shape is how a model is served, as far as its KV cache depends on it.
type Shape struct {
	Ranks     int // GPUs that share the heads: tensor parallelism
	BlockSize int // tokens, 0 for vLLM's 16
	FP8       bool
}

// Layout is the KV cache of one GPU.
type Layout struct {
	BlockSize int // tokens of a block of attention
	// FullGroups, WindowGroups and LinearGroups count the groups of each kind, which have GroupLayers layers each.
	FullGroups, WindowGroups, LinearGroups int
	GroupLayers                            int
	WindowTokens                           int
	BlockBytes                             int // of a block, in all layers of a group
}

const defaultBlock = 16

// blockOf returns the size of a block for latent attention, whose kernels want 64 tokens.
func (f Facts) blockOf(given int) int {
	switch {
	case given > 0:
		return given
	case f.Latent > 0:
		return 64
	}
	return defaultBlock
}

// Layout forms groups. It fails for a model without a layer of full attention, or with windows and linear attention.
func (f Facts) Layout(s Shape) (Layout, error) {
	switch {
	case f.Full == 0:
		return Layout{}, fmt.Errorf("%s has no layer of full attention, and such models are not simulated", f.Name)
	case f.Window > 0 && f.Linear > 0:
		return Layout{}, fmt.Errorf("%s has sliding windows and linear attention, and such models are not simulated",
			f.Name)
	}
	token := f.tokenBytes(s)
	l := Layout{BlockSize: f.blockOf(s.BlockSize), WindowTokens: f.WindowTokens}
	if f.Linear > 0 { // a block of attention grows to the size of a state
		state := f.State.bytes(s.Ranks)
		l.BlockSize *= ceilDiv(state, token*l.BlockSize)
	}
	others := f.Window + f.Linear
	l.GroupLayers = groupLayers(f.Full, others)
	l.FullGroups = ceilDiv(f.Full, l.GroupLayers)
	l.WindowGroups, l.LinearGroups = ceilDiv(f.Window, l.GroupLayers), ceilDiv(f.Linear, l.GroupLayers)
	if l.FullGroups > 1 {
		return Layout{}, fmt.Errorf("%s has more layers of full attention than others, so vLLM forms %d groups of "+
			"them, which are not simulated", f.Name, l.FullGroups)
	}
	l.BlockBytes = token * l.BlockSize * l.GroupLayers
	return l, nil
}

// tokenBytes returns what a layer of attention keeps of a token on one GPU. A head is never divided.
func (f Facts) tokenBytes(s Shape) int {
	size := 2
	if s.FP8 {
		size = 1
	}
	if f.Latent > 0 {
		return f.Latent * size
	}
	return 2 * max(1, f.KVHeads/s.Ranks) * f.HeadDim * size
}

// groupLayers returns the number of layers of a group: those of the rarest kind, or all of the most frequent one if it
// has less than half as many more, so that little is left empty.
func groupLayers(full, others int) int {
	if others == 0 {
		return full
	}
	fewest, most := min(full, others), max(full, others)
	if 2*most < 3*fewest {
		return most
	}
	return fewest
}

// Groups returns the number of groups of all kinds.
func (l Layout) Groups() int { return l.FullGroups + l.WindowGroups + l.LinearGroups }

// Blocks returns the number of blocks that the given number of bytes holds.
func (l Layout) Blocks(bytes int) int { return max(0, bytes/l.BlockBytes) }

// Limits of the requests that vLLM's log speaks of.
type Limits struct {
	Length  int // tokens of a request, the longest
	Budget  int // max_num_batched_tokens
	Flights int // passes in flight: 2 with asynchronous scheduling, otherwise 1
}

// RequestBlocks returns the number of blocks with which vLLM reckons for a request of the given length.
func (l Layout) RequestBlocks(m Limits) int {
	full := ceilDiv(m.Length, l.BlockSize)
	window := ceilDiv(min(l.WindowTokens-1+m.Budget*m.Flights, m.Length), l.BlockSize) + 1
	return full + l.WindowGroups*window + l.LinearGroups*2
}

// Concurrency returns the "Maximum concurrency" in vLLM's log: how many requests of the longest length a pool holds.
func (l Layout) Concurrency(blocks int, m Limits) float64 {
	return float64(blocks) / float64(l.RequestBlocks(m))
}

// Tokens returns the "GPU KV cache size" in vLLM's log.
func (l Layout) Tokens(blocks int, m Limits) int { return blocks * m.Length / l.RequestBlocks(m) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }
