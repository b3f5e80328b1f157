package sglang

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestRandomWorkloads checks many small workloads, most of them on tight pools, against what must always hold.
func TestRandomWorkloads(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 200
	}
	rng := rand.New(rand.NewPCG(3, 5))
	for range runs {
		data := enginetest.RandomBytes(rng, 12, 60)
		if err := checkWorkload(data); err != nil {
			args, w := workloadFrom(data)
			t.Fatalf("%v\nargs %+v\nworkload %+v\ndata %#v", err, args, w, data)
		}
	}
}

// FuzzScheduler looks for a workload that breaks one of the same rules.
func FuzzScheduler(f *testing.F) {
	f.Add([]byte{})
	// Engine, then requests of five bytes: see workloadFrom.
	f.Add([]byte{0, 4, 0, 2, 0, 0, 0, 0, 5, 6, 1, 0, 0, 6, 4, 2, 0})             // retraction
	f.Add([]byte{2, 5, 0, 7, 0, 1, 0, 0, 5, 6, 1, 0, 0, 6, 4, 2, 0})             // the same with pages and LPM
	f.Add([]byte{0, 3, 0, 1, 0, 0, 0, 0, 3, 7, 1, 9, 0, 3, 7, 1, 9, 0, 3, 7, 1}) // leak
	f.Add([]byte{0, 11, 0, 1, 3, 0, 0, 0, 9, 13, 1, 0, 1, 19, 3, 2, 0})          // memory deadlock
	f.Add([]byte{1, 4, 0, 2, 0, 0, 192, 0, 5, 6, 1, 6, 0, 6, 4, 2, 0})           // bursts, and replies that others have
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := checkWorkload(data); err != nil {
			t.Fatal(err)
		}
	})
}

// workloadFrom turns any bytes into a small engine and at most eight requests. Each request is arrival, prompt, output,
// a family of prompts, and the token at which it leaves the prompts of its family.
func workloadFrom(data []byte) (engineargs.Args, workload) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	args := engineargs.Default()
	args.EngineType = engineargs.SGLang
	args.BlockSize = 1 + next()%5
	args.NumGPUBlocks = (20+next()%80)/args.BlockSize + 1
	args.MaxNumSeqs = math.MaxInt
	if seqs := next() % 6; seqs > 0 {
		args.MaxNumSeqs = seqs
	}
	args.SGLang.ClipMaxNewTokens = 1 + next()%10
	args.SGLang.ChunkedPrefillSize = args.BlockSize * (1 + next()%10)
	args.SGLang.MaxPrefillTokens = max(1, args.SGLang.ChunkedPrefillSize+next()%20-2)
	switches := next()
	args.SGLang.Policy = engineargs.SchedulePolicy(switches & 1)
	args.SGLang.ReferenceQuirks = switches>>1&1 == 0
	args.SGLang.Conservativeness = []float64{1, 0, 0.5, 1}[switches>>2&3]
	args.SpeedupRatio = []float64{1, 1, 1, 1e12}[switches>>4&3]
	if switches>>7&1 == 1 {
		args.Drafts, args.AcceptRates = 5, "0.7,0.5,1,0.8,1"
	}
	w := workload{traceBlock: 1}
	for len(data) > 0 && len(w.arrivals) < 8 {
		a := arrival{
			name:   string(rune('A' + len(w.arrivals))),
			atMs:   float64(next() % 64 * 8),
			prompt: 1 + next()%40,
			output: 1 + next()%20,
		}
		family, leaves := 1+next()%3, next()%40
		// generated tokens are what longer prompts of the family have there
		if switches>>6&1 == 1 && leaves >= a.prompt {
			a.reply = slices.Repeat([]int{family}, min(a.output, leaves-a.prompt))
		}
		for token := range a.prompt {
			id := family
			if token >= leaves {
				id = 10 + len(w.arrivals)
			}
			a.ids = append(a.ids, id)
		}
		w.arrivals = append(w.arrivals, a)
	}
	return args, w
}

// checkWorkload runs a workload step by step and checks every pass; then again, as a user's run does it and with a
// record of events, and with other numbers for the same pages: nothing may differ.
func checkWorkload(data []byte) error {
	args, w := workloadFrom(data)
	m := newSimulation(args, w)
	m.plain = true
	notes := enginetest.NewRecorder(len(m.requests))
	var seen []engine.Pass
	limit := m.passLimit()
	rescues := 0 // until the last token
	for m.release() {
		pass, err := m.step(m.s.RunPass)
		if err != nil {
			return err
		}
		seen = append(seen, enginetest.CopyPass(pass))
		if len(seen) > limit {
			return fmt.Errorf("no end after %d passes", limit)
		}
		if pass.Tokens+len(pass.Rejected) > 0 {
			rescues = m.unblocks
		}
		if steps := m.unblocks - rescues; steps > m.rescueLimit() {
			return fmt.Errorf("no token after %d steps of rescue", steps)
		}
		if err := errors.Join(notes.See(pass), checkState(m.s)); err != nil {
			return err
		}
	}
	if err := m.checkEnd(notes); err != nil {
		return err
	}
	for _, variant := range []string{"plain", "lazy", "recording"} {
		if err := sameRun(args, w, variant, seen); err != nil {
			return fmt.Errorf("again, %s: %w", variant, err)
		}
	}
	return m.checkRenamed(seen)
}

// rescueLimit returns how many calls of Unblock may be needed for one token: each request may have to give up its
// chunks, and the favourite may have to return duplicates after each of its own; then there is the leak, and the choice
// of the favourite.
func (m *simulation) rescueLimit() int {
	chunks := 0
	for _, a := range m.workload.arrivals {
		chunks = max(chunks, ceilDiv(a.prompt+a.output, m.s.args.SGLang.ChunkedPrefillSize))
	}
	return len(m.requests) + chunks + 2
}

// passLimit returns a number of passes in which every run must end, if all of its tokens need a rescue.
func (m *simulation) passLimit() int {
	tokens := 1
	for _, a := range m.workload.arrivals {
		tokens += a.output + 1
	}
	limit := m.rescueLimit() * 4
	if m.s.drafts != nil {
		limit += patience * 2
	}
	return tokens * limit
}

// checkState checks the books of an engine between two passes, when all running requests are up to date.
func checkState(s *Scheduler) error {
	p := s.pool
	own, tokens, pages := 0, 0, 0
	for _, r := range append(s.owned(), s.inHandoff()...) {
		own += r.holding.Own()
		switch {
		case r.status == pending && r.holding.Tokens() > 0,
			r.status == reserved && r.holding.Tokens() != s.roundUp(r.promptTokens),
			r.status == prebuilt && r.holding.Tokens() != r.promptTokens,
			r.status == held && r.holding.Tokens() != r.promptTokens+r.maxOutput:
			return fmt.Errorf("request %d, %v, has %d tokens in slots", r.id, r.status, r.holding.Tokens())
		case (r.status == waiting || r.status == retracted) && r.holding.Tokens()%s.pageSize > 0:
			return fmt.Errorf("request %d waits with %d tokens in slots", r.id, r.holding.Tokens())
		case r.status == running && (r.holding.Tokens() != s.tokens(r) || s.remaining(r) < 1):
			return fmt.Errorf("request %d runs with %d of %d tokens in slots, %d tokens to go",
				r.id, r.holding.Tokens(), s.tokens(r), s.remaining(r))
		case r.status == running:
			tokens += s.tokens(r)
			pages += ceilDiv(s.tokens(r), s.pageSize)
		}
	}
	if all := p.Free() + p.Evictable() + p.Protected() + own + p.Leaked() - p.OverReturned(); all != p.Total() {
		return fmt.Errorf("%d free + %d evictable + %d protected + %d own + %d leaked - %d over-returned = %d of %d slots",
			p.Free(), p.Evictable(), p.Protected(), own, p.Leaked(), p.OverReturned(), all, p.Total())
	}
	if !s.args.SGLang.ReferenceQuirks && p.Leaked()+p.OverReturned() > 0 {
		return fmt.Errorf("%d leaked, %d over-returned without quirks", p.Leaked(), p.OverReturned())
	}
	if s.load.tokens != tokens || s.load.pages != pages || s.load.requests != len(s.running) {
		return fmt.Errorf("the load is %+v, want %d tokens, %d pages, %d requests", s.load, tokens, pages,
			len(s.running))
	}
	if len(s.running) > s.args.MaxNumSeqs || p.Free() < 0 || p.Evictable() < 0 {
		return fmt.Errorf("%d run, max_num_seqs is %d; %d slots free, %d evictable", len(s.running), s.args.MaxNumSeqs,
			p.Free(), p.Evictable())
	}
	return nil
}

// checkEnd checks that nothing is left, and that exactly those were rejected that can never run.
func (m *simulation) checkEnd(notes *enginetest.Recorder) error {
	p := m.s.pool
	if m.s.Requests() != 0 || p.Protected() != 0 || len(m.s.States()) != 0 || m.s.load.requests != 0 ||
		m.s.load.pages != 0 || slices.ContainsFunc(m.s.load.phases, func(n int32) bool { return n != 0 }) {
		return fmt.Errorf("at the end %d requests are owned, %d tokens protected, the load is %+v", m.s.Requests(),
			p.Protected(), m.s.load)
	}
	limits := m.s.args.SGLang
	rejectedLate := false // after its first token
	for i, a := range m.workload.arrivals {
		o := &notes.Fates[i]
		rejectedLate = rejectedLate || o.Rejected != "" && notes.Emitted(i)
		fits := m.s.roundUp(a.prompt)+min(a.output, limits.ClipMaxNewTokens) < p.Total() &&
			a.prompt+a.output <= p.Total() &&
			min(m.s.roundUp(a.prompt), limits.ChunkedPrefillSize) <= limits.MaxPrefillTokens
		switch retracted := o.Reused != nil; {
		case !o.Over():
			return fmt.Errorf("%s never ends", a.name)
		case o.Rejected != "" && fits && !retracted:
			return fmt.Errorf("%s is rejected: %s", a.name, o.Rejected)
		case o.Finished && !fits && p.OverReturned() == 0:
			return fmt.Errorf("%s finishes although it cannot run", a.name)
		case o.Finished && len(o.TokenMs) != a.output:
			return fmt.Errorf("%s got %d of %d tokens", a.name, len(o.TokenMs), a.output)
		case o.Finished && (o.AdmitMs < a.atMs || o.TokenMs[0] < o.AdmitMs):
			return fmt.Errorf("%s arrives at %v, is admitted at %v, gets its first token at %v", a.name, a.atMs,
				o.AdmitMs, o.TokenMs[0])
		}
	}
	if rejectedLate {
		return nil
	}
	return notes.Unclaimed()
}

// checkRenamed runs the workload with other numbers for the same pages.
func (m *simulation) checkRenamed(want []engine.Pass) error {
	again := newSimulation(m.s.args, m.workload)
	for _, r := range again.requests {
		for i, segment := range r.Prompt.Segments {
			r.Prompt.Segments[i] = 1<<20 - 3*segment
		}
	}
	for i := range want {
		again.release()
		pass, err := again.step(again.s.RunPass)
		if err != nil {
			return fmt.Errorf("renamed: %w", err)
		}
		if got := enginetest.CopyPass(pass); !reflect.DeepEqual(got, want[i]) {
			return fmt.Errorf("renamed pages change pass %d\n got %+v\nwant %+v", i+1, got, want[i])
		}
	}
	return nil
}
