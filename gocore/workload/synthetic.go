package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"dynosim/gocore/kvcache"
)

// SyntheticSpec describes a generated workload: equal requests at equal intervals, or lengths and intervals drawn from
// distributions.
type SyntheticSpec struct {
	InputTokens       int
	OutputTokens      int
	RequestCount      int // sessions, when TurnsPerSession is above 1; 0 with a rate curve: those of the curve
	ArrivalIntervalMs float64
	TurnsPerSession   int
	SharedPrefixRatio float64 // of the prompt's blocks
	NumPrefixGroups   int     // 0 = nothing is shared
	InterTurnDelayMs  float64
	EngineBlockSize   int

	InputLengths  *Lengths // instead of InputTokens, if not nil; drawn for each turn
	OutputLengths *Lengths // instead of OutputTokens
	Arrivals      Arrivals // instead of ArrivalIntervalMs, if it has a rate or a curve
	Seed          uint64   // of what is drawn besides the starts of sessions; each kind of draw has a stream of its own
	ArrivalSeed   uint64   // of the starts of sessions

	// Passing makes turns only when they are asked for, if each is a session of its own and shares nothing. The
	// workload then has no Turns and no Sessions, only Len and Lengths, and its driver.
	Passing bool

	// Poll is called now and then; an error it returns ends the generation and is passed on.
	Poll func() error
}

// MaxTurns bounds the memory of a generated workload to a few gigabytes.
const MaxTurns = 1 << 25

// Streams of random numbers. Groups are drawn from the seed 42 if no other is given.
const (
	prefixGroupSeed = 42

	groupStream   = 0
	inputStream   = 1
	outputStream  = 2
	arrivalStream = 3
)

// Synthetic generates a workload. The first session starts at 0.
//
// With any of the options that need sessions (several turns, sharing, a delay) arrival times are running sums of the
// interval, otherwise products with it: the reference has two generators, and their times differ in the last bits.
func Synthetic(spec SyntheticSpec) (*Workload, error) {
	spec = spec.plain()
	if total := float64(spec.RequestCount) * float64(spec.TurnsPerSession); total > MaxTurns {
		return nil, fmt.Errorf("request_count: got %d with turns_per_session %d, want at most %d requests in all",
			spec.RequestCount, spec.TurnsPerSession, MaxTurns)
	}
	starts, err := spec.starts()
	if err != nil {
		return nil, err
	}
	if starts != nil {
		spec.RequestCount = len(starts)
	}
	g, err := newGenerator(spec, starts)
	if err != nil {
		return nil, err
	}
	if spec.Passing && !g.sessions {
		w := &Workload{passing: &made{g: g, count: spec.RequestCount, speedup: 1}}
		return w, spec.checkArrivals(g.start(spec.RequestCount - 1))
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
				InputTokens:  g.inputTokens(len(w.Turns)),
				OutputTokens: g.outputTokens(len(w.Turns)),
				Prompt:       g.prompt(len(w.Turns), group),
			}
			if t > 0 {
				turn.DelayMs = spec.InterTurnDelayMs
				w.Turns[len(w.Turns)-1].Next = turn.Row
			}
			w.Turns = append(w.Turns, turn)
		}
		w.Sessions = append(w.Sessions, Session{First: int32(first), StartMs: g.start(s), Timed: true})
	}
	return w, spec.checkArrivals(w.Sessions[len(w.Sessions)-1].StartMs)
}

// starts draws when sessions start, nil if their starts are multiples of an interval.
func (spec SyntheticSpec) starts() ([]float64, error) {
	a := spec.Arrivals
	if err := a.check(); err != nil {
		return nil, err
	}
	source := rand.NewPCG(spec.ArrivalSeed, arrivalStream)
	switch {
	case a.RequestRate > 0:
		return a.starts(spec.RequestCount, source), nil
	case a.Curve == nil:
		return nil, nil
	}
	most := MaxTurns / max(1, spec.TurnsPerSession)
	starts := a.along(spec.RequestCount, most, source)
	if len(starts) > most {
		return nil, fmt.Errorf("request_rate_curve: gives more than %d sessions of %d turns, want at most %d "+
			"requests in all: give a request_count",
			most, max(1, spec.TurnsPerSession), MaxTurns)
	}
	return starts, nil
}

// checkArrivals refuses a last arrival that is not finite.
func (spec SyntheticSpec) checkArrivals(last float64) error {
	if !isDuration(last) && spec.Arrivals.Curve != nil {
		return fmt.Errorf("request_rate_curve: the arrivals of %d requests are not finite, want higher rates",
			spec.RequestCount)
	} else if !isDuration(last) && spec.Arrivals.RequestRate != 0 {
		return fmt.Errorf("request_rate: got %v, want a number that leaves the arrivals of %d requests finite",
			spec.Arrivals.RequestRate, spec.RequestCount)
	} else if !isDuration(last) {
		return fmt.Errorf("arrival_interval_ms: got %v, want a number that leaves the arrivals of %d requests finite",
			spec.ArrivalIntervalMs, spec.RequestCount)
	}
	return nil
}

// Draws reports whether something depends on the seed besides the starts of sessions.
func (spec SyntheticSpec) Draws() bool {
	drawn := func(d *Lengths) bool { return d != nil && d.family != fixedLength }
	return drawn(spec.InputLengths) || drawn(spec.OutputLengths) ||
		spec.NumPrefixGroups > 1 && spec.SharedPrefixRatio > 0
}

// Independent reports whether each turn is a session of its own that shares nothing.
func (spec SyntheticSpec) Independent() bool {
	return spec.TurnsPerSession <= 1 && spec.SharedPrefixRatio == 0 && spec.NumPrefixGroups == 0 &&
		spec.InterTurnDelayMs == 0
}

// plain turns distributions that always give the same length into numbers.
func (spec SyntheticSpec) plain() SyntheticSpec {
	if d := spec.InputLengths; d != nil && d.family == fixedLength {
		spec.InputTokens, spec.InputLengths = d.min, nil
	}
	if d := spec.OutputLengths; d != nil && d.family == fixedLength {
		spec.OutputTokens, spec.OutputLengths = d.min, nil
	}
	return spec
}

// generator makes prompts. Blocks that are not shared take the next free number; with sharing, prompts are lists of
// single blocks, otherwise each prompt is one segment.
type generator struct {
	spec     SyntheticSpec
	sessions bool  // uses an option that needs sessions
	inputs   []int // by turn, nil if all are equal
	outputs  []int
	starts   []float64 // by session, nil if they are multiples of the interval
	blocks   int       // of the longest prompt, the partial one included
	shared   int       // of those, shared within a group
	groups   *rand.Rand
	fresh    uint32 // next free segment number

	startMs, gapMs float64
}

func newGenerator(spec SyntheticSpec, starts []float64) (*generator, error) {
	g := &generator{
		spec:     spec,
		starts:   starts,
		sessions: !spec.Independent(),
		groups:   rand.New(rand.NewPCG(prefixGroupSeed^spec.Seed, groupStream)),
	}
	if err := g.draw(); err != nil {
		return nil, err
	}
	if spec.ArrivalIntervalMs > 0 {
		g.gapMs = 1000 / (1000 / spec.ArrivalIntervalMs)
	}
	longest := spec.InputTokens
	if g.inputs != nil {
		longest = slices.Max(g.inputs)
	}
	g.blocks = g.blocksOf(longest)
	g.shared = g.sharedOf(g.blocks)
	if g.shared == 0 {
		return g, nil
	}
	if g.allBlocks()+float64(spec.NumPrefixGroups)*float64(g.shared) > math.MaxUint32 {
		return nil, fmt.Errorf("request_count: got %d, with turns_per_session %d, num_prefix_groups %d and prompts "+
			"of %d tokens in blocks of %d "+
			"the workload has more than %d distinct blocks, the limit",
			spec.RequestCount, spec.TurnsPerSession, spec.NumPrefixGroups, longest, spec.EngineBlockSize,
			uint32(math.MaxUint32))
	}
	g.fresh = uint32(spec.NumPrefixGroups * g.shared)
	return g, nil
}

// draw draws lengths that come from distributions.
func (g *generator) draw() (err error) {
	source := func(stream uint64) rand.Source { return rand.NewPCG(g.spec.Seed, stream) }
	turns := g.spec.RequestCount * g.spec.TurnsPerSession
	if d := g.spec.InputLengths; d != nil {
		if g.inputs, err = d.draw(turns, source(inputStream)); err != nil {
			return fmt.Errorf("input_tokens: %w", err)
		}
	}
	if d := g.spec.OutputLengths; d != nil {
		if g.outputs, err = d.draw(turns, source(outputStream)); err != nil {
			return fmt.Errorf("output_tokens: %w", err)
		}
	}
	return nil
}

func (g *generator) inputTokens(turn int) int {
	if g.inputs == nil {
		return g.spec.InputTokens
	}
	return g.inputs[turn]
}

func (g *generator) outputTokens(turn int) int {
	if g.outputs == nil {
		return g.spec.OutputTokens
	}
	return g.outputs[turn]
}

// blocksOf returns the number of blocks that a prompt opens.
func (g *generator) blocksOf(tokens int) int {
	return (tokens + g.spec.EngineBlockSize - 1) / g.spec.EngineBlockSize
}

// sharedOf returns how many of a prompt's blocks its group shares.
func (g *generator) sharedOf(blocks int) int {
	if g.spec.NumPrefixGroups == 0 {
		return 0
	}
	return min(blocks, int(math.Round(float64(blocks)*g.spec.SharedPrefixRatio)))
}

// allBlocks returns the number of blocks of all prompts.
func (g *generator) allBlocks() float64 {
	if g.inputs == nil {
		return float64(g.spec.RequestCount) * float64(g.spec.TurnsPerSession) * float64(g.blocks)
	}
	total := 0.0
	for _, tokens := range g.inputs {
		total += float64(g.blocksOf(tokens))
	}
	return total
}

func (g *generator) nextGroup() int {
	if g.shared == 0 {
		return 0
	}
	return g.groups.IntN(g.spec.NumPrefixGroups)
}

// start returns the start of session s; sessions are asked for in order.
func (g *generator) start(s int) float64 {
	switch {
	case g.starts != nil:
		return g.starts[s]
	case !g.sessions:
		return float64(s) * g.spec.ArrivalIntervalMs
	}
	if s > 0 {
		g.startMs += g.gapMs
	}
	return g.startMs
}

func (g *generator) prompt(turn, group int) kvcache.Prompt {
	if g.shared == 0 {
		g.fresh++
		return g.alone(g.fresh - 1)
	}
	segments := make([]uint32, g.blocksOf(g.inputTokens(turn)))
	shared := g.sharedOf(len(segments))
	for i := range segments {
		if i < shared {
			segments[i] = uint32(group*g.shared + i)
			continue
		}
		segments[i] = g.fresh
		g.fresh++
	}
	return kvcache.Prompt{Segments: segments, PerSegment: 1}
}

// alone returns a prompt that shares nothing: it is one segment with a number of its own.
func (g *generator) alone(segment uint32) kvcache.Prompt {
	return kvcache.Prompt{Segments: []uint32{segment}, PerSegment: max(1, g.blocks)}
}
