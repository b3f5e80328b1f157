package radix

// unitPages is the number of consecutive pages that are looked up together.
const unitPages = 64

// unitOf returns the unit of 64 pages in which first lies, and which of its pages, and how many, are among the n from
// first on.
func unitOf(first page, n int) (unit, mask uint64, pages int) {
	unit, bit := uint64(first)/unitPages, uint64(first)%unitPages
	pages = min(n, int(unitPages-bit))
	return unit, ^uint64(0) >> (unitPages - pages) << bit, pages
}

// pageSet is a set of pages, read and changed a unit at a time.
//
// It is a hash table with open addressing and linear probing. An entry without pages is free. The zero value is empty
// and ready.
type pageSet struct {
	entries []pageUnit // the length is a power of two, at most half of them are used
	used    int
	shift   uint // 64 - log2(len(entries))
}

// pageUnit is the members among pages 64*unit to 64*unit+63.
type pageUnit struct {
	unit  uint64
	pages uint64
}

// get returns the members of a unit.
func (s *pageSet) get(unit uint64) uint64 {
	if s.used == 0 {
		return 0
	}
	return s.find(unit).pages
}

// flip adds those of pages that are not in the set and removes those that are.
func (s *pageSet) flip(unit, pages uint64) {
	if pages == 0 {
		return
	}
	if 2*(s.used+1) > len(s.entries) {
		s.grow()
	}
	e := s.find(unit)
	if e.pages == 0 {
		e.unit = unit
		s.used++
	}
	if e.pages ^= pages; e.pages == 0 {
		s.used--
		s.close(unit)
	}
}

// find returns the entry of a unit, or the free one where it belongs. The table must have been grown once.
func (s *pageSet) find(unit uint64) *pageUnit {
	mask := len(s.entries) - 1
	for i := s.home(unit); ; i = (i + 1) & mask {
		if e := &s.entries[i]; e.pages == 0 || e.unit == unit {
			return e
		}
	}
}

// home spreads consecutive units over the table (Fibonacci hashing).
func (s *pageSet) home(unit uint64) int { return int(unit * 0x9E3779B97F4A7C15 >> s.shift) }

// close moves later entries of a probe run over the entry that has just become free, so that no tombstones are needed.
func (s *pageSet) close(unit uint64) {
	mask := len(s.entries) - 1
	hole := s.home(unit)
	for s.entries[hole].pages != 0 {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; s.entries[i].pages != 0; i = (i + 1) & mask {
		if home := s.home(s.entries[i].unit); (i-home)&mask >= (i-hole)&mask { // its run began at or before the hole
			s.entries[hole] = s.entries[i]
			s.entries[i].pages = 0
			hole = i
		}
	}
}

func (s *pageSet) grow() {
	old := s.entries
	if len(old) == 0 {
		s.entries, s.shift = make([]pageUnit, 16), 64-4
		return
	}
	s.entries = make([]pageUnit, 2*len(old))
	s.shift--
	for _, e := range old {
		if e.pages != 0 {
			*s.find(e.unit) = e
		}
	}
}
