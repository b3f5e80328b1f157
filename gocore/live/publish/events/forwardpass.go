package events

import (
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"dynosim/gocore/engine"
)

// ForwardPass describes one pass of an engine to a planner.
type ForwardPass struct {
	WorkerID  uint64 // a decimal string on the wire
	DPRank    uint32
	CounterID uint64  // of the rank, from 1; heartbeats count
	WallTimeS float64 // how long the pass took; 0 in heartbeats
	Work      engine.Work
}

const forwardPassVersion = 1

// Append appends the MessagePack of f.
func (f *ForwardPass) Append(b []byte) []byte {
	b = msgp.AppendMapHeader(b, 7)
	b = appendUint(b, "version", forwardPassVersion)
	b = msgp.AppendString(appendKey(b, "worker_id"), strconv.FormatUint(f.WorkerID, 10))
	b = appendUint(b, "dp_rank", uint64(f.DPRank))
	b = appendUint(b, "counter_id", f.CounterID)
	b = appendFloat(b, "wall_time", f.WallTimeS)
	b = msgp.AppendMapHeader(appendKey(b, "scheduled_requests"), 7)
	b = appendPrefill(b, &f.Work.Scheduled)
	b = appendInt(b, "sum_prefill_kv_tokens", f.Work.Scheduled.PrefillKVTokens)
	b = appendDecode(b, &f.Work.Scheduled)
	b = msgp.AppendMapHeader(appendKey(b, "queued_requests"), 6)
	return appendDecode(appendPrefill(b, &f.Work.Queued), &f.Work.Queued)
}

func appendPrefill(b []byte, p *engine.Phases) []byte {
	b = appendInt(b, "num_prefill_requests", p.PrefillRequests)
	b = appendInt(b, "sum_prefill_tokens", p.PrefillTokens)
	return appendFloat(b, "var_prefill_length", p.PrefillVariance)
}

func appendDecode(b []byte, p *engine.Phases) []byte {
	b = appendInt(b, "num_decode_requests", p.DecodeRequests)
	b = appendInt(b, "sum_decode_kv_tokens", p.DecodeKVTokens)
	return appendFloat(b, "var_decode_kv_tokens", p.DecodeKVVariance)
}

// heartbeatMs is how long a rank may be silent.
const heartbeatMs = 1000

// PassCounter numbers the passes of one rank, and says when a heartbeat is due: a second after the last pass or
// heartbeat.
type PassCounter struct {
	workerID uint64
	dpRank   uint32
	count    uint64
	lastMs   float64
}

// NewPassCounter returns the counter of a rank that starts at nowMs.
func NewPassCounter(workerID uint64, dpRank uint32, nowMs float64) PassCounter {
	return PassCounter{workerID: workerID, dpRank: dpRank, lastMs: nowMs}
}

// Next returns the description of a pass that was done at nowMs.
func (c *PassCounter) Next(work engine.Work, wallTimeS, nowMs float64) ForwardPass {
	c.count++
	c.lastMs = nowMs
	return ForwardPass{WorkerID: c.workerID, DPRank: c.dpRank, CounterID: c.count, WallTimeS: wallTimeS, Work: work}
}

// DueMs returns when the next heartbeat is due.
func (c *PassCounter) DueMs() float64 { return c.lastMs + heartbeatMs }

// Heartbeat describes a second without a pass, if one is due.
func (c *PassCounter) Heartbeat(nowMs float64) (f ForwardPass, due bool) {
	if nowMs < c.DueMs() {
		return ForwardPass{}, false
	}
	return c.Next(engine.Work{}, 0, nowMs), true
}
