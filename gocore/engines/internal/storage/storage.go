// Package storage is a disk or an object store behind the host memory of engines: blocks that all workers of a pool
// can read. It is ours: no engine's rules are behind it (docs/tiers.md has them all).
//
//	worker 0   host --write lane--> +---------+ --read lane--> host     each lane: one transfer at a time, in order
//	worker 1   host --write lane--> | storage | --read lane--> host     all lanes: package sharing
//	                                +---------+
//
// A block is there once its write has ended. When the storage is full, the blocks leave that were written or read
// least recently.
package storage

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/sharing"
	"dynosim/gocore/kvcache"
)

// Store is what the workers share. It is not safe for concurrent use.
type Store struct {
	capacity int
	link     *sharing.Link
	blocks   map[kvcache.BlockID]*entry
	order    entry // a ring: next is the block that leaves first
	clients  []*Client
	records  bool
	events   []kvcache.Event
	evicted  int // since a client took note of it
}

// entry is a block that is there, or on its way.
type entry struct {
	id         kvcache.BlockID
	ready      bool
	prev, next *entry
}

// New returns an empty storage of capacity blocks. It takes blockMs for a block, of all transfers together; 0 for no
// time.
func New(capacity int, blockMs float64) *Store {
	s := &Store{capacity: capacity, link: sharing.New(blockMs), blocks: map[kvcache.BlockID]*entry{}}
	s.order.prev, s.order.next = &s.order, &s.order
	return s
}

// Client is what one worker has of a store.
type Client struct {
	// CatchUp, if there is one, is called before others move on to an instant: the worker may have copies to write since
	// then.
	CatchUp func(nowMs float64)

	store       *Store
	speed       engineargs.StorageArgs
	read, write *sharing.Lane
	writes      []*transfer
	reads       []*Read
	use         engine.Stored
	copies      []engine.Copy // that have ended since TakeCopies
}

// transfer is blocks on their way.
type transfer struct {
	move   *sharing.Move
	ids    []kvcache.BlockID
	parent kvcache.BlockID
	rooted bool // ids begin a prompt: they have no parent
}

// Read is blocks on their way to the host of a worker.
type Read struct {
	move   *sharing.Move
	client *Client
	blocks int
	over   bool // it has ended or was given up, and is counted
}

// ClientOf returns the client of another worker to the storage that its pool has in common. The first call makes the
// storage.
func ClientOf(commons *engine.Commons, a engineargs.StorageArgs) *Client {
	if commons.Storage == nil {
		commons.Storage = New(a.Blocks, a.SharedMsPerBlock)
	}
	return commons.Storage.(*Store).Join(a)
}

// Join returns a client for another worker.
func (s *Store) Join(a engineargs.StorageArgs) *Client {
	c := &Client{store: s, speed: a, read: s.link.Lane(), write: s.link.Lane()}
	s.clients = append(s.clients, c)
	return c
}

// Record makes the storage keep events of blocks that come and go until TakeEvents fetches them.
func (c *Client) Record() { c.store.records = true }

// TakeEvents returns the events since the last call of any client.
func (c *Client) TakeEvents() []kvcache.Event {
	events := c.store.events
	c.store.events = nil
	return events
}

// Now returns the time of the last Advance.
func (c *Client) Now() float64 { return c.store.link.Now() }

// Advance lets everything move until an instant.
func (c *Client) Advance(nowMs float64) {
	s := c.store
	for _, other := range s.clients {
		if other != c && other.CatchUp != nil {
			other.CatchUp(nowMs)
		}
	}
	s.link.Advance(nowMs)
	for _, other := range s.clients {
		other.finishWrites()
		other.finishReads()
	}
}

func (c *Client) finishWrites() {
	done := 0
	for ; done < len(c.writes); done++ {
		t := c.writes[done]
		beganMs, endMs, ended := t.move.Ended()
		if !ended {
			break
		}
		c.use.StoreMs += endMs - beganMs
		c.copies = append(c.copies, engine.Copy{Storage: true, StartMs: beganMs, EndMs: endMs, Blocks: len(t.ids)})
		for _, id := range t.ids {
			c.store.blocks[id].ready = true
		}
		if c.store.records {
			c.store.events = append(c.store.events, kvcache.Event{
				Kind: kvcache.Stored, Tier: kvcache.Disk, Blocks: kvcache.BlocksOf(t.ids...), Parent: t.parent,
				HasParent: !t.rooted,
			})
		}
	}
	c.writes = append(c.writes[:0], c.writes[done:]...)
}

func (c *Client) finishReads() {
	kept := c.reads[:0]
	for _, r := range c.reads {
		if beganMs, endMs, ended := r.move.Ended(); ended {
			r.count(beganMs, endMs)
		} else {
			kept = append(kept, r)
		}
	}
	c.reads = kept
}

// count takes note of a read that is over.
func (r *Read) count(beganMs, endMs float64) {
	c := r.client
	r.over = true
	c.use.Loaded += r.Arrived()
	c.use.LoadMs += endMs - beganMs
	c.copies = append(c.copies, engine.Copy{
		Back: true, Storage: true, StartMs: beganMs, EndMs: endMs, Blocks: r.Arrived(),
	})
}

// Find counts the leading ones of blocks from..to-1 of a key that are there.
func (c *Client) Find(key *kvcache.Key, from, to int) (blocks int) {
	for to = min(to, key.Shareable); from+blocks < to; blocks++ {
		if e := c.store.blocks[key.Block(from+blocks)]; e == nil || !e.ready {
			break
		}
	}
	return blocks
}

// Read begins to read blocks that Find has found, at an instant or when the reads before it have ended, and makes them
// the youngest.
func (c *Client) Read(atMs float64, key *kvcache.Key, from, to int) *Read {
	for i := from; i < to; i++ {
		c.store.touch(c.store.blocks[key.Block(i)])
	}
	r := &Read{client: c, blocks: to - from}
	r.move = c.read.Submit(max(atMs, c.store.link.Now()), c.speed.LatencyMs, r.blocks, c.speed.ReadMsPerBlock)
	c.reads = append(c.reads, r)
	return r
}

// Write begins to write those of blocks from..to-1 of a key that are neither there nor on their way, at an instant or
// when the writes before it have ended. For what has no room the storage gives up the oldest blocks. If all that
// are left are still being written, the rest is dropped.
func (c *Client) Write(atMs float64, key *kvcache.Key, from, to int) {
	s := c.store
	to = min(to, key.Shareable) // the blocks behind are private to the request
	for from < to {
		if e := s.blocks[key.Block(from)]; e != nil {
			s.touch(e)
			from++
			continue
		}
		t := &transfer{rooted: from == 0}
		if from > 0 {
			t.parent = key.Block(from - 1)
		}
		for ; from < to && s.blocks[key.Block(from)] == nil && s.room(); from++ {
			t.ids = append(t.ids, key.Block(from))
			s.add(key.Block(from))
		}
		if len(t.ids) == 0 {
			return
		}
		t.move = c.write.Submit(max(atMs, s.link.Now()), c.speed.LatencyMs, len(t.ids), c.speed.WriteMsPerBlock)
		c.writes = append(c.writes, t)
		c.use.Stored += len(t.ids)
	}
}

// Leave removes the client of a lost worker: what has not been written whole is not there, and its reads stop. TakeUse
// and TakeCopies report it.
func (c *Client) Leave(nowMs float64) {
	c.Advance(nowMs)
	s := c.store
	for _, t := range c.writes {
		for _, id := range t.ids {
			s.remove(s.blocks[id])
		}
		c.use.Lost += len(t.ids)
	}
	c.writes = nil
	for len(c.reads) > 0 {
		c.reads[0].Stop()
	}
	s.link.Leave(c.read)
	s.link.Leave(c.write)
	s.clients = slices.DeleteFunc(s.clients, func(other *Client) bool { return other == c })
}

// room gives up the oldest block if the storage is full, and reports whether there is room for one then.
func (s *Store) room() bool {
	if len(s.blocks) < s.capacity {
		return true
	}
	for e := s.order.next; e != &s.order; e = e.next {
		if !e.ready {
			continue
		}
		s.remove(e)
		s.evicted++
		if s.records {
			s.events = append(s.events, kvcache.Event{
				Kind: kvcache.Removed, Tier: kvcache.Disk, Blocks: kvcache.BlocksOf(e.id),
			})
		}
		return true
	}
	return false
}

func (s *Store) remove(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	delete(s.blocks, e.id)
}

func (s *Store) add(id kvcache.BlockID) {
	e := &entry{id: id}
	s.blocks[id] = e
	e.prev, e.next = s.order.prev, &s.order
	e.prev.next, e.next.prev = e, e
}

// touch makes a block the youngest.
func (s *Store) touch(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = s.order.prev, &s.order
	e.prev.next, e.next.prev = e, e
}

// Blocks returns the number of blocks that a read brings.
func (r *Read) Blocks() int { return r.blocks }

// Arrived returns how many of them have arrived.
func (r *Read) Arrived() int {
	const rounding = 1e-6
	return max(0, min(r.blocks, int(math.Floor(float64(r.blocks)-r.move.Left()+rounding))))
}

// Over reports whether all of them have arrived, or the read was stopped.
func (r *Read) Over() bool { return r.over }

// EndMs returns when the read ends if nothing else is submitted.
func (r *Read) EndMs() float64 { return r.client.store.link.Foresee(r.move) }

// Stop ends a read now. What has arrived stays.
func (r *Read) Stop() {
	if r.over {
		return
	}
	c := r.client
	c.store.link.Stop(c.read, r.move)
	c.finishReads()
}

// TakeUse returns what the worker has moved since its last call. What the storage has evicted goes to the worker that
// asks first.
func (c *Client) TakeUse() engine.Stored {
	use := c.use
	use.Evicted = c.store.evicted
	c.store.evicted, c.use = 0, engine.Stored{}
	return use
}

// TakeCopies returns the transfers of the worker that have ended since the last call. The slice is valid until the
// next Advance.
func (c *Client) TakeCopies() []engine.Copy {
	copies := c.copies
	c.copies = c.copies[:0]
	return copies
}

// Resident returns the number of blocks that are there or on their way.
func (c *Client) Resident() int { return len(c.store.blocks) }
