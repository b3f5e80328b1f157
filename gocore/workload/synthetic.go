package workload

import (
	"fmt"
	"math"
	"math/rand/v2"

	"dynosim/gocore/kvcache"
)

// SyntheticSpec describes a workload of equal requests.
type SyntheticSpec struct {
	InputTokens       int
	OutputTokens      int
	RequestCount      int // sessions, when TurnsPerSession is above 1
	ArrivalIntervalMs float64
	TurnsPerSession   int
	SharedPrefixRatio float64 // of the prompt's blocks
	NumPrefixGroups   int     // 0 = nothing is shared
	InterTurnDelayMs  float64
	EngineBlockSize   int
	// Poll is called now and then; an error it returns ends the generation and is passed on.
	Poll func() error
}

// maxTurns bounds the memory of a generated workload to a few gigabytes.
const maxTurns = 1 << 25

// prefixGroupSeed draws the prefix group of each session.
const prefixGroupSeed = 42

// Synthetic generates a workload. The first session starts at 0.
//
// With any of the options that need sessions (several turns, sharing, a delay) arrival times are running sums of the
// interval, otherwise products with it: the reference has two generators, and their times differ in the last bits.
func Synthetic(spec SyntheticSpec) (*Workload, error) {
	if total := float64(spec.RequestCount) * float64(spec.TurnsPerSession); total > maxTurns {
		return nil, fmt.Errorf("request_count: got %d with turns_per_session %d, want at most %d requests in all",
			spec.RequestCount, spec.TurnsPerSession, maxTurns)
	}
	g, err := newGenerator(spec)
	if err != nil {
		return nil, err
	}
	w := &Workload{
		Turns:    make([]Turn, 0, spec.RequestCount*spec.TurnsPerSession),
		Sessions: make([]Session, 0, spec.RequestCount),
	}
	for s := range spec.RequestCount {
		if spec.Poll != nil && s%pollEvery == 0 {
			if err := spec.Poll(); err != nil {
				return nil, err
			}
		}
		first := len(w.Turns)
		group := g.nextGroup()
		for t := range spec.TurnsPerSession {
			turn := Turn{
				Row:          int32(len(w.Turns)),
				Session:      int32(s),
				Index:        int32(t),
				InputTokens:  spec.InputTokens,
				OutputTokens: spec.OutputTokens,
				Prompt:       g.prompt(group),
			}
			if t > 0 {
				turn.DelayMs = spec.InterTurnDelayMs
				w.Turns[len(w.Turns)-1].Next = turn.Row
			}
			w.Turns = append(w.Turns, turn)
		}
		w.Sessions = append(w.Sessions, Session{First: int32(first), StartMs: g.start(s), Timed: true})
	}
	if last := w.Sessions[len(w.Sessions)-1].StartMs; !isDuration(last) {
		return nil, fmt.Errorf("arrival_interval_ms: got %v, want a number that leaves the arrivals of %d requests finite",
			spec.ArrivalIntervalMs, spec.RequestCount)
	}
	return w, nil
}

// generator makes prompts of one length. Blocks that are not shared take the next free number; with sharing, prompts are
// lists of single blocks, otherwise each prompt is one segment.
type generator struct {
	spec     SyntheticSpec
	sessions bool // uses an option that needs sessions
	blocks   int  // of a prompt, the partial one included
	shared   int  // of those, shared within a group
	groups   *rand.Rand
	fresh    uint32 // next free segment number

	startMs, gapMs float64
}

func newGenerator(spec SyntheticSpec) (*generator, error) {
	g := &generator{
		spec:     spec,
		sessions: spec.TurnsPerSession > 1 || spec.SharedPrefixRatio > 0 || spec.NumPrefixGroups > 0 || spec.InterTurnDelayMs > 0,
		blocks:   (spec.InputTokens + spec.EngineBlockSize - 1) / spec.EngineBlockSize,
		groups:   rand.New(rand.NewPCG(prefixGroupSeed, 0)),
	}
	if spec.ArrivalIntervalMs > 0 {
		g.gapMs = 1000 / (1000 / spec.ArrivalIntervalMs)
	}
	if spec.NumPrefixGroups > 0 {
		g.shared = min(g.blocks, int(math.Round(float64(g.blocks)*spec.SharedPrefixRatio)))
	}
	if g.shared == 0 {
		return g, nil
	}
	perTurn := float64(spec.RequestCount) * float64(spec.TurnsPerSession) * float64(g.blocks)
	if perTurn+float64(spec.NumPrefixGroups)*float64(g.shared) > math.MaxUint32 {
		return nil, fmt.Errorf("request_count: got %d, with turns_per_session %d, num_prefix_groups %d and prompts of %d tokens in blocks of %d "+
			"the workload has more than %d distinct blocks, the limit",
			spec.RequestCount, spec.TurnsPerSession, spec.NumPrefixGroups, spec.InputTokens, spec.EngineBlockSize, uint32(math.MaxUint32))
	}
	g.fresh = uint32(spec.NumPrefixGroups * g.shared)
	return g, nil
}

func (g *generator) nextGroup() int {
	if g.shared == 0 {
		return 0
	}
	return g.groups.IntN(g.spec.NumPrefixGroups)
}

// start is the start of session s; sessions are asked for in order.
func (g *generator) start(s int) float64 {
	if !g.sessions {
		return float64(s) * g.spec.ArrivalIntervalMs
	}
	if s > 0 {
		g.startMs += g.gapMs
	}
	return g.startMs
}

func (g *generator) prompt(group int) kvcache.Prompt {
	if g.shared == 0 {
		g.fresh++
		return kvcache.Prompt{Segments: []uint32{g.fresh - 1}, PerSegment: max(1, g.blocks)}
	}
	segments := make([]uint32, g.blocks)
	for i := range segments {
		if i < g.shared {
			segments[i] = uint32(group*g.shared + i)
			continue
		}
		segments[i] = g.fresh
		g.fresh++
	}
	return kvcache.Prompt{Segments: segments, PerSegment: 1}
}
