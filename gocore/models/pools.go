package models

import "fmt"

// Pools are the two KV pools of one GPU as SGLang makes them: of the layers of full attention, and of those with a
// sliding window.
type Pools struct {
	pageBytes    int // of a page in one layer
	full, window int // layers
}

// windowRatio is the number of tokens in the pool of the window layers for each token in the other one, SGLang's
// swa_full_tokens_ratio.
const windowRatio = 0.8

// Pools forms the pools of SGLang. It fails for a model without a layer of full attention, or with linear attention.
func (f Facts) Pools(s Shape) (Pools, error) {
	switch {
	case f.Full == 0:
		return Pools{}, fmt.Errorf("%s has no layer of full attention, and such models are not simulated", f.Name)
	case f.Linear > 0:
		return Pools{}, fmt.Errorf("%s has linear attention, whose states are not simulated with SGLang; engine_type "+
			"vllm has them", f.Name)
	}
	return Pools{pageBytes: f.tokenBytes(s) * s.BlockSize, full: f.Full, window: f.Window}, nil
}

// Pages returns the number of pages that the given number of bytes holds in each pool.
func (p Pools) Pages(bytes int) (full, window int) {
	layers := float64(p.full) + float64(windowRatio*float64(p.window))
	full = max(0, int(float64(bytes)/(layers*float64(p.pageBytes))))
	return full, p.Beside(full)
}

// Beside returns the number of pages of the window layers beside the given number of the others; 0 without such layers.
func (p Pools) Beside(full int) int {
	if p.window == 0 {
		return 0
	}
	return int(windowRatio * float64(full))
}
