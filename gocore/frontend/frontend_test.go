package frontend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/tokens"
)

// TestModelsComeAndGo: a model is there from its first worker's record to the end of the last one, with the adapters of
// the records.
func TestModelsComeAndGo(t *testing.T) {
	s := newSite(t)
	first := s.worker(counting)
	second := s.worker(counting)
	s.worker(counting, func(c *card.Card) { c.DisplayName = "other" })
	s.found(2)
	s.served("other")
	e := discovery.Endpoint{Namespace: "n", Component: "backend", Name: "generate"}
	if err := first.store.Put(suffixed(first, e, "SQL")); err != nil {
		t.Fatal(err)
	}
	s.until("the adapter", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Equal(s.adapters["tiny"], []string{"SQL"})
	})
	_ = first.store.Close()
	s.until("the end of the adapter", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.adapters["tiny"]) == 0
	})
	s.found(1)
	_ = second.store.Close()
	s.until("the end of the model", func() bool { _, there := s.model("tiny"); return !there })
	if _, there := s.model("other"); !there {
		t.Error("the other model has gone")
	}
	s.worker(counting)
	s.found(1)
}

// TestAdapterKeepsWorker: a worker stays what it is when it loads an adapter, with what is known of its cache.
func TestAdapterKeepsWorker(t *testing.T) {
	s := newSite(t)
	w := s.worker(counting)
	s.found(1)
	known := func() *worker {
		p := s.served("tiny").(*model).choose().answer
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.workers[w.store.InstanceID()]
	}
	before := known()
	e := discovery.Endpoint{Namespace: "n", Component: "backend", Name: "generate"}
	if err := w.store.Put(suffixed(w, e, "SQL")); err != nil {
		t.Fatal(err)
	}
	s.until("the adapter", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.adapters["tiny"]) == 1 })
	if known() != before {
		t.Error("the worker was taken out and added again")
	}
}

// TestForgottenModels: a model without workers leaves nothing behind once its calls have ended.
func TestForgottenModels(t *testing.T) {
	f := &Frontend{groups: map[groupKey]*group{{model: "b"}: {}}, models: map[string]*model{"a": {}, "b": {}, "c": {}}}
	f.models["c"].calls.Add(1)
	f.forgetModels()
	if len(f.models) != 2 || f.models["a"] != nil {
		t.Errorf("got %v, want b and c", slices.Collect(maps.Keys(f.models)))
	}
}

// closing is a tokenizer that notes that it is closed.
type closing struct {
	tokens.Bytes
	closed int
}

func (c *closing) Close() { c.closed++ }

// TestIdleTokenizers: a tokenizer is closed some time after the last model that uses it has gone, unless one comes back
// before.
func TestIdleTokenizers(t *testing.T) {
	tk := tokenizers{known: map[string]*kept{}}
	opened := 0
	open := func() tokens.Tokenizer {
		got, err := tk.open("/folder", "checksum",
			func(string) (tokens.Tokenizer, error) { opened++; return &closing{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, now := open(), time.Now()
	used, unused := map[tokens.Tokenizer]bool{first: true}, map[tokens.Tokenizer]bool{}
	for i, step := range []struct {
		used    map[tokens.Tokenizer]bool
		minutes time.Duration
		again   bool // a model asks for it
		closed  int
	}{
		{used, 0, false, 0}, {used, 60, false, 0}, {unused, 60, false, 0}, {unused, 69, true, 0},
		{unused, 71, false, 0}, {used, 72, false, 0}, {unused, 90, false, 0}, {unused, 100, false, 1},
		{unused, 200, false, 0},
	} {
		if list := tk.unneeded(step.used, now.Add(step.minutes*time.Minute)); len(list) != step.closed {
			t.Errorf("step %d: got %d to close, want %d", i, len(list), step.closed)
		}
		if step.again && open() != first {
			t.Errorf("step %d: got another tokenizer", i)
		}
	}
	if open() == first || opened != 2 {
		t.Errorf("%d were opened, want a second one after the first was taken out", opened)
	}
	tk.close()
	if n := first.(*closing).closed; n != 0 {
		t.Errorf("the first one was closed %d times: that is left to the caller of unneeded", n)
	}
}

// TestCardsThatDiffer: a worker whose card is another one than that of the others is not used.
func TestCardsThatDiffer(t *testing.T) {
	s := newSite(t)
	s.worker(counting)
	s.found(1)
	s.worker(counting, func(c *card.Card) { c.KVCacheBlockSize = 8 })
	s.worker(counting)
	s.found(2)
}

// TestAnswer: a request and its answer, one of them after the worker's own default.
func TestAnswer(t *testing.T) {
	s := newSite(t)
	s.worker(counting)
	got, finish, failure := s.end(s.ask([]uint32{1, 2, 3}, 4))
	if !slices.Equal(got, []uint32{4, 5, 6, 7}) || finish != "length" || failure != nil {
		t.Errorf("got %v, %q, %v", got, finish, failure)
	}
	if n := s.served("tiny").Waiting(); n != 0 {
		t.Errorf("%d requests wait", n)
	}
}

// TestCachedTokens: usage has what the worker says it has found in its cache.
func TestCachedTokens(t *testing.T) {
	s := newSite(t)
	s.worker(func(_ context.Context, _ string, _ *wire.Request, reply plane.Reply) {
		_ = reply.Accept()
		reply.Output(wire.Output{TokenIDs: []uint32{9}, Usage: &wire.Usage{Prompt: 3, Completion: 1, Cached: 2}})
		reply.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishLength}})
		_ = reply.Finish()
	})
	c, wake := s.ask([]uint32{1, 2, 3}, 1)
	if _, finish, failure := s.end(c, wake); finish != "length" || c.Reused() != 2 {
		t.Errorf("got %q, %v and %d tokens from the cache", finish, failure, c.Reused())
	}
}

// TestLoads: pages see which requests a worker has, and what it has found in its cache.
func TestLoads(t *testing.T) {
	s := newSite(t)
	first, goOn := make(chan struct{}), make(chan struct{})
	s.worker(func(_ context.Context, _ string, _ *wire.Request, reply plane.Reply) {
		_ = reply.Accept()
		<-first
		reply.Output(wire.Output{TokenIDs: []uint32{9}, Usage: &wire.Usage{Prompt: 3, Completion: 1, Cached: 2}})
		_ = reply.Flush()
		<-goOn
		reply.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishLength}})
		_ = reply.Finish()
	})
	load := func() backend.Worker { return s.served("tiny").(backend.Watched).Workers()[0] }
	c, wake := s.ask([]uint32{1, 2, 3}, 2)
	s.until("it waits", func() bool { return load().Waiting == 1 })
	close(first)
	s.until("it runs", func() bool {
		l := load()
		return l.Running == 1 && l.Waiting == 0 && l.LookedUp == 3 &&
			l.Reused == 2
	})
	close(goOn)
	s.end(c, wake)
	s.until("it is over", func() bool { return load().Running == 0 })
	if workers, _ := c.Route(); len(workers) != 1 || workers[0] != load().Name {
		t.Errorf("got %v", workers)
	}
}

// TestMigration: an answer that breaks off goes on at another worker as if nothing had happened, up to the limit of
// migrations.
func TestMigration(t *testing.T) {
	for limit := range 3 {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s := newSite(t, withMigration(limit))
			s.worker(breaking(3))
			s.worker(breaking(3))
			s.found(2)
			s.worker(breaking(3))
			s.found(3)
			got, finish, failure := s.end(s.ask([]uint32{10}, 20))
			if len(got) != 3*(limit+1) || finish != "" || failure == nil || !failure.Shutdown ||
				!strings.Contains(failure.Reason, "migration-limit") {
				t.Errorf("got %v, %q, %+v", got, finish, failure)
			}
			for i, token := range got {
				if token != uint32(11+i) {
					t.Errorf("token %d is %d: what came before is not a part of the prompt", i, token)
				}
			}
		})
	}
}

// TestMigrationEnds: after a migration only the rest of the tokens is asked for.
func TestMigrationEnds(t *testing.T) {
	s := newSite(t, withMigration(1))
	var broken atomic.Bool
	once := func(ctx context.Context, id string, r *wire.Request, reply plane.Reply) {
		if broken.CompareAndSwap(false, true) {
			breaking(3)(ctx, id, r, reply)
			return
		}
		counting(ctx, id, r, reply)
	}
	s.worker(once)
	s.worker(once)
	s.found(2)
	got, finish, failure := s.end(s.ask([]uint32{10}, 8))
	if !slices.Equal(got, []uint32{11, 12, 13, 14, 15, 16, 17, 18}) || finish != "length" || failure != nil {
		t.Errorf("got %v, %q, %v", got, finish, failure)
	}
}

// TestDeadWorkers: requests do not notice workers whose records are there although they are not, whatever the limit of
// migrations.
func TestDeadWorkers(t *testing.T) {
	s := newSite(t)
	s.worker(counting)
	for range 2 {
		w := s.worker(counting)
		w.plane.Close()
	}
	s.worker(breaking(0)) // breaks off before any token
	s.found(4)
	for range 10 {
		if got, finish, failure := s.end(s.ask([]uint32{1}, 2)); len(got) != 2 || finish != "length" {
			t.Errorf("got %v, %q, %v", got, finish, failure)
		}
	}
}

// TestRulesOfReleases: requests that a dead worker refuses fail as they do with Dynamo's frontend: by the rules of 1.3
// every one that is sent there, by those of 1.6 one for each listing, and none if it may migrate.
func TestRulesOfReleases(t *testing.T) {
	for _, test := range []struct {
		rules       routing.Rules
		limit       int
		least, most int
	}{{routing.Rules13, 3, 5, 5}, {routing.Rules16, 0, 1, 3}, {routing.Rules16, 1, 0, 0}} {
		s := newSite(t, withMigration(test.limit), func(c *Config) { c.Rules = test.rules })
		s.worker(counting)
		s.worker(counting).plane.Close()
		s.found(2)
		failed := 0
		for range 10 {
			if _, _, failure := s.end(s.ask([]uint32{1}, 2)); failure != nil {
				failed++
			}
		}
		if failed < test.least || failed > test.most {
			t.Errorf("%+v: %d of 10 requests failed", test, failed)
		}
	}
}

// TestFailures: what workers say is wrong with a request ends it, and with all workers failing it ends, too.
func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		handler  handler
		says     string
		shutdown bool
	}{
		"too large": {func(_ context.Context, _ string, _ *wire.Request, reply plane.Reply) {
			_ = reply.Accept()
			reply.Problem(wire.Problem{Message: "too large for the pool", Type: "Bad Request", Code: 400})
			_ = reply.Finish()
		}, "too large for the pool", false},
		"rejected": {func(_ context.Context, _ string, _ *wire.Request, reply plane.Reply) {
			_ = reply.Accept()
			reply.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishError, Error: "request rejected"}})
			_ = reply.Finish()
		}, "request rejected", false},
		"failed": {func(_ context.Context, _ string, _ *wire.Request, reply plane.Reply) {
			_ = reply.Accept()
			reply.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishError, Error: "the engine is dead"}})
			_ = reply.Finish()
		}, "the engine is dead", true},
		"refused": {func(_ context.Context, _ string, _ *wire.Request,
			reply plane.Reply) {
			_ = reply.Refuse("not today")
		}, "not today", true},
		"no room": {func(_ context.Context, _ string, _ *wire.Request, reply plane.Reply) {
			_ = reply.Accept()
			reply.Problem(wire.Problem{Message: "too many tokens", Type: "Overloaded", Code: 529})
			_ = reply.Finish()
		}, "as many requests as they accept", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.worker(test.handler)
			_, _, failure := s.end(s.ask([]uint32{1}, 2))
			if failure == nil || failure.Shutdown != test.shutdown || !strings.Contains(failure.Reason, test.says) {
				t.Errorf("got %+v", failure)
			}
		})
	}
}

// TestFailedWorker: when a worker says that it has failed, before a token or after it, the request goes to another one.
func TestFailedWorker(t *testing.T) {
	for said := range 2 {
		s := newSite(t, withMigration(1))
		var failed atomic.Bool
		once := func(ctx context.Context, id string, r *wire.Request, reply plane.Reply) {
			if !failed.CompareAndSwap(false, true) {
				counting(ctx, id, r, reply)
				return
			}
			_ = reply.Accept()
			say(r, reply, said)
			reply.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishError, Error: "the engine is dead"}})
			_ = reply.Finish()
		}
		s.worker(once)
		s.worker(once)
		s.found(2)
		got, finish, failure := s.end(s.ask([]uint32{10}, 3))
		if !slices.Equal(got, []uint32{11, 12, 13}) || finish != "length" || failure != nil {
			t.Errorf("failure after %d tokens: got %v, %q, %v", said, got, finish, failure)
		}
	}
}

// TestOverload: a worker that accepts no more is passed over.
func TestOverload(t *testing.T) {
	s := newSite(t)
	s.limits = plane.Limits{Active: 1, Queued: 2}
	enough := make(chan struct{})
	s.worker(func(ctx context.Context, _ string, r *wire.Request, reply plane.Reply) {
		_ = reply.Accept()
		say(r, reply, 1)
		_ = reply.Flush()
		select {
		case <-enough:
		case <-ctx.Done():
		}
	})
	s.found(1)
	_, begun := s.ask([]uint32{1}, 2)
	<-begun
	s.until("that it accepts no more", func() bool {
		c, wake := s.ask([]uint32{1}, 2)
		defer c.Cancel()
		select {
		case <-wake:
			f := c.Failure()
			return f != nil && f.Shutdown && strings.Contains(f.Reason, "as many requests")
		case <-time.After(time.Second): // it is in the queue of the worker
			s.t.Cleanup(c.Cancel)
			return false
		}
	})
	s.worker(counting)
	s.found(2)
	s.until("the other worker", func() bool { _, finish, _ := s.end(s.ask([]uint32{1}, 2)); return finish == "length" })
	close(enough)
}

// TestCancel: when an answer is not wanted any more, the worker learns of that, and a request that waits for a worker
// is forgotten.
func TestCancel(t *testing.T) {
	s := newSite(t, withMode(routing.KV))
	stopped := make(chan struct{})
	s.worker(func(ctx context.Context, _ string, r *wire.Request, reply plane.Reply) {
		_ = reply.Accept()
		say(r, reply, 1)
		_ = reply.Flush()
		<-ctx.Done()
		close(stopped)
	})
	c, wake := s.ask([]uint32{1, 2, 3, 4}, 2)
	<-wake
	c.Cancel()
	<-stopped
	m := s.served("tiny").(*model)
	s.until("the books", func() bool {
		p := m.choose().answer
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) == 0 && m.Waiting() == 0
	})
}

// TestSplit: prefill and decode workers get one request with one id, which both know with a bootstrap port.
func TestSplit(t *testing.T) {
	for _, bootstrap := range []bool{true, false} {
		t.Run(fmt.Sprint(bootstrap), func(t *testing.T) {
			s := newSite(t)
			seen := make(chan *wire.Request, 2)
			ids := make(chan string, 2)
			s.worker(func(_ context.Context, id string, r *wire.Request, reply plane.Reply) {
				seen <- r
				ids <- id
				_ = reply.Accept()
				reply.Output(wire.Output{TokenIDs: []uint32{9}, DisaggregatedParams: "there"})
				reply.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishLength}})
				_ = reply.Finish()
			}, func(c *card.Card) {
				c.WorkerType, c.ModelType, c.Needs = card.Prefill, "", [][]card.WorkerType{{card.Decode}}
				if bootstrap {
					c.RuntimeConfig.DisaggregatedEndpoint = &card.DisaggregatedEndpoint{Host: "h", Port: 7}
				}
			})
			if _, there := s.model("tiny"); there {
				t.Error("there are no decode workers yet")
			}
			s.worker(func(ctx context.Context, id string, r *wire.Request, reply plane.Reply) {
				seen <- r
				ids <- id
				counting(ctx, id, r, reply)
			}, func(c *card.Card) { c.WorkerType, c.Needs = card.Decode, [][]card.WorkerType{{card.Prefill}} })
			got, finish, failure := s.end(s.ask([]uint32{1, 2, 3}, 4))
			if !slices.Equal(got, []uint32{4, 5, 6, 7}) || finish != "length" {
				t.Errorf("got %v, %q, %v", got, finish, failure)
			}
			a, b := <-seen, <-seen
			if first, second := <-ids, <-ids; first != second {
				t.Error("the workers know the request by different ids")
			}
			if bootstrap && (a.BootstrapInfo == nil || *a.BootstrapInfo.HandoffID != *b.BootstrapInfo.HandoffID ||
				a.BootstrapInfo.Room != b.BootstrapInfo.Room || b.BootstrapInfo.Port != 7) {
				t.Errorf("got %+v and %+v", a.BootstrapInfo, b.BootstrapInfo)
			}
			if !bootstrap && (a.PrefillResult != nil || b.PrefillResult == nil ||
				b.PrefillResult.DisaggregatedParams != "there") {
				t.Errorf("got %+v and %+v", a.PrefillResult, b.PrefillResult)
			}
		})
	}
}

// TestSplitFails: when the prefill worker cannot do its part, the decode worker is not waited for.
func TestSplitFails(t *testing.T) {
	s := newSite(t)
	s.worker(func(_ context.Context, _ string, _ *wire.Request, reply plane.Reply) {
		_ = reply.Refuse("no hand-offs today")
	}, func(c *card.Card) {
		c.WorkerType, c.RuntimeConfig.DisaggregatedEndpoint = card.Prefill,
			&card.DisaggregatedEndpoint{Host: "h", Port: 7}
	})
	s.worker(func(ctx context.Context, _ string, _ *wire.Request, reply plane.Reply) {
		_ = reply.Accept()
		<-ctx.Done() // for the hand-off
	}, func(c *card.Card) { c.WorkerType, c.Needs = card.Decode, [][]card.WorkerType{{card.Prefill}} })
	_, _, failure := s.end(s.ask([]uint32{1, 2, 3}, 4))
	if failure == nil || !failure.Shutdown || !strings.Contains(failure.Reason, "no hand-offs today") {
		t.Errorf("got %+v", failure)
	}
}

// TestClose: requests that are open fail.
func TestClose(t *testing.T) {
	s := newSite(t)
	s.worker(func(ctx context.Context, _ string, _ *wire.Request, reply plane.Reply) {
		_ = reply.Accept()
		<-ctx.Done()
	})
	c, wake := s.ask([]uint32{1}, 2)
	go func() {
		for s.served("tiny").Waiting() != 1 {
			time.Sleep(time.Millisecond)
		}
		s.frontend.stop()
	}()
	if _, _, failure := s.end(c, wake); failure == nil || !failure.Shutdown {
		t.Errorf("got %+v", failure)
	}
}
