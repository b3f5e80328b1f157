package speculation

import "math/bits"

// MaxDrafts is the largest number of draft tokens.
const MaxDrafts = 5

// Drafts draws the bursts of one worker. It is not safe for concurrent use.
type Drafts struct {
	rates  []rate // none after one of 0: no draft after that is ever looked at
	drafts int
	stream
}

// rate is the probability of a draft to be accepted.
type rate struct {
	below   uint64 // accepted if its draw is below this
	certain uint64 // 1 if it is always accepted: it takes no draw then
	draws   int    // 1, or 0 if it is certain
	offset  int    // draws of the drafts before
}

// New returns the draws of a worker. The rates, each from 0 to 1, are the probabilities of the first draft, and of each
// further one given that all before it were accepted. Every worker needs a seed of its own: the reference adds the
// number of the worker to the user's seed.
func New(rates []float64, seed uint64) *Drafts {
	d := &Drafts{drafts: len(rates), stream: newStream(seed)}
	offset := 0
	for _, p := range rates {
		r := rate{certain: 1, offset: offset}
		if p != 1 {
			r = rate{below: uint64(p * 0x1p64), draws: 1, offset: offset}
		}
		offset += r.draws
		d.rates = append(d.rates, r)
		if p == 0 {
			break
		}
	}
	return d
}

// MaxBurst returns the largest number of tokens a request may emit in one pass.
func (d *Drafts) MaxBurst() int { return 1 + d.drafts }

// Bursts draws the numbers of tokens that requests emit in one pass, each at least 1, in this order. A request that
// has fewer tokens left consumes the same random numbers as any other; the caller cuts its burst. A rate of 1 consumes
// none.
//
// What comes next can hardly be predicted, so there is no branch on it: a processor would guess wrong for every other
// request. All draws that a request may take are looked at, and counted only up to the first draft that is rejected.
func (d *Drafts) Bursts(bursts []int32) {
	at, last := d.at, d.end-MaxDrafts
	for i := range bursts {
		if at > last {
			d.at = at
			d.refill()
			at, last = d.at, d.end-MaxDrafts
		}
		tokens, accepted, words := int32(1), uint64(1), d.words[at:]
		for j := range d.rates {
			r := &d.rates[j]
			at += int(accepted) & r.draws
			_, below := bits.Sub64(words[r.offset], r.below, 0)
			accepted &= below | r.certain
			tokens += int32(accepted)
		}
		bursts[i] = tokens
	}
	d.at = at
}

// Mark returns where the draws are.
func (d *Drafts) Mark() Mark { return d.mark() }

// Rewind makes the draws since a mark come again.
func (d *Drafts) Rewind(to Mark) { d.rewind(to) }
