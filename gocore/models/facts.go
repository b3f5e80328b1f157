package models

// Facts are what decides the size of a model's KV cache.
type Facts struct {
	Name   string
	Source string // where the facts are published
	// Layers of each kind that keep something; others are not counted.
	Full, Window, Linear int
	WindowTokens         int // what a sliding window sees
	KVHeads, HeadDim     int
	// Latent is the number of values of a token in a layer of multi-head latent attention, which all GPUs keep; 0 with
	// heads.
	Latent int
	State  State
	// MaxLen is the longest request, in tokens.
	MaxLen int
	// WeightsGiB is the size of the published weights, and WeightsSource the number of bytes and what says so.
	WeightsGiB    float64
	WeightsSource string
}

// State is what a layer of linear attention keeps for a sequence: the last inputs of its convolution, and a matrix for
// each head.
type State struct {
	ConvValues int // in two bytes each
	Values     int
	ValueBytes int
}

// bytes returns the size of the part that one of the GPUs keeps.
func (s State) bytes(ranks int) int { return s.ConvValues*2/ranks + s.Values*s.ValueBytes/ranks }

// gatedState returns that of a gated delta net.
func gatedState(keyHeads, keyDim, valueHeads, valueDim, kernel, valueBytes int) State {
	return State{ConvValues: (2*keyHeads*keyDim + valueHeads*valueDim) * (kernel - 1),
		Values: valueHeads * keyDim * valueDim, ValueBytes: valueBytes}
}

// mambaState returns that of Mamba 2.
func mambaState(heads, headDim, groups, size, kernel, valueBytes int) State {
	return State{ConvValues: (heads*headDim + 2*groups*size) * (kernel - 1), Values: heads * headDim * size,
		ValueBytes: valueBytes}
}
