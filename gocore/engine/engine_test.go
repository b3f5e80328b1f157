package engine

import (
	"testing"

	"dynosim/gocore/kvcache"
)

// TestIdle: a pass is idle only if nothing about it can be seen.
func TestIdle(t *testing.T) {
	if idle := (&Pass{StartMs: 5, EndMs: 5, KVEventsAtMs: 5, Preempted: 1}); !idle.Idle() {
		t.Error("a pass without time and effect is idle")
	}
	for name, pass := range map[string]Pass{
		"time":      {EndMs: 1},
		"work":      {Scheduled: 1},
		"admission": {Admitted: []Admission{{ID: 1}}},
		"token":     {Tokens: 1},
		"rejection": {Rejected: []Rejection{{ID: 1}}},
		"event":     {KVEvents: []kvcache.Event{{Kind: kvcache.Stored}}},
		"transfer":  {Transfers: []Transfer{{To: kvcache.Device, Blocks: 1, EndMs: 3}}},
	} {
		if pass.Idle() {
			t.Errorf("%s: the pass is idle", name)
		}
	}
}
