// Package lockstep has what engines with data-parallel ranks have in common: every rank has a scheduler, a pool and a
// cache of its own, and a shell sees the parts that the ranks have of a common pass as one pass.
package lockstep

import "dynosim/gocore/engine"

// Merge adds what a rank did in its part of a common pass to the pass. Times, cache events and parts are left out.
func Merge(pass *engine.Pass, rank int, p *engine.Pass) {
	for _, a := range p.Admitted {
		a.Rank = rank
		pass.Admitted = append(pass.Admitted, a)
	}
	pass.Tokens += p.Tokens
	pass.Scheduled += p.Scheduled
	pass.Preempted += p.Preempted
	pass.Started = append(pass.Started, p.Started...)
	pass.Singles = append(pass.Singles, p.Singles...)
	pass.Finished = append(pass.Finished, p.Finished...)
	pass.Held = append(pass.Held, p.Held...)
	for _, l := range p.Loads {
		l.Rank = rank
		pass.Loads = append(pass.Loads, l)
	}
	pass.Released = append(pass.Released, p.Released...)
	pass.ReleasedAtStart = append(pass.ReleasedAtStart, p.ReleasedAtStart...)
	pass.Rejected = append(pass.Rejected, p.Rejected...)
	pass.Signals = append(pass.Signals, p.Signals...)
	pass.Copied.Add(p.Copied)
}

// MergeParts adds the parts of a rank to those of a common pass, whose time goes where that of the slowest rank goes.
func MergeParts(parts *engine.Parts, rank int, p *engine.Parts, slowest bool) {
	if slowest {
		parts.PromptMs, parts.DecodeMs, parts.HostMs = p.PromptMs, p.DecodeMs, p.HostMs
	}
	parts.Joined = append(parts.Joined, p.Joined...)
	parts.LostAtStart = append(parts.LostAtStart, p.LostAtStart...)
	parts.LostAtEnd = append(parts.LostAtEnd, p.LostAtEnd...)
	parts.Prompts = append(parts.Prompts, p.Prompts...)
	parts.Loaded = append(parts.Loaded, p.Loaded...)
	for _, c := range p.Copies {
		c.Rank = rank
		parts.Copies = append(parts.Copies, c)
	}
}
