package vllm

import "dynosim/gocore/timing"

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
	prompts, decodes := 0, 0
	for i := range g.ranks {
		b := g.ranks[i].batch
		prompts += b.promptTokens()
		decodes += b.tokens()
	}
	prefillMs := clock.ExpertsMs(timing.Prefill, ceilDiv(prompts, len(g.ranks)))
	decodeMs := clock.ExpertsMs(timing.Decode, ceilDiv(decodes, len(g.ranks)))
	for i := range g.ranks {
		r := &g.ranks[i]
		if !r.batch.empty() {
			r.batch.durations.replaceExperts(
				prefillMs-clock.ExpertsMs(timing.Prefill, r.batch.promptTokens()),
				decodeMs-clock.ExpertsMs(timing.Decode, r.batch.tokens()),
				r.batch.tokens() > 0,
			)
		}
	}
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

// replaceExperts adds to both parts of a pass what the expert layers take more or less. A batch that gets no token has
// no decode part: it waits for the experts of the others' tokens within its prefill part.
func (d *durations) replaceExperts(prefillMs, decodeMs float64, emits bool) {
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
