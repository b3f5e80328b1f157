package vllm

import (
	"fmt"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
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
	ids            []uint64
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
	slices.SortStableFunc(m.arrivals, func(a, b arrival) int {
		switch {
		case a.atMs < b.atMs:
			return -1
		case a.atMs > b.atMs:
			return 1
		}
		return 0
	})
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
			id = a.ids[block]
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

// fate is what a user learns about one request.
type fate struct {
	AdmitMs  float64 // first admission
	Reused   []int   // prompt tokens, at each admission
	TokenMs  []float64
	Finished bool
	Rejected string // why
}

func (o *fate) over() bool { return o.Finished || o.Rejected != "" }

func (o *fate) maxReused() int { return slices.Max(append([]int{0}, o.Reused...)) }

// recorder follows passes and rebuilds from them, by the contract of engine.Pass alone, when every token was emitted.
type recorder struct {
	fates  []fate
	runs   [][]tokenRun // by request
	endMs  []float64    // of the emitting passes
	tokens []int        // emitted in each of them
	bursts map[burstPlace]int
}

type burstPlace struct {
	id   engine.RequestID
	pass int
}

type tokenRun struct {
	index int // of its first token
	pass  int // emitting pass of its first token
}

func newRecorder(requests int) *recorder {
	return &recorder{fates: make([]fate, requests), runs: make([][]tokenRun, requests), bursts: map[burstPlace]int{}}
}

func (r *recorder) see(p *engine.Pass) error {
	if p.EndMs < p.StartMs {
		return fmt.Errorf("time goes back to %v", p.EndMs)
	}
	for _, a := range p.Admitted {
		o := &r.fates[a.ID]
		if o.over() {
			return fmt.Errorf("request %d is admitted after its end", a.ID)
		}
		if o.Reused == nil {
			o.AdmitMs = p.StartMs
		}
		o.Reused = append(o.Reused, a.ReusedTokens)
	}
	for _, run := range p.Started {
		r.runs[run.ID] = append(r.runs[run.ID], tokenRun{index: run.Index, pass: len(r.endMs)})
	}
	for _, b := range p.Bursts {
		place := burstPlace{b.ID, len(r.endMs)}
		if b.Tokens < 2 || r.bursts[place] > 0 {
			return fmt.Errorf("bursts %v", p.Bursts)
		}
		r.bursts[place] = b.Tokens
	}
	if p.Tokens > 0 {
		r.endMs = append(r.endMs, p.EndMs)
		r.tokens = append(r.tokens, p.Tokens)
	} else if len(p.Started)+len(p.Bursts)+len(p.Finished) > 0 {
		return fmt.Errorf("started %v, bursts %v and finished %v without a token", p.Started, p.Bursts, p.Finished)
	}
	for _, id := range p.Finished {
		if r.fates[id].over() {
			return fmt.Errorf("request %d ends twice", id)
		}
		r.fates[id].Finished = true
		if err := r.noteTokens(id); err != nil {
			return err
		}
	}
	for _, rejected := range p.Rejected {
		o := &r.fates[rejected.ID]
		if o.over() {
			return fmt.Errorf("request %d ends twice", rejected.ID)
		}
		o.Rejected = rejected.Reason
	}
	return nil
}

// noteTokens lays the runs of a request that finishes in the last emitting pass end to end.
func (r *recorder) noteTokens(id engine.RequestID) error {
	runs := r.runs[id]
	if len(runs) == 0 || runs[0].index != 0 {
		return fmt.Errorf("request %d finishes, its runs are %v", id, runs)
	}
	o := &r.fates[id]
	for i, run := range runs {
		end, last := len(r.endMs), i+1 == len(runs)
		if !last {
			end = runs[i+1].pass
		}
		for pass := run.pass; pass < end && (last || len(o.TokenMs) < runs[i+1].index); pass++ {
			for range max(1, r.bursts[burstPlace{id, pass}]) {
				o.TokenMs = append(o.TokenMs, r.endMs[pass])
				r.tokens[pass]--
			}
		}
		if !last && len(o.TokenMs) != runs[i+1].index || last && len(o.TokenMs) <= run.index {
			return fmt.Errorf("request %d: runs %v do not fit together", id, runs)
		}
	}
	return nil
}

// unclaimed is an error if a pass emitted other tokens than those of the finished requests; right when no request was
// rejected after its first token.
func (r *recorder) unclaimed() error {
	for pass, left := range r.tokens {
		if left != 0 {
			return fmt.Errorf("emitting pass %d has %d tokens that no request got", pass, left)
		}
	}
	return nil
}

// passRecord is a copy of all that one pass lets out, for comparisons.
type passRecord struct {
	engine.Pass
	Active, Free int
	Events       []paged.Event
}

func record(s *Scheduler, p *engine.Pass) passRecord {
	c := passRecord{Pass: *p, Active: s.pool.Active(), Free: s.pool.Free(), Events: copyOf(s.pool.TakeEvents())}
	for i := range c.Events {
		c.Events[i].Event = c.Events[i].Event.Clone()
	}
	c.Admitted = copyOf(p.Admitted)
	c.Started = copyOf(p.Started)
	c.Bursts = copyOf(p.Bursts)
	c.Finished = copyOf(p.Finished)
	c.Rejected = copyOf(p.Rejected)
	return c
}

// copyOf returns nil for every empty slice.
func copyOf[T any](s []T) []T { return append([]T(nil), s...) }
