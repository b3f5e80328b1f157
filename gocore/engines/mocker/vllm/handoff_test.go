package vllm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// requestsOf numbers prompts as a simulation does.
func requestsOf(args engineargs.Args, workload []arrival) []engine.Request {
	return newSimulation(args, workload).requests
}

// TestSourceHoldsItsBlocks: the last token of a prefill worker costs no time, and its request keeps everything until it
// is released or canceled.
func TestSourceHoldsItsBlocks(t *testing.T) {
	args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 8}`)
	requests := requestsOf(args, []arrival{{prompt: 7, output: 1}, {prompt: 8, output: 1}, {prompt: 4, output: 1}})
	s := New(args, engine.Setup{Role: engine.Prefill})
	for _, r := range requests {
		r.Hold = true
		s.Add(r)
	}
	s.ReleaseSource(2) // before it is held: nothing has to be
	pass, alive := s.RunPass(0)
	const prefillMs = 16.774858 // of three requests with 6 tokens each, as their mean is rounded down
	if !alive || math.Abs(pass.EndMs-prefillMs) > 1e-6 {
		t.Errorf("alive %t, ends at %v", alive, pass.EndMs)
	}
	if want := []engine.RequestID{0, 1, 2}; !slices.Equal(pass.Finished, want) || !slices.Equal(pass.Held, want[:2]) {
		t.Errorf("finished %v, held %v", pass.Finished, pass.Held)
	}
	if s.Requests() != 0 || len(s.States()) != 2 || s.States()[1].BlocksHeld != 3 || s.pool.Active() != 5 {
		t.Errorf("%d requests, %d active blocks, %+v", s.Requests(), s.pool.Active(), s.States())
	}
	s.ReleaseSource(0)
	s.CancelSource(1)
	s.CancelSource(1)
	s.ReleaseSource(77)
	if s.pool.Active() != 0 || len(s.States()) != 0 {
		t.Errorf("%d blocks are active, %d requests left", s.pool.Active(), len(s.States()))
	}
}

// TestCancelAnywhere cancels requests of a prefill and of a decode worker in every state they can be in.
func TestCancelAnywhere(t *testing.T) {
	args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 8, "max_num_seqs": 1}`)
	requests := requestsOf(args, []arrival{{prompt: 7, output: 9}, {prompt: 8, output: 9}, {prompt: 8, output: 9},
		{prompt: 12, output: 9}})
	source := New(args, engine.Setup{Role: engine.Prefill})
	for i, r := range requests[:3] {
		r.Hold = true
		r.OutputTokens = 1 + i // so that the second one goes on running
		source.Add(r)
	}
	source.RunPass(0)
	source.RunPass(1)
	for id, want := range []string{held.String(), running.String(), waiting.String()} {
		if got := source.States()[0]; got.State != want || int(got.ID) != id {
			t.Fatalf("request %d is %q, want %q", got.ID, got.State, want)
		}
		source.CancelSource(engine.RequestID(id))
	}

	destination := New(args, engine.Setup{Role: engine.Decode})
	for _, r := range requests {
		if err := destination.Reserve(r); err != nil {
			t.Fatal(err)
		}
	}
	for id := range engine.RequestID(2) {
		destination.TryReserve()
		destination.Activate(id)
	}
	destination.TryReserve()
	destination.RunPass(0)
	for id, want := range []string{running.String(), activated.String(), reserved.String(), pending.String()} {
		if got := destination.States()[0]; got.State != want || int(got.ID) != id {
			t.Fatalf("request %d is %q, want %q", got.ID, got.State, want)
		}
		destination.CancelDestination(engine.RequestID(id))
		destination.CancelDestination(engine.RequestID(id))
	}
	for _, s := range []*Scheduler{source, destination} {
		if s.pool.Active() != 0 || s.Requests() != 0 || len(s.States()) != 0 || s.destinations.activated != 0 {
			t.Errorf("%v: %d active blocks, %d requests, %d left", s.role, s.pool.Active(), s.Requests(),
				len(s.States()))
		}
	}
}

// TestReserve: one at a time, the head only, and not again before something has changed.
func TestReserve(t *testing.T) {
	args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 6}`)
	requests := requestsOf(args, []arrival{{prompt: 8, output: 1}, {prompt: 12, output: 1}, {prompt: 2, output: 1},
		{prompt: 21, output: 4}})
	s := New(args, engine.Setup{Role: engine.Decode})
	for _, r := range requests[:3] {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Reserve(requests[3]); err == nil || !strings.Contains(err.Error(), "num_gpu_blocks is 6") ||
		len(s.States()) != 3 {
		t.Errorf("a request of 7 blocks: %v", err)
	}
	try := func(wantID engine.RequestID, wantTokens int) {
		t.Helper()
		r, ok := s.TryReserve()
		if !ok || r.ID != wantID || r.MissingTokens != wantTokens {
			t.Errorf("got %+v, %t, want %d with %d tokens", r, ok, wantID, wantTokens)
		}
	}
	refuse := func() {
		t.Helper()
		if r, ok := s.TryReserve(); ok {
			t.Errorf("got %+v, want nothing", r)
		}
	}
	try(0, 8)
	try(1, 12)
	s.Activate(0)
	try(2, 4) // a partial block counts as a whole one
	refuse()
	if s.Requests() != 1 || s.pool.Active() != 6 {
		t.Errorf("%d requests, %d active blocks", s.Requests(), s.pool.Active())
	}
	if err := s.Reserve(requests[2]); err != nil {
		t.Fatal(err)
	}
	refuse()
	s.CancelDestination(1)
	try(2, 4)
}

// TestReserveLeavesWatermark: what is kept back for running requests is not reserved.
func TestReserveLeavesWatermark(t *testing.T) {
	args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 10, "watermark": 0.3}`)
	requests := requestsOf(args, []arrival{{prompt: 16, output: 1}, {prompt: 16, output: 1}, {prompt: 30, output: 1}})
	s := New(args, engine.Setup{Role: engine.Decode})
	for _, r := range requests[:2] {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Reserve(requests[2]); err == nil || !strings.Contains(err.Error(), "watermark") {
		t.Errorf("a prompt of 8 blocks beside a reserve of 3: %v", err)
	}
	if _, ok := s.TryReserve(); !ok {
		t.Error("no room for the first")
	}
	if _, ok := s.TryReserve(); ok {
		t.Error("room for the second, in the reserve")
	}
}

// TestEventsBetweenPasses: what a destination evicts and stores between passes is reported with the next pass.
func TestEventsBetweenPasses(t *testing.T) {
	args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 3}`)
	requests := requestsOf(args, []arrival{{prompt: 8, output: 1, ids: []int{1, 2}},
		{prompt: 8, output: 1, ids: []int{3, 4}}})
	s := New(args, engine.Setup{Role: engine.Decode})
	s.Observe()
	var got []string
	for _, r := range requests {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
		s.TryReserve()
		s.Activate(r.ID)
		pass, _ := s.RunPass(0)
		for _, e := range pass.KVEvents {
			got = append(got, fmt.Sprint(e.Kind, slices.Collect(e.Blocks.All())))
		}
	}
	// The second prompt and its token need all three blocks.
	if want := []string{"0 [0 1]", "1 [1]", "0 [2 3]", "1 [0]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRandomHandoffs moves random workloads from one prefill to one decode worker by a script of random delays, and
// checks the books of both after every step; then again without shortcuts.
func TestRandomHandoffs(t *testing.T) {
	runs := 3000
	if testing.Short() {
		runs = 300
	}
	rng := rand.New(rand.NewPCG(7, 11))
	stalls := 0
	for range runs {
		data := enginetest.RandomBytes(rng, 12, 50)
		stalled, err := checkHandoffs(data)
		if err != nil {
			t.Fatalf("%v\ndata %#v", err, data)
		}
		if stalled {
			stalls++
		}
	}
	if stalls < runs/200 {
		t.Errorf("only %d of %d runs stalled", stalls, runs)
	}
}

// FuzzHandoffs looks for a workload that breaks one of the same rules.
func FuzzHandoffs(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 3, 0, 30, 0, 0, 0, 5, 9, 6, 1, 0, 0, 0, 9, 2, 0, 3, 20, 5, 2, 1, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := checkHandoffs(data); err != nil {
			t.Fatal(err)
		}
	})
}

func checkHandoffs(data []byte) (stalled bool, err error) {
	args, workload := workloadFrom(data)
	args.Admission = engineargs.AdmitPresent // the other policy has no hand-offs
	first := newPair(args, workload, data, false)
	if err := first.run(); err != nil {
		return false, err
	}
	second := newPair(args, workload, data, true)
	if err := second.run(); err != nil {
		return false, fmt.Errorf("plain: %w", err)
	}
	if !reflect.DeepEqual(first.seen, second.seen) {
		return false, fmt.Errorf("a run without shortcuts differs:\n got %+v\nwant %+v", first.seen, second.seen)
	}
	return first.stalled, nil
}

// pair is a prefill and a decode worker that take turns. A script says for how many rounds the KV of a request is on
// its way.
type pair struct {
	workload []arrival
	requests []engine.Request
	source   *Scheduler
	target   *Scheduler
	plain    bool
	delays   []byte

	round    int
	nowMs    float64
	released int
	arrives  map[engine.RequestID]int // round in which the KV of a reserved request arrives
	notes    *enginetest.Recorder
	left     int
	seen     []passRecord
	stalled  bool
}

func newPair(args engineargs.Args, workload []arrival, delays []byte, plain bool) *pair {
	m := newSimulation(args, workload)
	return &pair{
		workload: m.arrivals,
		requests: m.requests,
		source:   New(args, engine.Setup{Role: engine.Prefill}),
		target:   New(args, engine.Setup{Role: engine.Decode}),
		plain:    plain,
		delays:   delays,
		arrives:  map[engine.RequestID]int{},
		notes:    enginetest.NewRecorder(len(workload)),
		left:     len(workload),
	}
}

// run goes on until every request is over. A round without any effect makes time go to the next arrival or transfer,
// and when there is none, the decode worker must know a way out.
func (p *pair) run() error {
	for p.round = 0; p.left > 0; p.round++ {
		if p.round > 300_000 {
			return errors.New("no end in sight")
		}
		changed := p.arrive()
		for _, step := range []func() (bool, error){p.prefill, p.decode, p.transfer} {
			did, err := step()
			if err == nil {
				err = errors.Join(checkState(p.source), checkState(p.target))
			}
			if err != nil {
				return fmt.Errorf("round %d: %w", p.round, err)
			}
			changed = changed || did
		}
		switch {
		case changed || len(p.arrives) > 0:
		case p.released < len(p.requests):
			p.nowMs = max(p.nowMs, p.workload[p.released].atMs)
		case !p.reserve() && !p.target.Unblock():
			return fmt.Errorf("round %d: dead end: %+v, %+v", p.round, p.source.States(), p.target.States())
		}
	}
	for _, s := range []*Scheduler{p.source, p.target} {
		if s.pool.Active() != 0 || s.Requests() != 0 || len(s.States()) != 0 {
			return fmt.Errorf("%v: at the end %d blocks are active, %+v left", s.role, s.pool.Active(), s.States())
		}
	}
	return unclaimedUnlessRejected(p.notes)
}

func (p *pair) arrive() (changed bool) {
	for p.released < len(p.requests) && p.workload[p.released].atMs <= p.nowMs {
		r := p.requests[p.released]
		r.OutputTokens, r.Hold = 1, true
		p.source.Add(r)
		p.released++
		changed = true
	}
	return changed
}

func (p *pair) pass(s *Scheduler) (*engine.Pass, bool) {
	if s.Requests() == 0 {
		return nil, false
	}
	if p.plain {
		s.steady.off = true
		s.headLacksBlocks = false
	}
	pass, alive := s.RunPass(p.nowMs)
	p.stalled = p.stalled || s.stall.alone || s.stall.overtaking
	if !alive || pass.Idle() {
		return nil, false
	}
	p.seen = append(p.seen, record(s, pass))
	p.nowMs = pass.EndMs
	return pass, true
}

func (p *pair) prefill() (changed bool, err error) {
	pass, ok := p.pass(p.source)
	if !ok {
		return false, nil
	}
	p.left -= len(pass.Rejected)
	for _, id := range pass.Held {
		if err := p.target.Reserve(p.requests[id]); err != nil {
			p.source.CancelSource(id)
			p.left--
			continue
		}
		p.reserve()
	}
	return true, nil
}

func (p *pair) decode() (changed bool, err error) {
	pass, ok := p.pass(p.target)
	if !ok {
		return false, nil
	}
	p.reserve()
	p.left -= len(pass.Finished) + len(pass.Rejected)
	return true, p.notes.See(pass)
}

func (p *pair) reserve() bool {
	r, ok := p.target.TryReserve()
	if !ok {
		return false
	}
	delay := 0
	if len(p.delays) > 0 {
		delay = int(p.delays[int(r.ID)%len(p.delays)] % 8)
	}
	p.arrives[r.ID] = p.round + delay
	return true
}

// transfer activates those whose KV has arrived, in order of their numbers.
func (p *pair) transfer() (changed bool, err error) {
	for id := range engine.RequestID(len(p.requests)) {
		if round, ok := p.arrives[id]; ok && round <= p.round {
			delete(p.arrives, id)
			p.target.Activate(id)
			p.source.ReleaseSource(id)
			p.reserve()
			changed = true
		}
	}
	return changed, nil
}

// unclaimedUnlessRejected returns what Unclaimed does, for runs in which requests may be rejected after their first
// token.
func unclaimedUnlessRejected(r *enginetest.Recorder) error {
	for i := range r.Fates {
		if r.Fates[i].Rejected != "" && r.Fates[i].Reused != nil {
			return nil
		}
	}
	return r.Unclaimed()
}
