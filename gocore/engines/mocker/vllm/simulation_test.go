package vllm

import (
	"cmp"
	"fmt"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
	"dynosim/gocore/timing"
)

// arrival is one request of a test workload. Its hash ids stand for blocks of exactly the engine's block size; without
// any it shares nothing.
type arrival struct {
	name           string
	atMs           float64
	prompt, output int
	ids            []int
}

// simulation drives one scheduler through a workload as offline replay does with one worker: requests that have arrived
// enter, a pass runs, time goes to its end; an empty engine skips to the next arrival.
type simulation struct {
	s        *Scheduler
	plain    bool      // take no shortcuts
	arrivals []arrival // by time; the index is the request id
	requests []engine.Request
	released int
	nowMs    float64
}

func newSimulation(args engineargs.Args, workload []arrival) *simulation {
	return newSimulationWith(args, engine.Setup{}, workload)
}

func newSimulationWith(args engineargs.Args, setup engine.Setup, workload []arrival) *simulation {
	m := &simulation{s: New(args, setup), arrivals: slices.Clone(workload)}
	m.s.pool.Record()
	slices.SortStableFunc(m.arrivals, func(a, b arrival) int { return cmp.Compare(a.atMs, b.atMs) })
	prompts := prefixes{blockSize: args.BlockSize, numbers: map[prefix]uint32{}}
	for id, a := range m.arrivals {
		m.requests = append(m.requests, engine.Request{
			ID:           engine.RequestID(id),
			Prompt:       prompts.prompt(a),
			PromptTokens: a.prompt,
			OutputTokens: a.output,
		})
	}
	return m
}

// sensitive is a timing model in which everything that the scheduler says about a pass shows.
type sensitive struct{}

func (sensitive) PrefillMs(s timing.PrefillShape) float64 {
	return 1 + float64(s.Requests)/8 + float64(s.MeanISL)/64 + float64(s.MeanPrefix)/1024
}

func (sensitive) DecodeMs(s timing.DecodeShape) float64 {
	return 1 + float64(s.Requests)/8 + float64(s.MeanContext)/64 + float64(s.ActiveTokens)/float64(s.TotalTokens)
}

// release prepares a pass: it adds what has arrived, and reports false when nothing is left to do.
func (m *simulation) release() bool {
	if m.s.Requests() == 0 {
		if m.released == len(m.arrivals) {
			return false
		}
		m.nowMs = max(m.nowMs, m.arrivals[m.released].atMs)
	}
	for m.released < len(m.arrivals) && m.arrivals[m.released].atMs <= m.nowMs {
		m.s.Add(m.requests[m.released])
		m.released++
	}
	if m.plain {
		m.s.steady.off = true
		m.s.headLacksBlocks = false
	}
	return true
}

// run runs all passes and shows each to see.
func (m *simulation) run(see func(*engine.Pass) error) error {
	for m.release() {
		pass, alive := m.s.RunPass(m.nowMs)
		if !alive {
			return fmt.Errorf("at %v ms: stalled", m.nowMs)
		}
		if err := see(pass); err != nil {
			return fmt.Errorf("at %v ms: %w", m.nowMs, err)
		}
		m.nowMs = pass.EndMs
	}
	return nil
}

// prefixes numbers distinct prompt prefixes, block by block.
type prefixes struct {
	blockSize int
	numbers   map[prefix]uint32
	unshared  uint64
}

type prefix struct {
	parent uint32
	id     uint64
}

func (p *prefixes) prompt(a arrival) kvcache.Prompt {
	result := kvcache.Prompt{PerSegment: 1}
	parent := ^uint32(0)
	for block := range a.prompt / p.blockSize {
		var id uint64
		if a.ids != nil {
			id = uint64(a.ids[block])
		} else {
			p.unshared++
			id = ^p.unshared
		}
		number, known := p.numbers[prefix{parent, id}]
		if !known {
			number = uint32(len(p.numbers))
			p.numbers[prefix{parent, id}] = number
		}
		result.Segments = append(result.Segments, number)
		parent = number
	}
	return result
}

// passRecord is a copy of all that one pass lets out, for comparisons.
type passRecord struct {
	engine.Pass
	Active, Free int
	Events       []paged.Event
}

func record(s *Scheduler, p *engine.Pass) passRecord {
	c := passRecord{Pass: *p, Active: s.pool.Active(), Free: s.pool.Free(),
		Events: enginetest.CopyOf(s.pool.TakeEvents())}
	for i := range c.Events {
		c.Events[i].Event = c.Events[i].Event.Clone()
	}
	c.Admitted = enginetest.CopyOf(p.Admitted)
	c.Started = enginetest.CopyOf(p.Started)
	c.Bursts = enginetest.CopyOf(p.Bursts)
	c.Finished = enginetest.CopyOf(p.Finished)
	c.Rejected = enginetest.CopyOf(p.Rejected)
	return c
}
