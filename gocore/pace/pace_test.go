package pace

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	stop := make(chan struct{})
	c := New(stop)
	until := c.NowMs() + 20
	if !c.SleepUntil(until) || c.NowMs() < until {
		t.Errorf("woke at %v, not at %v", c.NowMs(), until)
	}
	if !c.SleepUntil(until - 10) {
		t.Error("stopped")
	}
	if got := c.PassStartMs(true, until); got != until {
		t.Errorf("got %v, want the end of the last pass, %v", got, until)
	}
	if got := c.PassStartMs(false, until); got <= until {
		t.Errorf("got %v, want now", got)
	}
	before := c.NowMs()
	if got := c.PassStartMs(true, -1e6); got < before-maxLagMs {
		t.Errorf("got %v, after %v", got, before)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		close(stop)
	}()
	if c.SleepUntil(c.NowMs()+60_000) || c.SleepUntil(0) || c.Await(nil) {
		t.Error("not stopped")
	}
}
