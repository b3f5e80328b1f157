package workload

// prefix identifies a chunk: by its content and everything before it.
type prefix struct {
	parent  uint64 // id of the block before, or noParent
	content uint64 // the token, if all tokens are equal; or a number from contents
}

// prefixTable is a map from prefixes to chunks. Reading a trace spends most of its time with look-ups here.
//
// Most chunks have one successor at most, and chunks that follow each other are mostly numbered in that order. So the
// first chunk that comes after another one is stored in a list, at the number of that other one, so a known prompt is
// found by walking down the list. Only where prompts differ from there on, a hash table has the other successors.
//
//	prompts 0-1-2-3, 0-1-4, 5      first   start: 0   0: 1   1: 2   2: 3   3: -   4: -   5: -
//	                               others  after 1: 4   start: 5
type prefixTable struct {
	perSegment uint64 // engine blocks per chunk
	from       uint64 // what place subtracts: chunks that another interner has numbered have no place in first
	first      []successor
	others     map[prefix]uint32
}

// successor is a chunk that comes after another one, if it is known.
type successor struct {
	content uint64
	chunk   uint32
	known   bool
}

// newPrefixTable makes an empty map for chunks of perSegment blocks. The first chunk that it gets has the number
// firstChunk.
func newPrefixTable(perSegment int, firstChunk uint64) prefixTable {
	p := prefixTable{perSegment: uint64(perSegment), others: make(map[prefix]uint32)}
	if firstChunk > 0 {
		p.from = firstChunk + 1
	}
	return p
}

// place returns where in first the successor of a block stands: the start of all prompts has place 0, and the last
// block of chunk c has place c+1. Other blocks have none.
func (p *prefixTable) place(parent uint64) (place uint64, ok bool) {
	behind := parent + 1 // 0 at the start
	if p.perSegment > 1 {
		if behind%p.perSegment != 0 {
			return 0, false
		}
		behind /= p.perSegment
	}
	return behind - p.from, behind >= p.from
}

// find returns the chunk of a prefix.
func (p *prefixTable) find(x prefix) (chunk uint32, known bool) {
	if place, ok := p.place(x.parent); ok {
		if place >= uint64(len(p.first)) || !p.first[place].known {
			return 0, false
		}
		if s := &p.first[place]; s.content == x.content {
			return s.chunk, true
		}
	}
	chunk, known = p.others[x]
	return chunk, known
}

// add records the chunk of a prefix that is not in the table.
func (p *prefixTable) add(x prefix, chunk uint32) {
	place, ok := p.place(x.parent)
	if !ok {
		p.others[x] = chunk
		return
	}
	if missing := int(place) + 1 - len(p.first); missing > 0 {
		p.first = append(p.first, make([]successor, missing)...)
	}
	if s := &p.first[place]; !s.known {
		*s = successor{content: x.content, chunk: chunk, known: true}
	} else {
		p.others[x] = chunk
	}
}
