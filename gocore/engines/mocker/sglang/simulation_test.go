package sglang

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/speculation"
)

// arrival is one request of a test workload. Each of its ids stands for that many equal tokens as the workload says.
type arrival struct {
	name           string
	atMs           float64
	prompt, output int
	ids            []int
	reply          []int // the first output tokens, as far as others may have the same
}

// workload is a list of arrivals, in order of the request ids.
type workload struct {
	traceBlock int // tokens per id
	arrivals   []arrival
}

// tokens returns the tokens of a prompt.
func (w workload) tokens(a arrival) []int {
	tokens := make([]int, a.prompt)
	for i := range tokens {
		tokens[i] = a.ids[i/w.traceBlock]
	}
	return tokens
}

// sorted returns the workload by time.
func (w workload) sorted() workload {
	w.arrivals = slices.Clone(w.arrivals)
	slices.SortStableFunc(w.arrivals, func(a, b arrival) int { return cmp.Compare(a.atMs, b.atMs) })
	return w
}

// requests names equal prefixes of prompts and replies by equal pages, in segments as long as the ids allow.
func (w workload) requests(pageSize int) []engine.Request {
	perSegment := 1
	if w.traceBlock%pageSize == 0 {
		perSegment = w.traceBlock / pageSize
	}
	numbers := map[string]uint32{}
	var requests []engine.Request
	for id, a := range w.arrivals {
		p := kvcache.Prompt{PerSegment: perSegment}
		tokens := append(w.tokens(a), a.reply...)
		var prefix []byte
		span := pageSize * perSegment
		for start := 0; start+pageSize <= len(tokens); start += span {
			for _, token := range tokens[start : start+pageSize] {
				prefix = binary.AppendVarint(prefix, int64(token))
			}
			number, known := numbers[string(prefix)]
			if !known {
				number = uint32(len(numbers))
				numbers[string(prefix)] = number
			}
			p.Segments = append(p.Segments, number)
		}
		r := engine.Request{ID: engine.RequestID(id), Prompt: p, PromptTokens: a.prompt, OutputTokens: a.output}
		if len(a.reply) > 0 {
			r.NamedBlocks = len(tokens) / pageSize
		}
		requests = append(requests, r)
	}
	return requests
}

// simulation drives one scheduler through a workload as offline replay does with one worker: requests that have arrived
// enter, a pass runs, time goes to its end; an empty engine skips to the next arrival.
type simulation struct {
	s        *Scheduler
	plain    bool // look at every running request after every pass
	workload workload
	requests []engine.Request
	released int
	nowMs    float64
	idle     int // passes in a row
	unblocks int // calls of Unblock that helped
}

func newSimulation(args engineargs.Args, w workload) *simulation {
	w = w.sorted()
	return &simulation{s: New(args, setup(args, engine.Aggregated)), workload: w, requests: w.requests(args.BlockSize)}
}

// setup returns what an engine gets besides its arguments.
func setup(args engineargs.Args, role engine.Role) engine.Setup {
	s := engine.Setup{Role: role}
	if args.Drafts > 0 && role != engine.Prefill {
		rates, err := speculation.ParseRates(args.AcceptRates, args.Drafts)
		if err != nil {
			panic(err)
		}
		s.Drafts = speculation.New(rates, args.DraftSeed)
	}
	return s
}

// release prepares a pass: it adds what has arrived, and reports false when nothing is left to do.
func (m *simulation) release() bool {
	if m.s.Requests() == 0 {
		if m.released == len(m.requests) {
			return false
		}
		m.nowMs = max(m.nowMs, m.workload.arrivals[m.released].atMs)
	}
	for m.released < len(m.requests) && m.workload.arrivals[m.released].atMs <= m.nowMs {
		m.s.Add(m.requests[m.released])
		m.released++
	}
	return true
}

// step runs one pass. It reports a dead end as an error, if unblocking does not help either.
func (m *simulation) step(runPass func(nowMs float64) (*engine.Pass, bool)) (*engine.Pass, error) {
	pass, alive := runPass(m.nowMs)
	if alive == pass.Idle() {
		return nil, fmt.Errorf("at %v ms: idle %t, alive %t", m.nowMs, pass.Idle(), alive)
	}
	if m.plain {
		m.s.catchUpAll()
	}
	m.nowMs = pass.EndMs
	if !alive {
		if !m.s.Unblock() {
			args := m.s.args
			e := &engine.DeadEnd{AtMs: m.nowMs, Requests: m.s.States(), BlockSize: args.BlockSize,
				Capacity: args.NumGPUBlocks}
			for i := range e.Requests {
				e.Requests[i].Name = m.workload.arrivals[e.Requests[i].ID].name
			}
			return nil, e
		}
		m.unblocks++
	}
	return pass, nil
}
