package sglang

import (
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
)

// model is the engine as it is described, slow and obvious: sequences of tokens, numbered slots, a tree whose every
// walk starts at the root and touches every node it passes, requests that are looked at in every pass. The real one
// must do the same, pass by pass. It rejects nothing and knows no way out of a dead end.
type model struct {
	args    engineargs.Args
	page    int
	total   int
	clock   timing.Clock
	drafts  *speculation.Drafts
	free    []int
	root    *modelNode
	ticks   int
	ratio   float64
	waiting []*modelRequest
	running []*modelRequest

	pages      map[string]int // numbers of pages by all tokens up to their end
	registered map[int]int    // page number by the last slot of a page
	copies     map[int]int    // registered slots by page number
	events     []modelEvent
}

// modelEvent is a KV event in page numbers; parent is -1 without one.
type modelEvent struct {
	stored bool
	pages  []int
	parent int
}

type modelNode struct {
	parent   *modelNode
	children []*modelNode
	tokens   []int
	slots    []int
	locks    int
	used     int
}

type modelRequest struct {
	id       int
	sequence []int // prompt and outputs
	prompt   int
	maxOut   int
	reply    []int // first outputs
	slots    []int
	cached   int
	alloc    int
	node     *modelNode
	emitted  bool // in the last emitting pass
}

func newModel(args engineargs.Args) *model {
	m := &model{
		args:   args,
		page:   args.BlockSize,
		total:  args.BlockSize * args.NumGPUBlocks,
		clock:  timing.Clock{Speedup: args.SpeedupRatio, DecodeSpeedup: args.DecodeSpeedupRatio},
		drafts: setup(args, engine.Aggregated).Drafts,
		root:   &modelNode{},
		ratio:  0.7 * args.SGLang.Conservativeness,

		pages: map[string]int{}, registered: map[int]int{}, copies: map[int]int{},
	}
	for slot := m.total - 1; slot >= 0; slot-- {
		m.free = append(m.free, slot)
	}
	return m
}

func (m *model) add(id int, w workload) {
	a := w.arrivals[id]
	m.waiting = append(m.waiting, &modelRequest{id: id, sequence: w.tokens(a), prompt: a.prompt, maxOut: a.output,
		reply: a.reply})
}

func (r *modelRequest) outputs() int   { return len(r.sequence) - r.prompt }
func (r *modelRequest) remaining() int { return max(0, r.maxOut-r.outputs()) }
func (r *modelRequest) overhead() int  { return max(0, r.alloc-len(r.slots)) }

// output returns output token k.
func (r *modelRequest) output(k int) int {
	if k < len(r.reply) {
		return r.reply[k]
	}
	return 1_000_000 + r.id*10_000 + k
}

func (m *model) ceil(n int) int  { return (n + m.page - 1) / m.page * m.page }
func (m *model) floor(n int) int { return n / m.page * m.page }

// The slots.

func (m *model) take(n int) []int {
	taken := slices.Clone(m.free[len(m.free)-n:])
	m.free = m.free[:len(m.free)-n]
	return taken
}

func (m *model) giveBack(slots []int) { m.free = append(m.free, slots...) }

// The events.

// pageNumber returns the number of the page that ends with the last of the tokens.
func (m *model) pageNumber(tokens []int) int {
	key := fmt.Sprint(tokens)
	number, known := m.pages[key]
	if !known {
		number = len(m.pages)
		m.pages[key] = number
	}
	return number
}

func (m *model) announce(tokens, slots []int, firstNew int) {
	var pages []int
	parent, first := -1, -1
	for start := m.floor(firstNew); start+m.page <= len(tokens); start += m.page {
		last := slots[start+m.page-1]
		if _, known := m.registered[last]; known {
			continue
		}
		number := m.pageNumber(tokens[:start+m.page])
		m.registered[last] = number
		m.copies[number]++
		pages = append(pages, number)
		if m.copies[number] == 1 && first < 0 {
			first = len(pages) - 1
			if start > 0 {
				parent = m.registered[slots[start-1]]
			}
		}
	}
	if first >= 0 {
		m.events = append(m.events, modelEvent{stored: true, pages: pages[first:], parent: parent})
	}
}

func (m *model) withdraw(slots []int) {
	var pages []int
	for _, slot := range slots {
		number, known := m.registered[slot]
		if !known {
			continue
		}
		delete(m.registered, slot)
		m.copies[number]--
		if m.copies[number] == 0 {
			pages = append(pages, number)
		}
	}
	if pages != nil {
		m.events = append(m.events, modelEvent{pages: pages, parent: -1})
	}
}

// The tree.

func (m *model) tick() int {
	m.ticks++
	return m.ticks
}

func (n *modelNode) child(key []int, page int) *modelNode {
	for _, c := range n.children {
		if len(key) >= page && slices.Equal(c.tokens[:page], key[:page]) {
			return c
		}
	}
	return nil
}

func commonTokens(a, b []int, page int) int {
	n := 0
	for n+page <= len(a) && n+page <= len(b) && slices.Equal(a[n:n+page], b[n:n+page]) {
		n += page
	}
	return n
}

func (m *model) split(n *modelNode, at int) *modelNode {
	upper := &modelNode{
		parent: n.parent, children: []*modelNode{n}, tokens: n.tokens[:at], slots: n.slots[:at], locks: n.locks,
		used: n.used,
	}
	siblings := n.parent.children
	siblings[slices.Index(siblings, n)] = upper
	n.parent, n.tokens, n.slots = upper, n.tokens[at:], n.slots[at:]
	return upper
}

func (m *model) match(key []int) (*modelNode, []int) {
	now := m.tick()
	at, slots := m.root, []int(nil)
	for {
		c := at.child(key, m.page)
		if c == nil {
			return at, slots
		}
		n := commonTokens(c.tokens, key, m.page)
		if n < len(c.tokens) {
			upper := m.split(c, n)
			return upper, append(slots, upper.slots...)
		}
		c.used = now
		slots = append(slots, c.slots...)
		key = key[n:]
		at = c
	}
}

func (m *model) matchLength(key []int) int {
	at, length := m.root, 0
	for {
		c := at.child(key, m.page)
		if c == nil {
			return length
		}
		n := commonTokens(c.tokens, key, m.page)
		length += n
		if n < len(c.tokens) {
			return length
		}
		key = key[n:]
		at = c
	}
}

func (m *model) insert(key, slots []int) {
	now := m.tick()
	key = key[:m.floor(len(key))]
	at := m.root
	for {
		c := at.child(key, m.page)
		if c == nil {
			break
		}
		n := commonTokens(c.tokens, key, m.page)
		key, slots = key[n:], slots[n:]
		if n < len(c.tokens) {
			at = m.split(c, n)
			break
		}
		c.used = now
		at = c
	}
	if len(key) > 0 {
		at.children = append(at.children, &modelNode{
			parent: at, tokens: slices.Clone(key), slots: slices.Clone(slots[:len(key)]), used: m.tick(),
		})
	}
}

func lockPath(n *modelNode, change int) {
	for ; n != nil && n.parent != nil; n = n.parent {
		n.locks += change
		if n.locks < 0 {
			panic("model: unlocked too often")
		}
	}
}

func (m *model) walk(see func(*modelNode)) {
	var visit func(*modelNode)
	visit = func(n *modelNode) {
		for _, c := range n.children {
			see(c)
			visit(c)
		}
	}
	visit(m.root)
}

func (m *model) evictable() (tokens int) {
	m.walk(func(n *modelNode) {
		if n.locks == 0 {
			tokens += len(n.tokens)
		}
	})
	return tokens
}

func (m *model) protected() (tokens int) {
	m.walk(func(n *modelNode) {
		if n.locks > 0 {
			tokens += len(n.tokens)
		}
	})
	return tokens
}

func (m *model) evict(tokens int) {
	var evicted []int
	defer func() { m.withdraw(evicted) }()
	for len(evicted) < tokens {
		var oldest *modelNode
		m.walk(func(n *modelNode) {
			if n.locks == 0 && len(n.children) == 0 && (oldest == nil || n.used < oldest.used) {
				oldest = n
			}
		})
		if oldest == nil {
			return
		}
		m.giveBack(oldest.slots)
		evicted = append(evicted, oldest.slots...)
		siblings := oldest.parent.children
		i := slices.Index(siblings, oldest)
		oldest.parent.children = slices.Delete(siblings, i, i+1)
	}
}

// The pass.

func (m *model) runPass(now float64) engine.Pass {
	p := engine.Pass{StartMs: now}
	initial := 0.7 * m.args.SGLang.Conservativeness
	m.order()
	batch, ends, hits := m.admit(&p)
	for _, r := range batch {
		if len(r.slots) == len(r.sequence) {
			m.running = append(m.running, r)
		} else {
			m.cache(r)
			m.waiting = slices.Insert(m.waiting, 0, r)
		}
	}
	p.EndMs = now + m.clock.PrefillSeconds(len(batch), ends, hits)*1000
	retracted := m.decode(&p)
	m.waiting = append(retracted, m.waiting...)
	if len(retracted) > 0 {
		m.ratio = initial
	}
	lowest := initial * 0.14
	m.ratio = max(m.ratio-(initial-lowest)/600, lowest)
	return p
}

func (m *model) ratioMayHelp() bool {
	lowest := 0.7 * m.args.SGLang.Conservativeness * 0.14
	return m.drafts != nil && len(m.running) > 0 && len(m.waiting) > 0 && m.ratio > lowest
}

func (m *model) order() {
	if m.args.SGLang.Policy != engineargs.LPM || len(m.waiting) > 128 {
		return
	}
	scratch := &model{page: m.page, root: &modelNode{}}
	hits, demoted := map[*modelRequest]int{}, map[*modelRequest]bool{}
	for _, r := range m.waiting {
		hits[r] = m.matchLength(r.sequence)
		if hits[r] > 32 {
			continue
		}
		if scratch.matchLength(r.sequence) >= 32 {
			demoted[r] = true
		} else {
			scratch.insert(r.sequence, r.sequence)
		}
	}
	slices.SortStableFunc(m.waiting, func(a, b *modelRequest) int {
		if demoted[a] != demoted[b] {
			if demoted[a] {
				return 1
			}
			return -1
		}
		return hits[b] - hits[a]
	})
}

func (m *model) admit(p *engine.Pass) (batch []*modelRequest, ends, hits int) {
	limits := m.args.SGLang
	reserved, overhead := 0.0, 0
	for _, r := range m.running {
		reserved += float64(min(r.remaining(), limits.ClipMaxNewTokens)) * m.ratio
		overhead += r.overhead()
	}
	for _, r := range m.waiting {
		overhead += r.overhead()
	}
	total := float64(max(0, len(m.free)+m.evictable()-overhead)) - reserved
	input, chunks := float64(limits.MaxPrefillTokens), float64(limits.ChunkedPrefillSize)
	places := max(0, m.args.MaxNumSeqs-len(m.running))
	for len(batch) < places && len(m.waiting) > 0 {
		r := m.waiting[0]
		rest := len(r.sequence) - len(r.slots)
		chunk := rest
		if rest > limits.ChunkedPrefillSize {
			chunk = min(rest, m.floor(int(math.Trunc(chunks))))
		}
		if rest == 0 || chunk == 0 {
			break
		}
		charge, future := m.ceil(chunk), 0
		if chunk == rest {
			future = min(r.remaining(), limits.ClipMaxNewTokens)
		}
		if float64(charge+future) >= total || float64(charge) > input || float64(charge) > chunks {
			break
		}
		if len(m.free) < chunk {
			m.evict(chunk - len(m.free))
		}
		hit, end := len(r.slots), len(r.slots)+chunk
		if hit == 0 {
			node, slots := m.match(r.sequence[:end])
			hit = len(slots)
			r.slots = slices.Clone(slots)
			r.node = node
			lockPath(node, +1)
		}
		r.slots = append(r.slots, m.take(end-hit)...)
		m.announce(r.sequence[:end], r.slots, hit)
		before := r.alloc
		r.alloc = m.ceil(end)
		total -= float64(r.alloc - before + future)
		input -= float64(charge)
		chunks -= float64(charge)
		ends, hits = ends+end, hits+hit
		m.waiting = m.waiting[1:]
		batch = append(batch, r)
		p.Admitted = append(p.Admitted, engine.Admission{ID: engine.RequestID(r.id), ReusedTokens: hit})
		if chunks <= 0 {
			break
		}
	}
	return batch, ends, hits
}

func (m *model) cache(r *modelRequest) {
	aligned := m.floor(len(r.slots))
	if aligned == 0 || aligned <= r.cached {
		return
	}
	m.announce(r.sequence[:aligned], r.slots, r.cached)
	m.insert(r.sequence[:aligned], r.slots[:aligned])
	node, _ := m.match(r.sequence[:aligned])
	lockPath(node, +1)
	lockPath(r.node, -1)
	r.node = node
	r.cached = aligned
}

// most returns the largest number of tokens that r may emit in a pass.
func (m *model) most(r *modelRequest) int {
	if m.drafts == nil {
		return min(1, r.remaining())
	}
	return min(m.drafts.MaxBurst(), r.remaining())
}

// draw returns the number of tokens that r does emit.
func (m *model) draw(r *modelRequest) int {
	if m.drafts == nil {
		return 1
	}
	var burst [1]int32
	m.drafts.Bursts(burst[:])
	return min(int(burst[0]), r.remaining())
}

func (m *model) retractUntilFits() (retracted []*modelRequest) {
	for {
		actual := len(m.free) + m.evictable()
		need, overhead, growth := 0, 0, 0
		for _, r := range m.running {
			need += m.most(r)
			overhead += r.overhead()
			growth += max(0, m.ceil(len(r.sequence)+m.most(r))-r.alloc)
		}
		if actual >= need && max(0, actual-overhead) >= growth || len(m.running) == 1 {
			return retracted
		}
		victim := 0
		for i, r := range m.running {
			if r.outputs() < m.running[victim].outputs() {
				victim = i
			}
		}
		r := m.running[victim]
		m.running = slices.Delete(m.running, victim, victim+1)
		m.giveBack(r.slots[r.cached:])
		m.withdraw(r.slots[r.cached:])
		lockPath(r.node, -1)
		r.slots, r.node, r.cached, r.alloc, r.emitted = nil, nil, 0, 0, false
		retracted = append(retracted, r)
	}
}

func (m *model) decode(p *engine.Pass) (retracted []*modelRequest) {
	if len(m.running) == 0 {
		return nil
	}
	retracted = m.retractUntilFits()
	p.Scheduled = len(retracted) // makes no difference but that the pass is not idle
	need, context := 0, 0
	for _, r := range m.running {
		need += m.most(r)
		context += len(r.sequence)
	}
	if len(m.free)+m.evictable() < need { // the reference evicts first, and dead-ends then
		return retracted
	}
	if len(m.free) < need {
		m.evict(need - len(m.free))
	}
	p.EndMs += m.clock.DecodeSeconds(len(m.running), context, min(context, m.total), m.total) * 1000
	slots := m.take(need)
	var left []*modelRequest
	for _, r := range m.running {
		if !r.emitted {
			p.Started = append(p.Started, engine.TokenRun{ID: engine.RequestID(r.id), Index: r.outputs()})
			r.emitted = true
		}
		burst := m.draw(r)
		p.Tokens += burst
		if burst > 1 {
			p.Bursts = append(p.Bursts, engine.Burst{ID: engine.RequestID(r.id), Tokens: burst})
		}
		for _, slot := range slots[:burst] {
			m.emit(r, slot)
		}
		slots = slots[burst:]
		if r.outputs() >= r.maxOut {
			p.Finished = append(p.Finished, engine.RequestID(r.id))
		} else {
			left = append(left, r)
		}
	}
	m.giveBack(slots)
	for _, r := range m.running {
		if r.outputs() >= r.maxOut {
			m.finish(r)
		}
	}
	m.running = left
	return retracted
}

func (m *model) emit(r *modelRequest, slot int) {
	r.slots = append(r.slots, slot)
	if len(r.sequence)+1 > r.alloc {
		r.alloc += m.page
	}
	r.sequence = append(r.sequence, r.output(r.outputs()))
	if r.outputs() < r.maxOut {
		m.cache(r)
	}
}

func (m *model) finish(r *modelRequest) {
	aligned := m.floor(len(r.sequence))
	m.giveBack(r.slots[aligned:])
	if aligned > 0 {
		m.announce(r.sequence[:aligned], r.slots, r.cached)
		m.insert(r.sequence[:aligned], r.slots[:aligned])
		_, slots := m.match(r.sequence[:aligned])
		var duplicates []int
		for end := m.page; end <= aligned; end += m.page {
			if slots[end-1] != r.slots[end-1] {
				duplicates = append(duplicates, r.slots[end-m.page:end]...)
			}
		}
		m.giveBack(duplicates)
		m.withdraw(duplicates)
	}
	lockPath(r.node, -1)
}
