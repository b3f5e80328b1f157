package sglang

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// family is a prompt and an output length, and the first tokens that the prompt shares with others of its number.
type family struct{ number, shared, prompt, output int }

// requestsOf numbers prompts as a simulation does.
func requestsOf(args engineargs.Args, families ...family) []engine.Request {
	w := workload{traceBlock: 1}
	for i, f := range families {
		a := arrival{prompt: f.prompt, output: f.output}
		for token := range f.prompt {
			id := f.number
			if token >= f.shared {
				id = 100 + i
			}
			a.ids = append(a.ids, id)
		}
		w.arrivals = append(w.arrivals, a)
	}
	return w.requests(args.BlockSize)
}

// TestSourceHoldsItsSlots: the last token of a prefill worker costs a decode step, and its request keeps everything
// until it is released or canceled.
func TestSourceHoldsItsSlots(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 100}`)
	s := New(args, engine.Setup{Role: engine.Prefill})
	for _, r := range requestsOf(args, family{prompt: 7, output: 1}, family{prompt: 8, output: 1},
		family{prompt: 4, output: 1}) {
		r.Hold = true
		s.Add(r)
	}
	s.ReleaseSource(2) // before it is held: nothing has to be
	pass, alive := s.RunPass(0)
	prefillMs := s.clock.PrefillSeconds(3, 19, 0) * 1000
	decodeMs := s.clock.DecodeSeconds(1, 19, 19, 400) * 1000
	if !alive || pass.EndMs != prefillMs+decodeMs {
		t.Errorf("alive %t, ends at %v, want %v + %v", alive, pass.EndMs, prefillMs, decodeMs)
	}
	if want := []engine.RequestID{0, 1, 2}; !slices.Equal(pass.Finished, want) || !slices.Equal(pass.Held, want[:2]) {
		t.Errorf("finished %v, held %v", pass.Finished, pass.Held)
	}
	// The third has left its page to the cache. Of the other two no request finds anything before they are released.
	if s.Requests() != 0 || len(s.States()) != 2 || s.States()[1].BlocksHeld != 3 || s.pool.Free() != 400-8-9-4 ||
		s.pool.Evictable() != 4 {
		t.Errorf("%d requests, %d slots free, %d evictable, %+v", s.Requests(), s.pool.Free(), s.pool.Evictable(),
			s.States())
	}
	s.ReleaseSource(0)
	s.CancelSource(1)
	s.CancelSource(1)
	s.ReleaseSource(77)
	if s.pool.Free() != 400-8-8-4 || s.pool.Evictable() != 8+8+4 || len(s.States()) != 0 {
		t.Errorf("%d slots free, %d evictable, %d requests left", s.pool.Free(), s.pool.Evictable(), len(s.States()))
	}
}

// TestHeldPromptIsNotCached: a prompt can be found when its source has been released, not before.
func TestHeldPromptIsNotCached(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 100}`)
	requests := requestsOf(args, family{prompt: 8, shared: 8, output: 1}, family{prompt: 8, shared: 8, output: 1},
		family{prompt: 8, shared: 8, output: 1})
	s := New(args, engine.Setup{Role: engine.Prefill})
	for i, want := range []int{0, 0, 8} {
		requests[i].Hold = true
		s.Add(requests[i])
		pass, _ := s.RunPass(0)
		if len(pass.Held) != 1 || pass.Admitted[0].ReusedTokens != want {
			t.Errorf("request %d: held %v, reuses %d, want %d", i, pass.Held, pass.Admitted[0].ReusedTokens, want)
		}
		if i == 1 {
			s.ReleaseSource(0)
		}
	}
}

// TestCancelAnywhere cancels requests of a prefill and of a decode worker in every state they can be in.
func TestCancelAnywhere(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 16, "max_num_seqs": 2,
		"sglang": {"chunked_prefill_size": 12}}`)
	source := New(args, engine.Setup{Role: engine.Prefill})
	for i, r := range requestsOf(args, family{prompt: 7, output: 1}, family{prompt: 3, output: 9},
		family{prompt: 17, output: 9}) {
		r.Hold = i == 0
		source.Add(r)
	}
	source.RunPass(0)
	source.RunPass(1) // computes the first chunk of the third one
	for id, want := range []string{held.String(), running.String(), waiting.String()} {
		if got := source.States()[0]; got.State != want || int(got.ID) != id {
			t.Fatalf("request %d is %q, want %q", got.ID, got.State, want)
		}
		source.CancelSource(engine.RequestID(id))
		source.CancelSource(engine.RequestID(id))
		source.catchUpAll()
		if err := checkState(source); err != nil {
			t.Error(err)
		}
	}

	args.MaxNumSeqs = 1
	destination := New(args, engine.Setup{Role: engine.Decode})
	for _, r := range requestsOf(args, family{prompt: 7, output: 9}, family{prompt: 8, output: 9},
		family{prompt: 8, output: 9}, family{prompt: 42, output: 9}) {
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
	for id, want := range []string{running.String(), prebuilt.String(), reserved.String(), pending.String()} {
		if got := destination.States()[0]; got.State != want || int(got.ID) != id {
			t.Fatalf("request %d is %q, want %q", got.ID, got.State, want)
		}
		destination.CancelDestination(engine.RequestID(id))
		destination.CancelDestination(engine.RequestID(id))
		destination.catchUpAll()
		if err := checkState(destination); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []*Scheduler{source, destination} {
		if s.pool.Protected() != 0 || s.Requests() != 0 || len(s.States()) != 0 ||
			s.pool.Available() != s.pool.Total() {
			t.Errorf("%v: %d slots are protected, %d available, %d requests, %d left",
				s.role, s.pool.Protected(), s.pool.Available(), s.Requests(), len(s.States()))
		}
	}
}

// tryReserve checks that there is room for this request.
func tryReserve(t *testing.T, s *Scheduler, wantID engine.RequestID, wantTokens int) {
	t.Helper()
	r, ok := s.TryReserve()
	if !ok || r.ID != wantID || r.MissingTokens != wantTokens {
		t.Errorf("got %+v, %t, want %d with %d tokens", r, ok, wantID, wantTokens)
	}
}

// noRoom checks that there is none, or no request that looks for it.
func noRoom(t *testing.T, s *Scheduler) {
	t.Helper()
	if r, ok := s.TryReserve(); ok {
		t.Errorf("got %+v, want nothing", r)
	}
}

// TestReserve: one at a time, the head only, and not again before something has changed.
func TestReserve(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 6}`)
	requests := requestsOf(args, family{prompt: 7, output: 1}, family{prompt: 12, output: 1},
		family{prompt: 5, output: 1}, family{prompt: 21, output: 4})
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
	tryReserve(t, s, 0, 8)
	tryReserve(t, s, 1, 12)
	noRoom(t, s)
	s.Activate(0) // gives back a slot, which is not enough
	noRoom(t, s)
	if waiting, running, blocks := s.Load(); waiting != 3 || running != 0 || blocks != 5 || s.Requests() != 1 {
		t.Errorf("%d wait, %d run, %d blocks, %d requests", waiting, running, blocks, s.Requests())
	}
	if got := s.States(); got[0].BlocksHeld != 2 || got[1].BlocksHeld != 3 || got[2].BlocksHeld != 0 {
		t.Errorf("held blocks: %+v", got)
	}
	s.RunPass(0) // 0 ends
	tryReserve(t, s, 2, 8)
	if err := s.Reserve(requests[1]); err != nil {
		t.Fatal(err)
	}
	noRoom(t, s)
	s.CancelDestination(2)
	tryReserve(t, s, 1, 12)
}

// TestReserveShares: what the tree has of a prompt needs no room and no transfer, and is no cache hit.
func TestReserveShares(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 8}`)
	same := family{prompt: 10, shared: 10, output: 2}
	s := New(args, engine.Setup{Role: engine.Decode})
	for i, r := range requestsOf(args, same, same) {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
		tryReserve(t, s, r.ID, []int{12, 4}[i])
		s.Activate(r.ID)
		for s.Requests() > 0 {
			pass, _ := s.RunPass(0)
			for _, a := range pass.Admitted {
				if a.ReusedTokens != 0 {
					t.Errorf("%+v", a)
				}
			}
		}
	}
}

// TestPrebuiltComeFirst: no request is admitted from the waiting queue while others have their KV or wait for room.
func TestPrebuiltComeFirst(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "num_gpu_blocks": 30, "max_num_seqs": 1}`)
	requests := requestsOf(args, family{prompt: 4, output: 1}, family{prompt: 4, output: 1},
		family{prompt: 4, output: 1}, family{prompt: 29, output: 1})
	s := New(args, engine.Setup{Role: engine.Decode})
	s.Add(requests[2])
	for _, r := range []engine.Request{requests[0], requests[1], requests[3]} {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
		s.TryReserve()
	}
	s.Activate(1)
	s.Activate(0)
	admits := func(want ...engine.RequestID) {
		t.Helper()
		pass, _ := s.RunPass(0)
		var got []engine.RequestID
		for _, a := range pass.Admitted {
			got = append(got, a.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v are admitted, want %v", got, want)
		}
	}
	admits(1)
	admits(0)
	admits() // 3 waits for room
	tryReserve(t, s, 3, 29)
	admits() // there is too little room left
	s.CancelDestination(3)
	admits(2)
}

// TestStalledRunIsTriedAgain: the last running request finds no slot, because reservations have them all. A pass then
// has no effect, until one of them is over.
func TestStalledRunIsTriedAgain(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "num_gpu_blocks": 10}`)
	s := New(args, engine.Setup{Role: engine.Decode})
	for _, r := range requestsOf(args, family{prompt: 4, output: 4}, family{prompt: 5, output: 1}) {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
		s.TryReserve()
	}
	s.Activate(0)
	s.RunPass(0) // takes the last slot
	for range 3 {
		if pass, alive := s.RunPass(1); alive || !pass.Idle() {
			t.Fatalf("alive %t, %+v", alive, pass)
		}
	}
	if s.Unblock(); s.Requests() != 1 || len(s.States()) != 2 || s.States()[1].BlocksHeld != 5 {
		t.Errorf("a rescue touches a reservation: %+v", s.States())
	}
	s.Activate(1)
	pass, alive := s.RunPass(2) // retracts 1, which has no token yet
	if !alive || pass.Tokens != 1 || len(pass.Started) != 0 || len(pass.Admitted) != 1 {
		t.Errorf("alive %t, %+v", alive, pass)
	}
}

// TestUnblockDestination: on a decode worker for one request at a time, what runs and what waits with its KV can fill
// the pool.
func TestUnblockDestination(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "num_gpu_blocks": 10, "max_num_seqs": 1}`)
	s := New(args, engine.Setup{Role: engine.Decode})
	for _, r := range requestsOf(args, family{prompt: 4, output: 6}, family{prompt: 5, output: 1}) {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
		s.TryReserve()
		s.Activate(r.ID)
	}
	rescues, tokens := 0, 0
	for nowMs := 0.0; s.Requests() > 0; {
		pass, alive := s.RunPass(nowMs)
		nowMs = pass.EndMs
		tokens += pass.Tokens
		if !alive {
			rescues++
			if !s.Unblock() || rescues > 2 {
				t.Fatalf("dead end: %+v", s.States())
			}
		}
	}
	if rescues != 1 || tokens != 7 {
		t.Errorf("%d rescues, %d tokens", rescues, tokens)
	}
}

// TestEventsBetweenPasses: what a destination evicts and stores between passes is reported with the next pass, what a
// source does at once.
func TestEventsBetweenPasses(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 3}`)
	requests := requestsOf(args, family{number: 1, shared: 8, prompt: 8, output: 1},
		family{number: 2, shared: 8, prompt: 8, output: 1})
	var got []string
	note := func(events []kvcache.Event) {
		for _, e := range events {
			got = append(got, fmt.Sprint(e.Kind, slices.Collect(e.Blocks.All())))
		}
	}
	s := New(args, engine.Setup{Role: engine.Decode})
	s.Observe()
	for _, r := range requests {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
		s.TryReserve()
		s.Activate(r.ID)
		pass, _ := s.RunPass(0)
		if pass.KVEventsAtMs != pass.EndMs {
			t.Errorf("visible at %v, the pass ends at %v", pass.KVEventsAtMs, pass.EndMs)
		}
		note(pass.KVEvents)
	}
	if want := []string{"0 [0 1]", "1 [0 1]", "0 [2 3]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	got = nil
	args.NumGPUBlocks = 100
	source := New(args, engine.Setup{Role: engine.Prefill})
	source.Observe()
	requests[0].PromptTokens, requests[0].NamedBlocks = 7, 2
	for i := range requests {
		requests[i].Hold = true
		source.Add(requests[i])
	}
	pass, _ := source.RunPass(0)
	note(pass.KVEvents)
	for _, r := range requests { // the first page that the token has completed is reported now
		note(source.ReleaseSource(r.ID))
	}
	if !slices.Equal(got, []string{"0 [0]", "0 [2 3]", "0 [1]"}) {
		t.Errorf("got %v", got)
	}
}

// TestDecodeChargesNoPrompt: a retracted request computes its prompt anew for nothing.
func TestDecodeChargesNoPrompt(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "num_gpu_blocks": 100}`)
	s := New(args, engine.Setup{Role: engine.Decode})
	s.Add(requestsOf(args, family{prompt: 50, output: 1})[0])
	pass, _ := s.RunPass(0)
	if want := s.clock.DecodeSeconds(1, 50, 50, 100) * 1000; math.Abs(pass.EndMs-want) > 1e-12 || pass.Tokens != 1 {
		t.Errorf("the pass ends at %v, a decode step takes %v", pass.EndMs, want)
	}
}

// TestRetractedBeyondBudgets: a request that fills the pool to the last slot would not be admitted from the queue. When
// it has been retracted on a decode worker, it goes on nevertheless.
func TestRetractedBeyondBudgets(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 5}`)
	s := New(args, engine.Setup{Role: engine.Decode})
	for _, r := range requestsOf(args, family{prompt: 8, output: 12}, family{prompt: 8, output: 12}) {
		if err := s.Reserve(r); err != nil {
			t.Fatal(err)
		}
		s.TryReserve()
		s.Activate(r.ID)
	}
	tokens := 0
	for nowMs := 0.0; s.Requests() > 0; {
		pass, alive := s.RunPass(nowMs)
		nowMs = pass.EndMs
		tokens += pass.Tokens
		if !alive {
			t.Fatalf("dead end: %+v", s.States())
		}
	}
	if tokens != 24 {
		t.Errorf("%d tokens", tokens)
	}
}
