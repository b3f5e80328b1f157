package vllm

import (
	"slices"

	"dynosim/gocore/timing"
)

// shareExperts corrects how long the batches of all ranks take. Each was measured as if all ranks had its tokens. But
// expert layers exchange tokens between the ranks, so what they take depends on the tokens of all ranks together, and
// is the same for each of them:
//
//	rank 0   |attention of its tokens|      |experts, for the tokens of both ranks|
//	rank 1   |attention|.............|      |experts, for the tokens of both ranks|
//
// A model of durations that cannot tell expert layers apart leaves them as they were.
func (g *Group) shareExperts() {
	clock := &g.ranks[0].clock
	if !clock.KnowsExperts() {
		return
	}
	fused := g.ranks[0].rules.Fused && slices.ContainsFunc(g.ranks, func(r rank) bool { return r.batch.computesPrompts() })
	prompts, decodes := 0, 0
	for i := range g.ranks {
		b := g.ranks[i].batch
		prompts += b.promptTokens()
		decodes += b.durations.decodeTokens(fused)
	}
	prefillMs := clock.ExpertsMs(timing.Prefill, ceilDiv(prompts, len(g.ranks)))
	decodeMs := decodeExpertsMs(clock, ceilDiv(decodes, len(g.ranks)), fused)
	for i := range g.ranks {
		b := g.ranks[i].batch
		if b.empty() {
			continue
		}
		mixed := fused && b.computesPrompts() // a rank without prompts was measured as a pass that only decodes
		b.durations.replaceExperts(
			prefillMs-clock.ExpertsMs(timing.Prefill, b.promptTokens()),
			decodeMs-decodeExpertsMs(clock, b.durations.decodeTokens(mixed), mixed),
			b.tokens() > 0,
		)
	}
}

// decodeExpertsMs returns what the expert layers take for the tokens of requests that decode. In a fused pass that
// computes prompts, the fixed cost of a forward, that of one token, is in the prompt part already.
func decodeExpertsMs(clock *timing.Clock, tokens int, fused bool) float64 {
	took := clock.ExpertsMs(timing.Decode, tokens)
	if fused {
		took = max(0, took-clock.ExpertsMs(timing.Decode, 1))
	}
	return took
}

func (b *batch) computesPrompts() bool { return b.durations.prefillCount > 0 }

// decodeTokens returns the number of tokens that the decode part of a batch was measured with. The first token of a
// request is not among them in a fused pass, as it comes from its prompt.
func (d *durations) decodeTokens(fused bool) int {
	if fused && d.decodes > 0 {
		return d.decodes - d.ended
	}
	return d.decodes
}

// promptTokens returns the number of prompt tokens that a batch computes, as the timing model is asked for them: the
// means of its requests are rounded down.
func (b *batch) promptTokens() int {
	d := &b.durations
	if d.prefillCount == 0 {
		return 0
	}
	return d.prefillCount * max(0, d.prefillISL/d.prefillCount-d.prefillStart/d.prefillCount)
}

// replaceExperts adds to both parts of a pass what the expert layers take more or less. A batch that gets no token, or
// is of a prefill worker, has no decode part: it waits for the experts of the others' tokens within its prefill part.
func (d *durations) replaceExperts(prefillMs, decodeMs float64, emits bool) {
	emits = emits && d.decodes > 0
	if !emits {
		prefillMs, decodeMs = prefillMs+decodeMs, 0
	}
	prefillMs = max(prefillMs, -d.promptMs)
	decodeMs = max(decodeMs, d.hostMs-d.decodeMs)
	d.promptMs += prefillMs
	d.prefillMs += prefillMs
	if emits {
		d.decodeMs += decodeMs
	}
}
