package radix

import (
	"math/bits"

	"dynosim/gocore/kvcache"
)

// copies counts the copies of pages. It takes runs of pages with consecutive ids and counts 64 of them with each step:
// at a page size of 1 a prompt has thousands of pages, but few such units.
//
//	page of unit 41   4 3 2 1 0
//	present           1 1 1 1 0     there is a copy of all but page 0
//	more[0]           0 1 0 1 0     one more of pages 1 and 3
//	more[1]           1 0 0 1 0     two more of pages 1 and 4: page 1 has 1+1+2 copies
//
// Most pages have one copy, so the sets of more are small. The zero value is empty and ready.
type copies struct {
	present pageSet
	more    []pageSet // binary digits of the number of further copies, the lowest first
}

// add counts another copy of each of n pages from first on. It returns how many of the leading ones had a copy before.
func (c *copies) add(first page, n int) (known int) {
	for done := 0; done < n; {
		unit, mask, pages := unitOf(first+page(done), n-done)
		had := c.present.get(unit) & mask
		c.present.flip(unit, mask&^had)
		c.increment(unit, had)
		if known == done {
			known += bits.OnesCount64(mask & (mask&^had&-(mask&^had) - 1))
		}
		done += pages
	}
	return known
}

// remove takes away one copy of each of n pages from first on, and appends those that had no other to gone.
func (c *copies) remove(first page, n int, gone kvcache.Blocks) kvcache.Blocks {
	for done := 0; done < n; {
		unit, mask, pages := unitOf(first+page(done), n-done)
		last := mask &^ c.decrement(unit, mask)
		c.present.flip(unit, last)
		for last != 0 {
			at := bits.TrailingZeros64(last)
			gone = gone.Append(page(unit*unitPages)+page(at), bits.TrailingZeros64(^(last >> at)))
			last &= last + 1<<at // without that run of ones
		}
		done += pages
	}
	return gone
}

// increment adds 1 to the further copies of pages of a unit.
func (c *copies) increment(unit, pages uint64) {
	for digit := 0; pages != 0; digit++ {
		if digit == len(c.more) {
			c.more = append(c.more, pageSet{})
		}
		carry := c.more[digit].get(unit) & pages
		c.more[digit].flip(unit, pages)
		pages = carry
	}
}

// decrement subtracts 1 from the further copies of pages of a unit, if they have any. It returns which have.
func (c *copies) decrement(unit, pages uint64) (had uint64) {
	for i := range c.more {
		had |= c.more[i].get(unit) & pages
	}
	pages = had
	for digit := 0; pages != 0; digit++ {
		borrow := pages &^ c.more[digit].get(unit)
		c.more[digit].flip(unit, pages)
		pages = borrow
	}
	return had
}
