package vllm

import (
	"slices"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache/paged"
)

// Models with sliding windows or linear attention keep their KV in several groups of layers, which share one pool of
// blocks. The first group is one of full attention: its blocks are those of a model with a single group. The others are
// alike, and each has a table of its own for a request. An entry of a table stands for a block of tokens; it is a
// block, or null where none is needed:
//
//	tokens         0..15  16..31  32..47  48..63  64..79   80..95      blocks of 16; 96 tokens are computed
//	full           a      b       c       d       e        f
//	window of 32   -      -       -       -       g        h           the next token sees tokens 65 to 96
//	linear         -      -       -       -       -        i           the state after 96 tokens
//
// docs/hybrid.md explains what that means for capacity and for prefix hits.

// groups are those beside the one of full attention.
type groups struct {
	engineargs.Groups
	run    int // blocks that a hit needs at its end
	period int // of those that retention keeps, in blocks; 0 for none
}

func newGroups(args engineargs.Args) groups {
	g := args.VLLM.Groups
	return groups{Groups: g, run: g.Run(args.BlockSize), period: g.Retention / args.BlockSize}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// tables are what a request has in the groups beside the first. They only differ in their blocks.
type tables struct {
	entries  int          // of each table
	kept     []int        // entries that are not null, in order
	slots    []paged.Slot // those of entry kept[i] from i times the number of groups on; PartialSlot is not registered
	old      int          // of linear groups: the entry that was last before the table grew; -1 for none
	junction int          // blocks up to where the full group had a longer hit, 0 for none
}

func (t *tables) reset() {
	*t = tables{kept: t.kept[:0], slots: t.slots[:0], old: -1}
}

// dispensable returns the number of leading entries that a request does not need once computed tokens are computed.
func (s *Scheduler) dispensable(computed int) int {
	if s.groups.Linear {
		return s.wholeBlocks(max(0, computed-1))
	}
	return s.wholeBlocks(max(0, computed-s.groups.Window+1))
}

// landed returns the number of tokens of r that are computed by passes that have ended.
func (s *Scheduler) landed(r *sequence) int {
	if b := s.flying; b != nil && r.servedIn == b.number {
		return r.computed - r.share.tokens
	}
	return r.computed
}

// trim gives back the blocks that a running request no longer needs.
func (s *Scheduler) trim(r *sequence) {
	t := &r.tables
	if s.groups.Beside == 0 || len(t.kept) == 0 {
		return
	}
	landed := s.landed(r)
	spare := s.dispensable(landed)
	first, last := 0, 0 // of the kept entries below spare, those that go
	for last < len(t.kept) && t.kept[last] < spare {
		last++
	}
	if s.groups.Linear && !s.differs.passesNulls {
		for first = last; first > 0 && t.kept[first-1] == spare-1-(last-first); first-- {
		}
	}
	s.drop(r, first, last)
	if t.old >= 0 && t.old < s.ceilBlocks(landed)-1 {
		if i, found := slices.BinarySearch(t.kept, t.old); found {
			s.drop(r, i, i+1)
		}
		t.old = -1
	}
}

// drop sets the kept entries from first to before last to null, group after group, the last one first.
func (s *Scheduler) drop(r *sequence, first, last int) {
	if first == last {
		return
	}
	s.register(r, min(r.computed, r.tokens()-1))
	t, count := &r.tables, s.groups.Beside
	before := s.pool.InUse()
	for g := range count {
		for i := last - 1; i >= first; i-- {
			if slot := t.slots[i*count+g]; !paged.IsUnregistered(slot) {
				s.pool.Drop(slot)
			}
		}
		for i := first; i < last; i++ { // of blocks without content the last one that is given back is taken first
			if slot := t.slots[i*count+g]; paged.IsUnregistered(slot) {
				s.pool.DiscardNamed(slot)
			}
		}
	}
	s.use.others -= before - s.pool.InUse()
	if s.pool.Free() >= s.headNeeds {
		s.headWaits = false
	}
	t.kept = slices.Delete(t.kept, first, last)
	t.slots = slices.Delete(t.slots, first*count, last*count)
}

// grown returns the number of blocks that one table takes when it grows from entries entries to the number to.
func (s *Scheduler) grown(entries, to int) int {
	if s.groups.Linear {
		return min(1, max(0, to-entries))
	}
	return max(0, to-entries)
}

// grow extends the tables to the number of entries in to. The unregistered blocks for them have been taken from the
// pool.
func (s *Scheduler) grow(r *sequence, to int) {
	t := &r.tables
	if to <= t.entries {
		return
	}
	from := t.entries
	if s.groups.Linear {
		t.old = t.entries - 1
		from = to - 1
	}
	for entry := from; entry < to; entry++ {
		t.kept = append(t.kept, entry)
	}
	held := len(t.slots)
	t.slots = slices.Grow(t.slots, s.groups.Beside*(to-from))[:s.groups.Beside*len(t.kept)]
	for i := held; i < len(t.slots); i++ {
		t.slots[i] = paged.PartialSlot
	}
	s.use.others += len(t.slots) - held
	t.entries = to
}

// registerBeside registers those of the entries from..to-1 that are not null and are retained.
func (s *Scheduler) registerBeside(r *sequence, from, to int) {
	t, count := &r.tables, s.groups.Beside
	first, _ := slices.BinarySearch(t.kept, from)
	s.stay = s.stay[:0]
	for i := first; i < len(t.kept) && t.kept[i] < to; i++ {
		if s.retained(r, t.kept[i]) {
			s.stay = append(s.stay, i)
		}
	}
	for g := range count {
		for _, i := range s.stay {
			slot := s.pool.RegisterInGroup(&r.key, t.kept[i], g+1)
			t.slots[i*count+g] = slot
			if s.groups.Linear && s.composing != nil {
				s.newStates = append(s.newStates, paged.InGroup(r.key.Block(t.kept[i]), g+1))
			}
		}
	}
}

// retained reports whether an entry is kept for later prompts.
func (s *Scheduler) retained(r *sequence, entry int) bool {
	return s.groups.Retention == engineargs.RetainAll || s.endsHit(r, entry, 1)
}

// endsHit reports whether an entry is among those that a later prompt needs at the end of a hit. Hits end with whole
// parts of size entries: where retention has it, where the longest hit of the same prompt does, and where full
// attention had a longer one.
func (s *Scheduler) endsHit(r *sequence, entry, size int) bool {
	g := &s.groups
	endsAt := func(entries int) bool {
		end := entries / size * size
		return entry < end && entry >= end-g.run
	}
	period := g.period
	if g.Retention == engineargs.RetainAll {
		period = size
	}
	return period > 0 && entry%period >= period-g.run ||
		endsAt(s.wholeBlocks(r.promptTokens-1)) || endsAt(r.tables.junction)
}

// releaseTables gives back all blocks of r in the groups beside the first.
func (s *Scheduler) releaseTables(r *sequence) {
	s.drop(r, 0, len(r.tables.kept))
	r.tables.reset()
}

// prefix is what the pool has of a request that waits.
type prefix struct {
	blocks int // of the hit
	held   int // of the blocks that the full group has of it, those that requests hold
	skip   int // entries of the other groups that stay null
	unused int // blocks of the other groups from there on that no request holds
	fresh  bool
}

// cut shortens the hit of the full group to what all groups have.
func (s *Scheduler) cut(r *sequence, p *prefix) {
	long := p.blocks
	if s.groups.Linear {
		p.blocks = s.lastState(r, long)
	} else {
		p.blocks = s.lastWindow(r, long)
	}
	r.tables.junction = 0
	if p.blocks < long {
		r.tables.junction = long
	}
	p.skip = min(p.blocks, s.dispensable(p.blocks*s.blockSize))
	for g := range s.groups.Beside {
		for i := p.skip; i < p.blocks; i++ {
			id := paged.InGroup(r.key.Block(i), g+1)
			if _, inUse, _ := s.pool.Find(id); !inUse {
				p.unused++
			}
			p.fresh = p.fresh || slices.Contains(s.newStates, id) // even if an older copy is what it finds
		}
	}
}

// lastState returns the length, at most blocks, of the longest prefix at whose end all groups have a state.
func (s *Scheduler) lastState(r *sequence, blocks int) int {
	for blocks > 0 && !s.allHave(r, blocks-1) {
		blocks--
	}
	return blocks
}

// lastWindow returns the length of the longest prefix, of at most the given number of blocks, whose last blocks all
// groups have: those of a window, or all if there are fewer.
func (s *Scheduler) lastWindow(r *sequence, blocks int) int {
	run := 0
	for i := blocks - 1; i >= 0; i-- {
		if run++; !s.allHave(r, i) {
			run = 0
		} else if run == s.groups.run {
			return i + run
		}
	}
	return run
}

// allHave reports whether all groups beside the first have a block.
func (s *Scheduler) allHave(r *sequence, block int) bool {
	id := r.key.Block(block)
	for g := range s.groups.Beside {
		if _, _, ok := s.pool.Find(paged.InGroup(id, g+1)); !ok {
			return false
		}
	}
	return true
}

// holdBeside makes r hold the blocks of a hit in the groups beside the first.
func (s *Scheduler) holdBeside(r *sequence, p prefix) {
	t, count := &r.tables, s.groups.Beside
	t.entries = p.blocks
	for i := p.skip; i < p.blocks; i++ {
		t.kept = append(t.kept, i)
	}
	t.slots = slices.Grow(t.slots, count*len(t.kept))[:count*len(t.kept)]
	before := s.pool.InUse()
	for g := range count {
		for i, entry := range t.kept {
			slot, _, _ := s.pool.Find(paged.InGroup(r.key.Block(entry), g+1))
			s.pool.Hold(slot)
			t.slots[i*count+g] = slot
		}
	}
	s.use.others += s.pool.InUse() - before
}

// neededBeside returns how many free blocks the groups beside the first take if a request is admitted with that many
// blocks.
func (s *Scheduler) neededBeside(p prefix, blocks int) int {
	if s.groups.Linear {
		return p.unused + s.groups.Beside*min(1, max(0, blocks-p.blocks))
	}
	return p.unused + s.groups.Beside*max(0, blocks-max(p.skip, p.blocks))
}

// waitBeside notes how many blocks the head of the queue needs free at least, mark included, whatever is evicted until
// then: full ones of the full group, and in each other group those beyond a hit. Blocks of the hit that no request
// holds do not count: equal ones that a request holds may be found once they are evicted.
func (s *Scheduler) waitBeside(full, beyond, mark int) {
	if !s.rules.ReserveFullISL {
		return
	}
	if s.groups.Linear {
		beyond = min(1, beyond)
	}
	s.headNeeds = full + s.groups.Beside*max(0, beyond) + mark
	s.headWaits = s.headNeeds > s.pool.Free()
}

// mostWindow bounds the blocks that a window has of a request while its prompt is computed.
func (s *Scheduler) mostWindow(blocks int) int {
	if s.groups.Linear || s.args.MaxNumBatchedTokens > blocks*s.blockSize {
		return blocks
	}
	flights := 1
	if s.rules.Async {
		flights = 2
	}
	return min(blocks, ceilDiv(s.groups.Window-1+s.args.MaxNumBatchedTokens*flights, s.blockSize)+1)
}

// chunk returns how many of the next tokens of r, which begin at start, a pass computes: prompts of a model with linear
// attention stop where a state can be found again.
func (s *Scheduler) chunk(r *sequence, start, tokens int) int {
	total := r.tokens()
	bound := max(r.promptTokens, total-1)
	if !s.groups.Linear || start >= bound {
		return tokens
	}
	size, end := s.blockSize, start+tokens
	if end < bound {
		budget := s.args.MaxNumBatchedTokens
		if limit := s.rules.LongPrefillTokenThreshold; limit > 0 {
			budget = min(budget, limit)
		}
		if whole := end / size * size; whole > start || size <= budget {
			end = whole
		}
	}
	lastStop := total
	if s.differs.stopsShort {
		lastStop--
	}
	stop := end
	consider := func(at int) {
		if start < at {
			stop = min(stop, at)
		}
	}
	if start%size > 0 {
		consider(ceilDiv(start, size) * size)
	}
	consider(lastStop / size * size)
	if j := r.tables.junction * size; start < j && j < end {
		consider(start + (j-start)/size*size)
	}
	return max(0, stop-start)
}

// untilTrim returns the number of batches until one gives back a block of r, which merely decodes: none does before.
func (s *Scheduler) untilTrim(r *sequence) int {
	ahead, landed := 1, r.computed // batches composed before the tokens of one have landed; what has in the next one
	if s.rules.Async {
		ahead, landed = 2, r.share.start
	}
	wait := s.blockSize
	for _, entry := range r.tables.kept {
		at := (entry + 1) * s.blockSize // computed tokens from which it can go
		if s.groups.Linear {
			at++
		} else {
			at += s.groups.Window - 1
		}
		if stays := s.groups.Linear && !s.differs.passesNulls && entry != r.tables.old; stays &&
			at+s.blockSize <= landed {
			continue // passed over once, and for ever
		}
		wait = min(wait, max(1, at-r.computed+ahead))
		if !s.groups.Linear {
			break
		}
	}
	return wait
}
