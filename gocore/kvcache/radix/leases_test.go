package radix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestLeasePool lets a few requests at a time do what a scheduler makes requests do, in any order, and compares the
// pool with a slow model after every step.
func TestLeasePool(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 5))
		pageSize := 1 + rng.IntN(4)
		pages := 15 + rng.IntN(50)
		s := &leaseScript{
			rng: rng, pageSize: pageSize, pool: NewLeases(pages*pageSize, pageSize),
			model: leaseModel{pageSize: pageSize, free: pages * pageSize, root: &modelNode{}},
		}
		s.pool.Record()
		for step := range 300 {
			what := s.step()
			if err := s.compare(); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed, step, what, err)
			}
		}
		for len(s.requests) > 0 {
			s.close(0)
		}
		if err := s.compare(); err != nil || s.pool.Available() != s.pool.Total() {
			t.Fatalf("seed %d: at the end %d of %d slots are available: %v", seed, s.pool.Available(), s.pool.Total(),
				err)
		}
	}
}

// leaseScript drives the pool and its model.
type leaseScript struct {
	rng      *rand.Rand
	pageSize int
	namer    kvcache.Namer
	pool     *LeasePool
	model    leaseModel
	requests []*leaseRequest
	got      [2]int // what the last call returned: of the pool, and of the model
}

type leaseRequest struct {
	lease  Lease
	model  modelLease
	prompt int // tokens
	tokens int // of the prompt and the output
	has    int // tokens that have a slot
}

// step does one thing and says what.
func (s *leaseScript) step() string {
	if len(s.requests) == 0 || len(s.requests) < 6 && s.rng.IntN(4) == 0 {
		return s.open()
	}
	i := s.rng.IntN(len(s.requests))
	r := s.requests[i]
	switch choice := s.rng.IntN(12); {
	case choice == 0:
		s.close(i)
		return "retraction"
	case choice == 1:
		key, tokens := s.newKey()
		found, _ := s.pool.Refresh(&key, tokens)
		s.got = [2]int{found, s.model.refresh(ids(&key, tokens/s.pageSize))}
		return "look-up"
	case choice == 2:
		slots := s.rng.IntN(s.pool.Total() + 1)
		s.got = [2]int{asInt(s.pool.MakeRoom(slots)), asInt(s.model.makeRoom(slots))}
		return "making room"
	case r.has < r.prompt:
		return s.grow(r, min(r.prompt, r.has+1+s.rng.IntN(4*s.pageSize)))
	case r.has < r.tokens:
		return s.grow(r, min(r.tokens, r.has+1+s.rng.IntN(s.pageSize)))
	}
	s.share(r)
	s.close(i)
	return "end"
}

func (s *leaseScript) open() string {
	key, prompt := s.newKey()
	r := &leaseRequest{lease: Lease{Key: key}, prompt: prompt, tokens: prompt + s.rng.IntN(4*s.pageSize)}
	r.has = s.pool.Open(&r.lease, prompt-1)
	s.got = [2]int{r.has, s.model.open(&r.model, ids(&key, (prompt-1)/s.pageSize))}
	s.requests = append(s.requests, r)
	return "opening"
}

// newKey returns a prompt of one of few families, some with names for pages of the output. It has two tokens at least.
func (s *leaseScript) newKey() (key kvcache.Key, prompt int) {
	family, pages := uint32(100_000*s.rng.IntN(3)), 1+s.rng.IntN(12)
	segments := make([]uint32, pages+4)
	branch := s.rng.IntN(len(segments) + 1)
	for i := range segments {
		segments[i] = family + uint32(i)
		if i >= branch { // equal beginnings have equal ids, others differ
			segments[i] += uint32(100 * (1 + branch))
		}
	}
	prompt = max(2, pages*s.pageSize-s.rng.IntN(s.pageSize))
	shareable := prompt / s.pageSize
	if s.rng.IntN(4) == 0 {
		shareable += s.rng.IntN(4)
	}
	return s.namer.Key(kvcache.Prompt{Segments: segments, PerSegment: 1}, shareable, pages+8), prompt
}

// grow gives a request slots, if there are any, and shares what is computed as the next parts of a prompt do.
func (s *leaseScript) grow(r *leaseRequest, tokens int) string {
	slots := (tokens+s.pageSize-1)/s.pageSize*s.pageSize - r.model.slots
	s.got = [2]int{asInt(s.pool.MakeRoom(slots)), asInt(s.model.makeRoom(slots))}
	if s.got[0] == 0 {
		return "lack of room"
	}
	s.pool.Grow(&r.lease, tokens)
	s.model.free -= slots
	r.model.slots += slots
	r.has = tokens
	if tokens <= r.prompt && s.rng.IntN(2) == 0 {
		s.share(r)
		return "sharing"
	}
	return "growth"
}

func (s *leaseScript) share(r *leaseRequest) {
	s.pool.Share(&r.lease, r.has, r.prompt)
	s.model.share(&r.model, ids(&r.lease.Key, r.has/s.pageSize), r.prompt/s.pageSize)
}

func (s *leaseScript) close(i int) {
	r := s.requests[i]
	s.pool.Close(&r.lease)
	s.model.close(&r.model)
	s.requests = slices.Delete(s.requests, i, i+1)
}

func (s *leaseScript) compare() error {
	if s.got[0] != s.got[1] {
		return fmt.Errorf("returned %d, want %d", s.got[0], s.got[1])
	}
	if free, available := s.model.free, s.model.free+s.model.evictable(); s.pool.Free() != free ||
		s.pool.Available() != available {
		return fmt.Errorf("%d slots are free and %d available, want %d and %d", s.pool.Free(), s.pool.Available(), free,
			available)
	}
	if got, want := fmt.Sprint(flat(s.pool.TakeEvents())), fmt.Sprint(s.model.events); got != want {
		return fmt.Errorf("events\n%s, want\n%s", got, want)
	}
	s.model.events = nil
	return nil
}

// flat lists stored pages as positive numbers and removed ones as negative ones.
func flat(events []kvcache.Event) (all []int) {
	for _, e := range events {
		for id := range e.Blocks.All() {
			if e.Kind == kvcache.Removed {
				all = append(all, -int(id))
			} else {
				all = append(all, int(id))
			}
		}
	}
	return all
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func ids(key *kvcache.Key, pages int) []kvcache.BlockID { return key.AppendBlocks(nil, 0, pages) }

// leaseModel is what a LeasePool stands for, with nothing kept up to date: all it wants to know it looks for among all
// nodes.
type leaseModel struct {
	pageSize, free int
	root           *modelNode
	nodes          []*modelNode // but the root
	uses           int
	events         []int // as flat has them
}

type modelNode struct {
	parent *modelNode
	pages  []kvcache.BlockID
	used   int
	leases int
}

type modelLease struct {
	node          *modelNode
	cached, slots int
}

// walk follows pages to the deepest node that they cover as a whole, and on to a child of which they cover common
// pages.
func (m *leaseModel) walk(pages []kvcache.BlockID) (last, child *modelNode, common, at int) {
	last = m.root
	for at < len(pages) {
		i := slices.IndexFunc(m.nodes, func(n *modelNode) bool { return n.parent == last && n.pages[0] == pages[at] })
		if i < 0 {
			break
		}
		n, common := m.nodes[i], 0
		for common < len(n.pages) && at+common < len(pages) && n.pages[common] == pages[at+common] {
			common++
		}
		if common < len(n.pages) {
			return last, n, common, at
		}
		last, at = n, at+common
	}
	return last, nil, 0, at
}

// use cuts the node in which pages end, makes all nodes that they come through the youngest, and returns the last one,
// and how many pages it covers.
func (m *leaseModel) use(pages []kvcache.BlockID) (end *modelNode, covered int) {
	m.uses++
	end, child, common, covered := m.walk(pages)
	if child != nil {
		end, covered = m.cut(child, common), covered+common
		child.used = m.uses
	}
	for n := end; n != m.root; n = n.parent {
		n.used = m.uses
	}
	return end, covered
}

// cut makes the first pages of a node a node of its own, above it.
func (m *leaseModel) cut(n *modelNode, pages int) *modelNode {
	upper := &modelNode{parent: n.parent, pages: n.pages[:pages], used: n.used}
	n.parent, n.pages = upper, n.pages[pages:]
	m.nodes = append(m.nodes, upper)
	return upper
}

func (m *leaseModel) refresh(pages []kvcache.BlockID) (tokens int) {
	_, covered := m.use(pages)
	return covered * m.pageSize
}

func (m *leaseModel) open(l *modelLease, pages []kvcache.BlockID) (tokens int) {
	end, covered := m.use(pages)
	end.leases++
	*l = modelLease{node: end, cached: covered * m.pageSize, slots: covered * m.pageSize}
	return l.cached
}

func (m *leaseModel) share(l *modelLease, pages []kvcache.BlockID, prompt int) {
	end, covered := m.use(pages)
	m.free += covered*m.pageSize - l.cached
	if covered < len(pages) {
		m.uses++
		end = &modelNode{parent: end, pages: pages[covered:], used: m.uses}
		m.nodes = append(m.nodes, end)
		m.tell(end.pages, +1)
	}
	l.node.leases--
	end.leases++
	l.node, l.cached = end, len(pages)*m.pageSize
	if prompt < len(pages) {
		if _, child, common, _ := m.walk(pages[:prompt]); common > 0 {
			m.cut(child, common)
		}
	}
}

func (m *leaseModel) close(l *modelLease) {
	m.free += l.slots - l.cached
	l.node.leases--
}

// makeRoom evicts the leaf that was not used for longest, again and again.
func (m *leaseModel) makeRoom(slots int) bool {
	for m.free < slots {
		var oldest *modelNode
		for _, n := range m.nodes {
			isLeaf := !slices.ContainsFunc(m.nodes, func(c *modelNode) bool { return c.parent == n })
			if isLeaf && n.leases == 0 && (oldest == nil || n.used < oldest.used) {
				oldest = n
			}
		}
		if oldest == nil {
			return false
		}
		m.free += len(oldest.pages) * m.pageSize
		m.tell(oldest.pages, -1)
		m.nodes = slices.DeleteFunc(m.nodes, func(n *modelNode) bool { return n == oldest })
	}
	return true
}

// tell notes pages that other requests may have, stored (+1) or removed (-1).
func (m *leaseModel) tell(pages []kvcache.BlockID, sign int) {
	for _, id := range pages {
		if id < kvcache.PrivateIDs {
			m.events = append(m.events, sign*int(id))
		}
	}
}

// evictable returns the tokens of nodes that no request needs.
func (m *leaseModel) evictable() (tokens int) {
	needed := map[*modelNode]bool{}
	for _, n := range m.nodes {
		for at := n; n.leases > 0 && at != m.root; at = at.parent {
			needed[at] = true
		}
	}
	for _, n := range m.nodes {
		if !needed[n] {
			tokens += len(n.pages) * m.pageSize
		}
	}
	return tokens
}
