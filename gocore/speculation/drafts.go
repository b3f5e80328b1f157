package speculation

// MaxDrafts is the largest number of draft tokens.
const MaxDrafts = 5

// Drafts draws the bursts of one worker. It is not safe for concurrent use.
type Drafts struct {
	rates []rate
	rng   chacha
}

// rate is the probability of a draft to be accepted.
type rate struct {
	certain bool   // exactly 1
	below   uint64 // accepted if a draw is below this
}

// New returns the draws of a worker. The rates, each from 0 to 1, are the probabilities of the first draft, and of each
// further one given that all before it were accepted. Every worker needs a seed of its own: the reference adds the number
// of the worker to the user's seed.
func New(rates []float64, seed uint64) *Drafts {
	d := &Drafts{rng: newChacha(seed)}
	for _, p := range rates {
		r := rate{certain: p == 1}
		if !r.certain {
			r.below = uint64(p * 0x1p64)
		}
		d.rates = append(d.rates, r)
	}
	return d
}

// MaxBurst is the largest number of tokens a request may emit in one pass.
func (d *Drafts) MaxBurst() int { return 1 + len(d.rates) }

// Burst draws the number of tokens that a request emits in one pass, at least 1. A request that has fewer tokens left
// draws as many numbers. A rate of 1 draws no number from the generator.
func (d *Drafts) Burst() int {
	tokens := 1
	for _, r := range d.rates {
		if !r.certain && d.rng.uint64() >= r.below {
			break
		}
		tokens++
	}
	return tokens
}
