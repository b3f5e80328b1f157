package paged

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

// FuzzPool reads the input as a script of operations, runs it on the pool and on the model, and compares everything
// that can be seen after each operation.
func FuzzPool(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(byte(seed), byte(5*seed), randomScript(rand.New(rand.NewPCG(seed, 0)), 200))
	}
	f.Fuzz(func(t *testing.T, variant, capacity byte, script []byte) {
		newDuel(t, variant, capacity, script[:min(len(script), 1000)]).run() // a longer one only takes longer
	})
}

// TestRandomScripts does the same with random scripts, and makes sure that they reach each interesting case often.
func TestRandomScripts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	numScripts := 600
	if testing.Short() {
		numScripts = 60
	}
	seen := map[string]int{}
	for i := range numScripts {
		d := newDuel(t, byte(i), byte(rng.Uint32()), randomScript(rng, 600))
		d.seen = seen
		d.run()
	}
	t.Logf("reached: %v", seen)
	for _, what := range []string{
		"use", "active hit", "inactive hit", "eviction", "failed use", "failed use with inactive hits",
		"failed partial", "promoted", "promoted onto an active block", "promoted onto an inactive block",
		"reserve", "pin", "failed reserve with pins", "activate", "activated onto a block of others", "cancel",
	} {
		if seen[what] < numScripts/5 {
			t.Errorf("%s: reached %d times only", what, seen[what])
		}
	}
}

func randomScript(rng *rand.Rand, length int) []byte {
	script := make([]byte, length)
	for i := range script {
		script[i] = byte(rng.Uint32())
	}
	return script
}

// duel is a pool and a model that live through the same script. Requests behave as an engine's do: they acquire a
// prefix of their blocks in one or more steps, then generate, and give everything back at once, to end or to come back.
type duel struct {
	t             *testing.T
	pool          *Pool
	model         *model
	prefixCaching bool
	recording     bool

	script   []byte
	requests [6]duelRequest
	private  kvcache.BlockID

	log  []string
	seen map[string]int
}

// duelRequest holds the first len(held) of its blocks, or has reserved all of them.
type duelRequest struct {
	blocks   []kvcache.BlockID
	held     []Slot
	reserved *Reservation
}

const maxBlocks = 9

func newDuel(t *testing.T, variant, capacity byte, script []byte) *duel {
	d := &duel{t: t, script: script, private: kvcache.PrivateIDs, seen: map[string]int{}}
	numSlots, policy := 6+int(capacity)%20, Lineage
	if variant%3 == 2 {
		policy = LRU
	}
	d.prefixCaching = variant%3 != 1
	d.recording = variant/3%2 == 0
	d.pool = New(numSlots, policy, d.prefixCaching)
	d.model = newModel(numSlots, policy == Lineage)
	if d.recording {
		d.pool.Record()
	}
	d.log = append(d.log, fmt.Sprintf("%d slots, policy %d, prefix caching %t", numSlots, policy, d.prefixCaching))
	return d
}

func (d *duel) run() {
	for len(d.script) > 0 {
		n := d.next(len(d.requests))
		r := &d.requests[n]
		switch op := d.next(8); {
		case r.reserved != nil && op >= 3:
			d.activate(n, r)
		case r.reserved != nil:
			d.cancel(n, r)
		case len(r.held) > 0 && op >= 5:
			d.release(n, r)
		case len(r.blocks) == 0 || len(r.held) == 0 && op >= 3:
			r.blocks = d.prompt()
			if d.next(3) == 0 {
				d.reserve(n, r)
			} else {
				d.use(n, r)
			}
		case len(r.held) < len(r.blocks):
			d.use(n, r)
		default:
			d.generate(n, r)
		}
	}
}

// next returns a number below n from the script, 0 when the script is over.
func (d *duel) next(n int) int {
	if len(d.script) == 0 {
		return 0
	}
	b := d.script[0]
	d.script = d.script[1:]
	return int(b) % n
}

// child returns a block behind parent. There are few, so that requests share prefixes; without prefix caching they
// never do.
func (d *duel) child(parent kvcache.BlockID) kvcache.BlockID {
	if d.prefixCaching {
		return parent<<5 | kvcache.BlockID(1+d.next(2))
	}
	d.private++
	return d.private
}

func (d *duel) prompt() []kvcache.BlockID {
	var blocks []kvcache.BlockID
	last := noParent
	for range 1 + d.next(maxBlocks-1) {
		last = d.child(last)
		blocks = append(blocks, last)
	}
	if d.next(2) == 0 {
		blocks = append(blocks, Partial)
	}
	return blocks
}

// use acquires some or all of the blocks that r does not hold yet.
func (d *duel) use(n int, r *duelRequest) {
	from := len(r.held)
	to := len(r.blocks)
	if d.next(4) == 0 {
		to = from + 1 + d.next(to-from)
	}
	blocks := r.blocks[from:to]
	d.logf("use %d: %s", n, pathsOf(blocks))
	inactiveHits := 0
	for _, id := range blocks {
		switch {
		case d.model.refs[id] > 0:
			d.seen["active hit"]++
		case d.model.inactive.has(id):
			inactiveHits++
		}
	}

	events, ok := d.model.use(r.lastHeld(), blocks)
	held, poolOK := d.pool.Use(r.held, blocks)
	r.held = held
	d.compare(ok, poolOK, events)

	d.seen["use"]++
	d.seen["inactive hit"] += inactiveHits
	if !ok {
		d.seen["failed use"]++
		if inactiveHits > 1 {
			d.seen["failed use with inactive hits"]++
		}
	}
}

// reserve takes room for all blocks of r.
func (d *duel) reserve(n int, r *duelRequest) {
	d.logf("reserve %d: %s", n, pathsOf(r.blocks))
	couldPin := d.model.refs[r.blocks[0]] > 0 || d.model.inactive.has(r.blocks[0])
	pinned, events, ok := d.model.reserve(r.blocks)
	reservation, poolOK := d.pool.Reserve(r.blocks, 0)
	if !ok {
		d.seen["failed reserve"]++
		if couldPin {
			d.seen["failed reserve with pins"]++
		}
		d.compare(ok, poolOK, events)
		return
	}
	d.seen["reserve"]++
	d.seen["pin"] += pinned
	r.reserved = &reservation
	d.compare(ok, poolOK, events)
	if reservation.Missing() != len(r.blocks)-pinned {
		d.fail("missing", reservation.Missing(), len(r.blocks)-pinned)
	}
}

// activate makes r hold what it has reserved.
func (d *duel) activate(n int, r *duelRequest) {
	d.logf("activate %d", n)
	active := d.model.active()
	events := d.model.activate(r.blocks, r.reserved.pinned)
	r.held = d.pool.Activate(r.held, *r.reserved, r.blocks)
	r.reserved = nil
	d.seen["activate"]++
	if d.model.active() < active {
		d.seen["activated onto a block of others"]++
	}
	d.compare(true, true, events)
}

// cancel gives a reservation up.
func (d *duel) cancel(n int, r *duelRequest) {
	d.logf("cancel %d", n)
	d.model.cancel(r.blocks, r.reserved.pinned)
	d.pool.Cancel(*r.reserved)
	r.reserved = nil
	d.seen["cancel"]++
	d.compare(true, true, nil)
}

// generate opens a new block, after making the partial one full.
func (d *duel) generate(n int, r *duelRequest) {
	last := len(r.blocks) - 1
	if r.blocks[last] == Partial {
		if len(r.blocks) == maxBlocks {
			d.release(n, r)
			return
		}
		before := noParent
		if last > 0 {
			before = r.blocks[last-1]
		}
		r.blocks[last] = d.child(before)
		d.logf("promote %d: %s", n, pathsOf(r.blocks[last:]))
		switch {
		case d.model.refs[r.blocks[last]] > 0:
			d.seen["promoted onto an active block"]++
		case d.model.inactive.has(r.blocks[last]):
			d.seen["promoted onto an inactive block"]++
		default:
			d.seen["promoted"]++
		}
		events := d.model.promote(before, r.blocks[last])
		d.pool.Promote(r.held, r.blocks[last])
		d.compare(true, true, events)
	}

	d.logf("partial %d", n)
	events, ok := d.model.use(r.lastHeld(), []kvcache.BlockID{Partial})
	held, poolOK := d.pool.UsePartial(r.held)
	r.held = held
	if ok {
		r.blocks = append(r.blocks, Partial)
	} else {
		d.seen["failed partial"]++
	}
	d.compare(ok, poolOK, events)
}

// release gives everything back; r keeps its blocks, as a preempted request does, until it becomes another one.
func (d *duel) release(n int, r *duelRequest) {
	d.logf("release %d", n)
	d.model.release(r.blocks[:len(r.held)])
	d.pool.Release(r.held)
	r.held = nil
	d.compare(true, true, nil)
}

func (r *duelRequest) lastHeld() kvcache.BlockID {
	if len(r.held) == 0 {
		return noParent
	}
	return r.blocks[len(r.held)-1]
}

// compare checks the result of one operation, and the whole state after it.
func (d *duel) compare(wantOK, gotOK bool, events []kvcache.Event) {
	d.t.Helper()
	if gotOK != wantOK {
		d.fail("result", gotOK, wantOK)
	}
	if err := d.pool.check(); err != nil {
		d.fail("invariants", err, nil)
	}
	got := [3]int{d.pool.Free(), d.pool.Active(), d.pool.Available()}
	if want := [3]int{d.model.free(), d.model.active(), d.model.available()}; got != want {
		d.fail("free, active, available", got, want)
	}
	order := pathsOf(d.pool.evictionOrder())
	if want := pathsOf(d.model.inactive.evictionOrder()); order != want {
		d.fail("eviction order", order, want)
	}
	for _, r := range d.requests {
		for i, slot := range r.held {
			if got := d.pool.idAt(slot); got != r.blocks[i] {
				d.fail("held block", pathOf(got), pathOf(r.blocks[i]))
			}
		}
		for _, id := range r.blocks {
			if id == Partial {
				continue
			}
			found := d.pool.Lookup(id)
			want := Found{Cached: d.model.refs[id] > 0 || d.model.inactive.has(id),
				InUse: d.model.refs[id] > d.model.pins[id]}
			if found != want {
				d.fail("lookup of "+pathOf(id), found, want)
			}
			if !found.Cached {
				continue
			}
			slot := d.pool.full.find(id)
			if got, want := int(d.pool.full.at(slot).refs), d.model.refs[id]; got != want {
				d.fail("references to "+pathOf(id), got, want)
			}
		}
	}
	d.compareEvents(events)
}

func (d *duel) compareEvents(want []kvcache.Event) {
	d.t.Helper()
	for _, e := range want {
		if e.Kind == kvcache.Removed {
			d.seen["eviction"] += e.Blocks.Len()
		}
	}
	if !d.recording {
		want = nil
	}
	var got []kvcache.Event
	for _, e := range d.pool.TakeEvents() {
		if at := [3]int{e.Free, e.Active, e.Inactive}; at != [3]int{d.pool.Free(), d.pool.Active(), d.pool.inactive} {
			d.fail("occupancy of an event", at, "the pool's")
		}
		got = append(got, e.Event)
	}
	if !slices.EqualFunc(got, want, func(a, b kvcache.Event) bool { return reflect.DeepEqual(a, b) }) {
		d.fail("events", got, want)
	}
}

func (d *duel) logf(format string, args ...any) { d.log = append(d.log, fmt.Sprintf(format, args...)) }

func (d *duel) fail(what string, got, want any) {
	d.t.Helper()
	d.t.Fatalf("%s:\n got %v\nwant %v\nafter\n%s", what, got, want, strings.Join(d.log, "\n"))
}
