package events_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
)

const routerBlock = 4

// subscriber is a router that knows of workers what they publish, and of prompts their tokens.
type subscriber struct {
	kv    *router.KV
	names map[uint64]uint32 // of blocks, by hash
	has   map[cached]bool
	wrong int // removals of blocks that a worker did not have
}

type cached struct{ worker, block uint64 }

func newSubscriber(workers int) *subscriber {
	return &subscriber{names: map[uint64]uint32{}, has: map[cached]bool{}, kv: router.New(router.Options{
		Config: router.DefaultConfig(), Workers: workers, BlockSize: routerBlock, MaxNumBatchedTokens: math.MaxInt,
		Rand: rand.New(rand.NewPCG(5, 6)),
	})}
}

func (s *subscriber) name(hash uint64) uint32 {
	id, known := s.names[hash]
	if !known {
		id = uint32(len(s.names))
		s.names[hash] = id
	}
	return id
}

// hear applies an event as it comes from the wire.
func (s *subscriber) hear(t *testing.T, message []byte) {
	list, err := events.ParseRouterEvents(message)
	if err != nil || len(list) != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	e := list[0]
	var event kvcache.Event
	if stored := e.Event.Data.Stored; stored != nil {
		for _, b := range stored.Blocks {
			event.Blocks = event.Blocks.Append(kvcache.BlockID(s.name(b.BlockHash)), 1)
			s.has[cached{e.WorkerID, b.BlockHash}] = true
		}
	} else {
		event.Kind = kvcache.Removed
		for _, hash := range e.Event.Data.Removed.BlockHashes {
			event.Blocks = event.Blocks.Append(kvcache.BlockID(s.name(hash)), 1)
			if block := (cached{e.WorkerID, hash}); !s.has[block] {
				s.wrong++
			} else {
				delete(s.has, block)
			}
		}
	}
	s.kv.Apply(int(e.WorkerID), []kvcache.Event{event})
}

// prompt names the full blocks of a prompt.
func (s *subscriber) prompt(tokens []uint32) kvcache.Prompt {
	p := kvcache.Prompt{PerSegment: 1}
	var hash uint64
	for i := 0; i+routerBlock <= len(tokens); i += routerBlock {
		block := kvcache.BlockHash(tokens[i : i+routerBlock])
		if hash = kvcache.ChainHash(hash, block); i == 0 {
			hash = block
		}
		p.Segments = append(p.Segments, s.name(hash))
	}
	return p
}

// publisher is a worker with all it takes to tell a router of its cache.
type publisher struct {
	engine engine.Engine
	table  *blocks.Table
	feed   *events.Feed
	nowMs  float64
}

func newPublisher(t *testing.T, id uint64) *publisher {
	args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 24}`)
	p := &publisher{engine: worker.New(args, engine.Setup{}).Engine, table: blocks.New(routerBlock),
		feed: events.NewFeed(id, 0)}
	p.engine.Observe()
	return p
}

// serve runs a request to its end and returns how many tokens of the prompt were cached.
func (p *publisher) serve(t *testing.T, id engine.RequestID, tokens []uint32, prompt int,
	publish func(message []byte)) (reused int) {
	held := p.table.Hold(tokens, "")
	p.engine.Add(engine.Request{ID: id, Prompt: held, PromptTokens: prompt, OutputTokens: len(tokens) - prompt,
		NamedBlocks: len(held.Segments)})
	for p.engine.Requests() > 0 {
		pass, alive := p.engine.RunPass(p.nowMs)
		if !alive {
			t.Fatal("the engine is stuck")
		}
		p.nowMs = pass.EndMs
		for _, a := range pass.Admitted {
			reused = a.ReusedTokens
		}
		for _, e := range p.feed.Apply(p.table.Resolve(pass.KVEvents)) {
			publish(e.Append(nil))
		}
	}
	p.table.Release(held)
	return reused
}

// TestRouterKnowsCaches: conversations whose turns contain earlier answers go to workers with small pools. Whatever the
// router says a worker has cached of a prompt, that much the worker reuses.
func TestRouterKnowsCaches(t *testing.T) {
	const workers = 3
	rng := rand.New(rand.NewPCG(9, 9))
	s := newSubscriber(workers)
	var list []*publisher
	for id := range uint64(workers) {
		list = append(list, newPublisher(t, id))
	}
	conversations := make([][]uint32, 6)
	reusedTurns := 0
	for turn := range engine.RequestID(2000) {
		c := &conversations[rng.IntN(len(conversations))]
		if len(*c) > 60 {
			*c = nil
		}
		for range 1 + rng.IntN(10) {
			*c = append(*c, rng.Uint32N(2))
		}
		prompt := len(*c)
		admitted, err := s.kv.Submit(router.Request{ID: int32(turn), Prompt: s.prompt(*c), PromptTokens: prompt},
			float64(turn))
		if err != nil || len(admitted) != 1 {
			t.Fatal(admitted, err)
		}
		for range 1 + rng.IntN(10) {
			*c = append(*c, 1000+rng.Uint32N(1000))
		}
		a := admitted[0]
		reused := list[a.Worker].serve(t, turn, *c, prompt, func(message []byte) { s.hear(t, message) })
		if reused != a.OverlapBlocks*routerBlock {
			t.Fatalf("turn %d: worker %d reused %d tokens, the router says %d blocks", turn, a.Worker, reused,
				a.OverlapBlocks)
		}
		if reused > 0 {
			reusedTurns++
		}
		if _, err := s.kv.Free(int32(turn), float64(turn)); err != nil {
			t.Fatal(err)
		}
	}
	if s.wrong > 0 || reusedTurns < 500 {
		t.Errorf("%d turns reused something, %d removals of blocks that were not there", reusedTurns, s.wrong)
	}
}
