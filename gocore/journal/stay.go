package journal

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
)

// life is what is known of a request.
type life struct {
	arrivedMs, firstMs         float64 // NaN where it did not happen
	promptTokens, outputTokens int32
	admitted                   bool
	sent                       bool     // it waits for no router
	how                        string   // an attempt has ended that does not complete its request
	stays                      [2]*stay // by role; nil before and afterwards
}

// phase is what a request does while it stays with a worker.
type phase uint8

const (
	queued    phase = iota // waits to be admitted
	wantsRoom              // waits for room on a decode worker
	wantsKV                // has room there, and its prompt is still being computed
	moving                 // its KV is on its way
	computing              // its prompt is being computed, or parts of it wait for their turn
	decoding
	displaced // was preempted or retracted, and waits again
	held      // its KV waits to be fetched by a decode worker
)

// phaseNames are those of slices; a phase without a name has none, as the chunks inside it have their own.
var phaseNames = [...]string{
	queued: "queue", wantsRoom: "wait for room", wantsKV: "wait for prompt", moving: "transfer", computing: "",
	decoding: "decode", displaced: "preempted", held: "hold KV",
}

func (p phase) waits() bool { return p == queued || p == wantsRoom || p == displaced }
func (p phase) runs() bool  { return p == computing || p == decoding }

// stay is the time that a request spends with one worker.
type stay struct {
	id         engine.RequestID
	worker     *worker
	lane       int
	sinceMs    float64
	phase      phase
	phaseMs    float64 // when the phase began
	computedMs float64 // the end of its last chunk, or its last admission
	again      bool    // it was displaced before
	pieces     []piece // for the timeline
}

// piece is a slice inside that of the request.
type piece struct {
	name          string
	fromMs, toMs  float64
	tokens, start int // of a chunk
}

// turn begins another phase.
func (s *stay) turn(to phase, ms float64) {
	w := s.worker
	if s.phase == to {
		return
	}
	s.endPhase(ms)
	if s.phase.waits() != to.waits() {
		w.count(&w.waiting, to.waits(), ms)
	}
	if s.phase.runs() != to.runs() {
		w.count(&w.running, to.runs(), ms)
	}
	s.phase, s.phaseMs = to, ms
}

// endPhase keeps the slice of a phase.
func (s *stay) endPhase(ms float64) {
	if name := phaseNames[s.phase]; name != "" && s.worker.out != nil && ms > s.phaseMs {
		s.pieces = append(s.pieces, piece{name: name, fromMs: s.phaseMs, toMs: ms})
	}
}

// chunk notes that a part of the prompt is computed. After a displacement it is computed again.
func (s *stay) chunk(c engine.PromptShare, startMs, endMs float64) {
	s.turn(computing, startMs)
	s.computedMs = endMs
	if s.worker.out == nil || endMs <= startMs {
		return
	}
	name := "prompt"
	if s.again {
		name = "recompute"
	}
	s.pieces = append(s.pieces, piece{name: name, fromMs: startMs, toMs: endMs, tokens: c.Tokens, start: c.Start})
}

// lanes gives each stay the lowest lane that is free.
type lanes struct {
	stays []*stay // by lane
	free  eventheap.Heap[struct{}]
}

func (l *lanes) take(s *stay) {
	if top := l.free.Top(); top != nil {
		s.lane = int(top.Seq)
		l.free.Pop()
		l.stays[s.lane] = s
		return
	}
	s.lane = len(l.stays)
	l.stays = append(l.stays, s)
}

func (l *lanes) put(s *stay) {
	l.stays[s.lane] = nil
	l.free.Push(0, int64(s.lane), struct{}{})
}
