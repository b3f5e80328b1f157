package vllm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache/paged"
	"dynosim/gocore/speculation"
)

// TestRandomWorkloads checks many small workloads, most of them on tight pools, against what must always hold.
func TestRandomWorkloads(t *testing.T) {
	runs := 4000
	if testing.Short() {
		runs = 400
	}
	rng := rand.New(rand.NewPCG(3, 5))
	for range runs {
		data := enginetest.RandomBytes(rng, 12, 60)
		if err := checkWorkload(data); err != nil {
			args, workload := workloadFrom(data)
			t.Fatalf("%v\nargs %+v\nworkload %+v\ndata %#v", err, args, workload, data)
		}
	}
}

// FuzzScheduler looks for a workload that breaks one of the same rules.
func FuzzScheduler(f *testing.F) {
	f.Add([]byte{})
	// Engine, then requests of five bytes: see workloadFrom.
	f.Add([]byte{1, 4, 0, 30, 0, 0, 0, 0, 5, 6, 1, 0, 0, 6, 4, 2, 0})        // preemption
	f.Add([]byte{1, 4, 0, 30, 1, 0, 0, 0, 5, 6, 1, 0, 0, 6, 4, 2, 0})        // the same under FIFO
	f.Add([]byte{1, 9, 3, 11, 2, 0, 0, 0, 23, 1, 1, 3, 9, 17, 8, 1, 4})      // chunking off
	f.Add([]byte{1, 4, 0, 30, 5, 0, 0, 0, 5, 6, 1, 0, 0, 6, 4, 2, 0})        // FIFO, no prefix caching
	f.Add([]byte{0, 20, 5, 200, 0, 128, 0, 0, 31, 1, 1, 7, 0, 31, 3, 1, 31}) // watermark
	f.Add([]byte{1, 4, 0, 30, 0, 15, 0, 0, 5, 9, 1, 0, 0, 6, 9, 2, 0})       // preemption for bursts
	f.Add([]byte{1, 4, 0, 30, 0, 192, 0, 0, 5, 6, 1, 0, 0, 6, 4, 2, 0})      // none where room is guaranteed
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := checkWorkload(data); err != nil {
			t.Fatal(err)
		}
	})
}

// workloadFrom turns any bytes into a small engine and at most eight requests. Each request is arrival, prompt, output,
// a family of prompts, and the block at which it leaves the prompts of its family.
func workloadFrom(data []byte) (engineargs.Args, []arrival) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	args := engineargs.Default()
	args.BlockSize = 2 << (next() % 3)
	args.NumGPUBlocks = 1 + next()%24
	args.MaxNumSeqs = math.MaxInt
	if seqs := next() % 6; seqs > 0 {
		args.MaxNumSeqs = seqs
	}
	args.MaxNumBatchedTokens = 1 + next()%64
	switches := next()
	args.Preemption = engineargs.PreemptionMode(switches & 1)
	args.ChunkedPrefill = switches>>1&1 == 0
	args.PrefixCaching = switches>>2&1 == 0
	args.Eviction = engineargs.EvictionBackend(switches >> 3 % 3)
	if margin := next(); margin < 192 {
		args.Watermark = []float64{0, 0, 0.1, 0.3, 0.6}[margin/32%5]
	} else {
		args.Admission = engineargs.GuaranteedNoEvict
	}
	var workload []arrival
	for len(data) > 0 && len(workload) < 8 {
		a := arrival{
			name:   string(rune('A' + len(workload))),
			atMs:   float64(next() % 64 * 8),
			prompt: 1 + next()%40,
			output: 1 + next()%20,
		}
		family, leaves := 1+next()%3, next()%20
		for block := range a.prompt/args.BlockSize + 1 {
			id := family
			if block >= leaves {
				id = 10 + len(workload)
			}
			a.ids = append(a.ids, id)
		}
		workload = append(workload, a)
	}
	return args, workload
}

// setupFrom turns the same bytes into what the engine gets besides its arguments.
func setupFrom(data []byte) (setup engine.Setup) {
	if len(data) > 5 && data[5]&1 == 1 {
		setup.Model = sensitive{}
	}
	if len(data) > 5 && data[5]&2 == 2 {
		setup.Drafts = speculation.New([][]float64{{1}, {0.5, 0.5}, {0}, {0.9, 1, 0.8, 0.9, 1}}[data[5]>>2&3],
			uint64(data[5]))
	}
	return setup
}

// checkWorkload runs a workload step by step and checks every pass; then again, as a user's run does it, and with other
// numbers for the same blocks: nothing may differ.
func checkWorkload(data []byte) error {
	args, workload := workloadFrom(data)
	m := newSimulationWith(args, setupFrom(data), workload)
	m.plain = true
	notes := enginetest.NewRecorder(len(m.arrivals))
	var seen []passRecord
	limit := passLimit(args, workload)
	err := m.run(func(p *engine.Pass) error {
		seen = append(seen, record(m.s, p))
		if len(seen) > limit {
			return fmt.Errorf("no end after %d passes", limit)
		}
		if p.Idle() {
			return errors.New("a pass without any effect")
		}
		return errors.Join(notes.See(p), checkState(m.s), checkPass(m.s, p))
	})
	if err == nil {
		err = checkEnd(m, notes)
	}
	if err != nil {
		return err
	}
	for _, plain := range []bool{true, false} {
		if err := sameRun(args, setupFrom(data), workload, plain, seen); err != nil {
			return fmt.Errorf("again, plain %t: %w", plain, err)
		}
	}
	return checkRenamed(args, setupFrom(data), workload, notes)
}

// passLimit returns a number of passes in which every run must end: each token and each rejection costs the prompt's
// chunks of all requests at most, or as many passes as it takes to be called a stall.
func passLimit(args engineargs.Args, workload []arrival) int {
	steps, chunks := 0, 1
	for _, a := range workload {
		steps += a.output + 1
		chunks += a.prompt + a.output
	}
	// records of more would not fit memory; the longest runs take 20,000
	return min(steps*(2*stallLimit+chunks), 500_000)
}

// checkState checks the books of an engine between two passes, without shortcuts.
func checkState(s *Scheduler) error {
	holders := map[any]bool{} // of full blocks the slot, of partial ones the request
	hold := func(r *sequence) {
		for _, slot := range r.slots {
			if slot == paged.PartialSlot {
				holders[r] = true
			} else {
				holders[slot] = true
			}
		}
	}
	for i, r := range s.running {
		if r.status != running {
			return fmt.Errorf("request %d is %v in the running list", r.id, r.status)
		}
		if i > 0 && r.place <= s.running[i-1].place {
			return fmt.Errorf("request %d is out of order in the running list", r.id)
		}
		if r.computed > r.tokens() || r.allocated < r.computed || r.generated >= r.maxOutput {
			return fmt.Errorf("request %d: %d computed, %d allocated, %d + %d of %d tokens",
				r.id, r.computed, r.allocated, r.promptTokens, r.generated, r.maxOutput)
		}
		if len(r.slots) != s.blocksFor(r, r.allocated) {
			return fmt.Errorf("request %d holds %d blocks for %d tokens", r.id, len(r.slots), r.allocated)
		}
		hold(r)
	}
	numActivated := 0
	for i := range s.waiting.Len() {
		r := s.waiting.At(i)
		if r.status == activated {
			numActivated++
			if len(r.slots) != r.listed || r.computed != r.promptTokens || r.allocated != r.promptTokens {
				return fmt.Errorf("request %d is activated with %d blocks, %d computed, %d allocated", r.id,
					len(r.slots), r.computed, r.allocated)
			}
			hold(r)
			continue
		}
		if r.status != waiting && r.status != preempted || len(r.slots) > 0 || r.computed > 0 || r.allocated > 0 {
			return fmt.Errorf("request %d waits: %v, %d blocks, %d computed, %d allocated", r.id, r.status,
				len(r.slots), r.computed, r.allocated)
		}
	}
	if s.guaranteed() && s.promised() > s.pool.Available() {
		return fmt.Errorf("%d blocks are promised, %d available", s.promised(), s.pool.Available())
	}
	if s.pool.Aside() > 0 {
		return fmt.Errorf("%d blocks are still set aside", s.pool.Aside())
	}
	if numActivated != s.destinations.activated {
		return fmt.Errorf("%d requests are activated, %d counted", numActivated, s.destinations.activated)
	}
	missing, reservedBlocks := 0, 0
	for _, r := range s.inHandoff() {
		hold(r)
		missing += r.reservation.Missing()
		reservedBlocks += r.reservation.Blocks()
	}
	if active := s.pool.Active(); active < len(holders)+missing || active > len(holders)+reservedBlocks {
		return fmt.Errorf("%d blocks are active, %d are held, %d to %d reserved", active, len(holders), missing,
			reservedBlocks)
	}
	if free, available := s.pool.Free(), s.pool.Available(); free < 0 || free > available ||
		available+s.pool.Active() != s.pool.Capacity() {
		return fmt.Errorf("%d blocks free, %d available, %d active of %d", free, available, s.pool.Active(),
			s.pool.Capacity())
	}
	if len(s.running) > s.args.MaxNumSeqs {
		return fmt.Errorf("%d run, max_num_seqs is %d", len(s.running), s.args.MaxNumSeqs)
	}
	return nil
}

// checkPass checks that a pass kept to the budget.
func checkPass(s *Scheduler, p *engine.Pass) error {
	if s.budget < 0 || s.budget > s.args.MaxNumBatchedTokens {
		return fmt.Errorf("%d of the budget of %d are left", s.budget, s.args.MaxNumBatchedTokens)
	}
	tokens := p.Tokens
	for _, b := range p.Bursts {
		tokens -= b.Tokens - 1
	}
	if tokens > p.Scheduled {
		return fmt.Errorf("%d tokens, bursts %v, from %d scheduled requests", p.Tokens, p.Bursts, p.Scheduled)
	}
	if s.guaranteed() && p.Preempted > 0 {
		return fmt.Errorf("%d preemptions although room is guaranteed", p.Preempted)
	}
	if s.prefillCount < 0 || s.prefillStart < 0 || s.prefillISL < s.prefillStart {
		return fmt.Errorf("prefill of %d requests from %d to %d", s.prefillCount, s.prefillStart, s.prefillISL)
	}
	return nil
}

// checkEnd checks that nothing is left and that exactly those were rejected that can never run.
func checkEnd(m *simulation, notes *enginetest.Recorder) error {
	if m.s.Requests() != 0 || m.s.pool.Active() != 0 || len(m.s.States()) != 0 {
		return fmt.Errorf("at the end %d requests are owned and %d blocks active", m.s.Requests(), m.s.pool.Active())
	}
	rejectedLate := false
	for i, a := range m.arrivals {
		o := &notes.Fates[i]
		switch never, unlessCached := m.hopeless(a); {
		case !o.Over():
			return fmt.Errorf("%s never ends", a.name)
		case never && o.Finished:
			return fmt.Errorf("%s finishes although it cannot run", a.name)
		case !never && !unlessCached && !o.Finished:
			return fmt.Errorf("%s is rejected: %s", a.name, o.Rejected)
		case o.Finished && len(o.TokenMs) != m.s.args.Output(a.prompt, a.output):
			return fmt.Errorf("%s got %d of %d tokens", a.name, len(o.TokenMs), a.output)
		case o.Finished && (o.AdmitMs < a.atMs || o.TokenMs[0] <= o.AdmitMs):
			return fmt.Errorf("%s arrives at %v, is admitted at %v, gets its first token at %v", a.name, a.atMs,
				o.AdmitMs, o.TokenMs[0])
		case o.MaxReused() > a.prompt || !m.s.args.PrefixCaching && o.MaxReused() > 0:
			return fmt.Errorf("%s reused %d of %d prompt tokens", a.name, o.MaxReused(), a.prompt)
		}
		rejectedLate = rejectedLate || o.Rejected != "" && o.Reused != nil
	}
	if rejectedLate {
		return nil
	}
	return notes.Unclaimed()
}

// hopeless tells whether a request can never run, or only if enough of its prompt is cached at the right time.
func (m *simulation) hopeless(a arrival) (never, unlessCached bool) {
	s := m.s
	never = s.ceilBlocks(a.prompt+s.args.Output(a.prompt, a.output)) > s.pool.Capacity() ||
		s.ceilBlocks(a.prompt)+s.keptFree > s.pool.Capacity()
	return never, !s.args.ChunkedPrefill && a.prompt > s.args.MaxNumBatchedTokens
}

// checkRenamed runs the workload with other numbers for the same prefixes. MultiLRU is left out: it counts uses in a
// sketch, where numbers may collide.
func checkRenamed(args engineargs.Args, setup engine.Setup, workload []arrival, want *enginetest.Recorder) error {
	if args.Eviction == engineargs.MultiLRU {
		return nil
	}
	m := newSimulationWith(args, setup, workload)
	for _, r := range m.requests {
		for i, segment := range r.Prompt.Segments {
			r.Prompt.Segments[i] = 1<<20 - 3*segment
		}
	}
	got := enginetest.NewRecorder(len(m.arrivals))
	if err := m.run(got.See); err != nil {
		return fmt.Errorf("renamed: %w", err)
	}
	if !reflect.DeepEqual(got.Fates, want.Fates) {
		return fmt.Errorf("renamed blocks change the run\n got %+v\nwant %+v", got.Fates, want.Fates)
	}
	return nil
}
