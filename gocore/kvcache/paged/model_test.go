package paged

import "dynosim/gocore/kvcache"

// model is the pool once more, in the words of the definition and without any cleverness: maps, scans, and a forest of
// inactive blocks in which every block remembers the tick at which it entered.
type model struct {
	capacity int
	partials int                     // and empty slots of reservations
	refs     map[kvcache.BlockID]int // active full blocks
	pins     map[kvcache.BlockID]int // of these references, those of reservations
	inactive forest
}

func newModel(capacity int, leavesFirst bool) *model {
	return &model{
		capacity: capacity,
		refs:     map[kvcache.BlockID]int{},
		pins:     map[kvcache.BlockID]int{},
		inactive: forest{leavesFirst: leavesFirst, nodes: map[kvcache.BlockID]*node{}},
	}
}

func (m *model) active() int    { return m.partials + len(m.refs) }
func (m *model) available() int { return m.capacity - m.active() }
func (m *model) free() int      { return m.available() - m.inactive.size() }

// use acquires blocks behind parent; it returns the events.
func (m *model) use(parent kvcache.BlockID, blocks []kvcache.BlockID) (events []kvcache.Event, ok bool) {
	hit := make([]bool, len(blocks))
	fresh := 0
	for i, id := range blocks {
		hit[i] = id != Partial && m.acquire(id)
		if !hit[i] {
			fresh++
		}
	}
	if fresh > m.available() {
		for i, id := range blocks { // shallowest first
			if hit[i] {
				m.drop(id)
			}
		}
		return nil, false
	}
	var victims []kvcache.BlockID
	for range fresh - m.free() {
		victims = append(victims, m.inactive.evict())
	}

	cursor := parent
	var batch kvcache.Event
	flush := func() {
		if len(batch.Blocks) > 0 {
			events = append(events, batch)
		}
		batch = kvcache.Event{}
	}
	for i, id := range blocks {
		if id == Partial {
			m.partials++
			continue
		}
		if hit[i] {
			flush()
		} else {
			m.refs[id] = 1
			if len(batch.Blocks) == 0 {
				batch = kvcache.Event{Kind: kvcache.Stored, Parent: cursor, HasParent: cursor != noParent}
			}
			batch.Blocks = batch.Blocks.Append(id, 1)
		}
		cursor = id
	}
	flush()
	if len(victims) > 0 {
		events = append(events, kvcache.Event{Kind: kvcache.Removed, Blocks: kvcache.BlocksOf(victims...)})
	}
	return events, true
}

// reserve pins the leading blocks that are cached and takes empty slots for the others.
func (m *model) reserve(blocks []kvcache.BlockID) (pinned int, events []kvcache.Event, ok bool) {
	for pinned < len(blocks) && blocks[pinned] != Partial && m.acquire(blocks[pinned]) {
		m.pins[blocks[pinned]]++
		pinned++
	}
	missing := len(blocks) - pinned
	if missing > m.available() {
		m.unpin(blocks[:pinned])
		for _, id := range blocks[:pinned] { // shallowest first
			m.drop(id)
		}
		return 0, nil, false
	}
	var victims []kvcache.BlockID
	for range missing - m.free() {
		victims = append(victims, m.inactive.evict())
	}
	m.partials += missing
	if len(victims) > 0 {
		events = []kvcache.Event{{Kind: kvcache.Removed, Blocks: kvcache.BlocksOf(victims...)}}
	}
	return pinned, events, true
}

// activate gives a reservation to a request, block by block. Stored events are those of a use.
func (m *model) activate(blocks []kvcache.BlockID, pinned int) (events []kvcache.Event) {
	m.unpin(blocks[:pinned])
	var batch kvcache.Blocks
	parent, batchParent := noParent, noParent
	flush := func() {
		if len(batch) > 0 {
			events = append(events, kvcache.Event{
				Kind: kvcache.Stored, Parent: batchParent, HasParent: batchParent != noParent, Blocks: batch,
			})
		}
		batch = nil
	}
	for i, id := range blocks {
		switch {
		case i < pinned:
		case id == Partial:
			continue
		case m.acquire(id):
			m.partials--
			flush()
		default:
			m.partials--
			m.refs[id] = 1
			if batch == nil {
				batchParent = parent
			}
			batch = batch.Append(id, 1)
		}
		parent = id
	}
	flush()
	return events
}

func (m *model) cancel(blocks []kvcache.BlockID, pinned int) {
	m.unpin(blocks[:pinned])
	for _, id := range blocks[:pinned] { // shallowest first
		m.drop(id)
	}
	m.partials -= len(blocks) - pinned
}

func (m *model) unpin(blocks []kvcache.BlockID) {
	for _, id := range blocks {
		m.pins[id]--
	}
}

// promote makes a partial block behind parent the full block id.
func (m *model) promote(parent, id kvcache.BlockID) []kvcache.Event {
	m.partials--
	if m.acquire(id) {
		return nil
	}
	m.refs[id] = 1
	return []kvcache.Event{{
		Kind: kvcache.Stored, Parent: parent, HasParent: parent != noParent, Blocks: kvcache.BlocksOf(id),
	}}
}

func (m *model) release(blocks []kvcache.BlockID) {
	for i := len(blocks) - 1; i >= 0; i-- {
		m.drop(blocks[i])
	}
}

// acquire adds a reference to a cached block, if it is one.
func (m *model) acquire(id kvcache.BlockID) bool {
	cached := m.refs[id] > 0
	if m.inactive.has(id) {
		m.inactive.leave(id)
		cached = true
	}
	if cached {
		m.refs[id]++
	}
	return cached
}

func (m *model) drop(id kvcache.BlockID) {
	if id == Partial {
		m.partials--
		return
	}
	m.refs[id]--
	if m.refs[id] == 0 {
		delete(m.refs, id)
		m.inactive.enter(id)
	}
}

// forest is the inactive class. A node that has left while it had children stays as a placeholder, and a child that
// enters before its parent creates one, so that ancestry is not lost.
type forest struct {
	leavesFirst bool // Lineage; otherwise LRU
	nodes       map[kvcache.BlockID]*node
	tick        int
}

type node struct {
	placeholder bool
	tick        int
	children    map[kvcache.BlockID]bool
}

func (f *forest) has(id kvcache.BlockID) bool {
	n := f.nodes[id]
	return n != nil && !n.placeholder
}

func (f *forest) size() int {
	size := 0
	for id := range f.nodes {
		if f.has(id) {
			size++
		}
	}
	return size
}

func (f *forest) enter(id kvcache.BlockID) {
	n := f.node(id)
	n.placeholder, n.tick = false, f.tick
	f.tick++
	if parent := parentOf(id); parent != noParent {
		f.node(parent).children[id] = true
	}
}

func (f *forest) node(id kvcache.BlockID) *node {
	if f.nodes[id] == nil {
		f.nodes[id] = &node{placeholder: true, children: map[kvcache.BlockID]bool{}}
	}
	return f.nodes[id]
}

// leave removes a block, and then every placeholder above it that has no child any more.
func (f *forest) leave(id kvcache.BlockID) {
	f.nodes[id].placeholder = true
	for n := f.nodes[id]; n != nil && n.placeholder && len(n.children) == 0; n = f.nodes[id] {
		delete(f.nodes, id)
		parent := parentOf(id)
		if f.nodes[parent] != nil {
			delete(f.nodes[parent].children, id)
		}
		id = parent
	}
}

// evict removes the leaf with the smallest tick, or with LRU whatever block has the smallest tick.
func (f *forest) evict() kvcache.BlockID {
	victim := noParent
	for id, n := range f.nodes {
		if n.placeholder || f.leavesFirst && len(n.children) > 0 {
			continue
		}
		if victim == noParent || n.tick < f.nodes[victim].tick {
			victim = id
		}
	}
	f.leave(victim)
	return victim
}

// evictionOrder evicts everything from a copy.
func (f *forest) evictionOrder() []kvcache.BlockID {
	rest := forest{leavesFirst: f.leavesFirst, nodes: map[kvcache.BlockID]*node{}, tick: f.tick}
	for id, n := range f.nodes {
		twin := &node{placeholder: n.placeholder, tick: n.tick, children: map[kvcache.BlockID]bool{}}
		for child := range n.children {
			twin.children[child] = true
		}
		rest.nodes[id] = twin
	}
	var order []kvcache.BlockID
	for rest.size() > 0 {
		order = append(order, rest.evict())
	}
	return order
}
