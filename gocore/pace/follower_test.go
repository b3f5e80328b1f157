package pace

import (
	"errors"
	"testing"
	"time"
)

// TestFollower: nothing comes before its time, however far apart things are; the waiting side polls, and an error ends
// it.
func TestFollower(t *testing.T) {
	f, polls := NewFollower(), 0
	poll := func() error { polls++; return nil }
	for _, atMs := range []float64{0, 0.25, 1, 1, 30} {
		if err := f.Await(atMs, poll); err != nil {
			t.Fatal(err)
		}
		if now := float64(time.Since(f.started)) / 1e6; now < atMs {
			t.Errorf("at %v ms: %v ms came", now, atMs)
		}
	}
	if polls == 0 {
		t.Error("nobody polled")
	}
	enough := errors.New("enough")
	if err := f.Await(1e12, func() error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
}

// TestLateFollower: a loop that is seconds late does not make up for all of them.
func TestLateFollower(t *testing.T) {
	f := &Follower{started: time.Now().Add(-5 * time.Second)}
	if err := f.Await(0, nil); err != nil {
		t.Fatal(err)
	}
	if f.pausedMs < 5000-maxLagMs {
		t.Errorf("simulated time stood still for %v ms only", f.pausedMs)
	}
	f = &Follower{started: time.Now().Add(-maxLagMs / 2 * time.Millisecond)}
	if err := f.Await(maxLagMs/4, nil); err != nil || f.pausedMs > max(0, float64(time.Since(f.started))/1e6-maxLagMs) {
		t.Errorf("got %v, %v ms", err, f.pausedMs)
	}
}
