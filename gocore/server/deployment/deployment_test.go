package deployment

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/server/cluster"
	"dynosim/gocore/timing"
)

func newCluster(t *testing.T, text string, model timing.Model) *cluster.Cluster {
	t.Helper()
	args, _, err := engineargs.ParseLive(text)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.New(cluster.Config{Pools: []cluster.Pool{
		{Args: args, Workers: 2, Setup: func(int) engine.Setup { return engine.Setup{Model: model} }},
	}})
}

func newCall(prompt, output int) (*Call, chan struct{}) {
	wake := make(chan struct{}, 1)
	return NewCall(cluster.Request{PromptTokens: prompt, OutputTokens: output,
		Keys: cluster.Keys(make([]uint32, prompt), 16, "")}, wake), wake
}

// end waits for the end of a call.
func end(t *testing.T, c *Call, wake <-chan struct{}, tokens int) *Failure {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		if f := c.Failure(); f != nil || c.Released() == tokens {
			return f
		}
		select {
		case <-wake:
		case <-limit:
			t.Fatalf("got %d of %d tokens", c.Released(), tokens)
		}
	}
}

const arguments = `{"block_size":16,"num_gpu_blocks":256}`

// TestTokensAreNotEarly: a token is released at its simulated time or after it, and gaps do not add up delays.
func TestTokensAreNotEarly(t *testing.T) {
	d := Start(newCluster(t, arguments, nil), nil, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	defer d.Close()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c, wake := newCall(100, 5)
			if !d.Submit(c) {
				t.Error("refused")
				return
			}
			if f := end(t, c, wake, 5); f != nil {
				t.Error(f.Reason)
			}
			if now := time.Now(); now.Before(c.DueAt()) || c.DueAt().Before(c.AdmittedAt()) ||
				c.AdmittedAt().Before(c.SubmittedAt) {
				t.Errorf("submitted at %v, admitted at %v, due at %v, now %v", c.SubmittedAt, c.AdmittedAt(), c.DueAt(),
					now)
			}
		})
	}
	all.Wait()
	for deadline := time.Now().Add(time.Minute); d.Open() != 0 || d.Waiting() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d calls are open, %d wait", d.Open(), d.Waiting())
		}
	}
}

// TestClose: calls that are left fail, and so do later ones.
func TestClose(t *testing.T) {
	d := Start(newCluster(t, strings.Replace(arguments, "}", `,"speedup_ratio":0.001}`, 1), nil), nil,
		slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	c, wake := newCall(100, 5)
	d.Submit(c)
	d.Close()
	if f := end(t, c, wake, 5); f == nil || !f.Shutdown {
		t.Errorf("got %+v", f)
	}
	late, _ := newCall(1, 1)
	if d.Submit(late) || d.Open() != 0 || d.Waiting() != 0 {
		t.Errorf("%d calls are open, %d wait", d.Open(), d.Waiting())
	}
	c.Cancel() // has no effect
}

// TestTooLarge: a request that no worker can ever run fails by itself.
func TestTooLarge(t *testing.T) {
	d := Start(newCluster(t, arguments, nil), nil, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	defer d.Close()
	c, wake := newCall(16*300, 5)
	d.Submit(c)
	if f := end(t, c, wake, 5); f == nil || f.Shutdown {
		t.Errorf("got %+v", f)
	}
}

// brokenModel is a timing model that cannot go on after some passes.
type brokenModel struct{ passes int }

func (m *brokenModel) PrefillMs(timing.PrefillShape) float64 { m.passes++; return 1 }
func (m *brokenModel) DecodeMs(timing.DecodeShape) float64   { m.passes++; return 1 }
func (m *brokenModel) Err() error {
	if m.passes > 3 {
		return errors.New("the table has no such shape")
	}
	return nil
}

// TestEngineFails: when durations cannot be determined, all calls fail and the process learns of it.
func TestEngineFails(t *testing.T) {
	failed := make(chan error, 1)
	d := Start(newCluster(t, arguments, &brokenModel{}), nil, slog.New(slog.DiscardHandler),
		func(err error) { failed <- err })
	c, wake := newCall(100, 50)
	d.Submit(c)
	if f := end(t, c, wake, 50); f == nil || !f.Shutdown || !strings.Contains(f.Reason, "no such shape") {
		t.Errorf("got %+v", f)
	}
	if err := <-failed; err == nil {
		t.Error("the process does not notice it")
	}
	d.Close()
}

// TestPause: after a time in which the process did not run, simulated time goes on where it was.
func TestPause(t *testing.T) {
	d := &Deployment{cluster: newCluster(t, arguments, nil), started: time.Now()}
	c, _ := newCall(100, 5)
	c.deployment, c.request.Sink = d, c
	if err := d.cluster.Step(0, []*cluster.Request{&c.request}, nil); err != nil {
		t.Fatal(err)
	}
	next, _ := d.cluster.NextMs()
	d.pause(next + maxLagMs)
	if d.pausedMs != 0 {
		t.Errorf("a small lag: paused for %v ms", d.pausedMs)
	}
	d.pause(next + 5000)
	if want := 5000.0 - maxLagMs; d.pausedMs < want-0.01 || d.pausedMs > want+0.01 {
		t.Errorf("got %v ms, want %v", d.pausedMs, want)
	}
}

// TestClockAndBack: the time of a moment in milliseconds is that moment to the nanosecond, so no request is admitted
// before it came.
func TestClockAndBack(t *testing.T) {
	var d Deployment
	for at := range time.Duration(1_000_000) {
		if got := d.onTheClock(ms(at)); got != at {
			t.Fatalf("got %d ns for %d ns", got, at)
		}
	}
}
