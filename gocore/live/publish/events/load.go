package events

import "github.com/tinylib/msgp/msgp"

// ActiveLoad is the load of a rank. Workers send KVUsedBlocks; frontends, on the same topic, the other two.
type ActiveLoad struct {
	WorkerID            uint64
	DPRank              uint32
	ActiveDecodeBlocks  *uint64
	ActivePrefillTokens *uint64
	KVUsedBlocks        *uint64 // of the cache, in use by running sequences
}

// Append appends the MessagePack of l.
func (l *ActiveLoad) Append(b []byte) []byte {
	b = msgp.AppendMapHeader(b, 5)
	b = appendUint(b, "worker_id", l.WorkerID)
	b = appendUint(b, "dp_rank", uint64(l.DPRank))
	b = appendOptional(b, "active_decode_blocks", l.ActiveDecodeBlocks)
	b = appendOptional(b, "active_prefill_tokens", l.ActivePrefillTokens)
	return appendOptional(b, "kv_used_blocks", l.KVUsedBlocks)
}

// loadDelayMs is how long a change of load waits for further ones.
const loadDelayMs = 1

// LoadGauge decides when the load of one rank is published: 1 ms after it began to change. A load that is back at its
// old value by then is not published. The zero value is that of an idle rank.
type LoadGauge struct {
	published, used uint64
	changing        bool
	dueMs           float64
}

// Set records the load at an instant.
func (g *LoadGauge) Set(usedBlocks uint64, nowMs float64) {
	g.used = usedBlocks
	if !g.changing && g.used != g.published {
		g.changing, g.dueMs = true, nowMs+loadDelayMs
	}
}

// DueMs returns when Take should be called, if at all.
func (g *LoadGauge) DueMs() (dueMs float64, pending bool) { return g.dueMs, g.changing }

// Take returns the load to publish, if one is due.
func (g *LoadGauge) Take(nowMs float64) (usedBlocks uint64, publish bool) {
	if !g.changing || nowMs < g.dueMs {
		return 0, false
	}
	g.changing = false
	publish = g.used != g.published
	g.published = g.used
	return g.used, publish
}
