package journal

import "dynosim/gocore/engine"

// stretch is passes of a worker that followed each other. Those in which the same number of requests merely decode are
// one stretch; every other pass is one by itself. So the stretches do not depend on which passes a worker ran in one
// go.
type stretch struct {
	fromMs, toMs          float64
	passes, tokens        int
	requests              int   // that got a share of each pass
	prompts, promptTokens int   // that compute prompts, of them
	used, usedBefore      inUse // after the last pass, and before the first
}

// inUse is blocks in use, and those of full attention and of the other groups if the cache has several.
type inUse struct{ blocks, full, others int }

// run adds a pass to the stretches.
func (w *worker) run(p *engine.Pass, used inUse) {
	if p.Scheduled == 0 && p.Tokens == 0 || p.EndMs <= p.StartMs {
		w.use(p.StartMs, used)
		return
	}
	next := stretch{fromMs: p.StartMs, toMs: p.EndMs, passes: 1, tokens: p.Tokens, requests: p.Scheduled}
	if p.Parts != nil {
		next.prompts = len(p.Parts.Prompts)
		for _, c := range p.Parts.Prompts {
			next.promptTokens += c.Tokens
		}
	}
	w.extend(next, used)
}

// extend adds passes to the open stretch if they are of its kind, and begins another one if not.
func (w *worker) extend(next stretch, used inUse) {
	o := &w.open
	if o.passes > 0 && o.toMs == next.fromMs && o.prompts == 0 && next.prompts == 0 && o.requests == next.requests {
		o.toMs, o.used = next.toMs, used
		o.passes += next.passes
		o.tokens += next.tokens
		return
	}
	w.endStretch()
	next.usedBefore, next.used = w.used, used
	*o = next
}

// use notes that from now on the given number of blocks is in use, otherwise than by a pass.
func (w *worker) use(ms float64, used inUse) {
	w.endStretch()
	w.keepBlocks(ms)
	w.used = used
}

// endStretch writes the open stretch.
func (w *worker) endStretch() {
	o := &w.open
	if o.passes == 0 {
		return
	}
	w.keepBlocks(o.fromMs)
	w.writeStretch(o)
	if w.series != nil {
		w.series.use(o.fromMs, o.toMs, o.usedBefore, o.used)
	}
	w.usedMs, w.used = o.toMs, o.used
	*o = stretch{}
}

// keepBlocks brings the series up to date: no pass was run since, and the number of blocks is the same.
func (w *worker) keepBlocks(ms float64) {
	if w.series != nil && ms > w.usedMs {
		w.series.keep(w.usedMs, ms, w.used)
	}
	w.usedMs = max(w.usedMs, ms)
}

// blocksOf returns the number of blocks in use.
func (w *worker) blocksOf(e engine.Engine) (used inUse) {
	if reporter, ok := e.(engine.Reporter); ok {
		_, _, used.blocks = reporter.Load()
	}
	if reporter, ok := e.(engine.GroupReporter); ok && w.j.cfg.Grouped {
		now, _ := reporter.Groups()
		used.full, used.others = now.Full, now.Others
	}
	return used
}

// countsTokens reports whether tokens count when the worker emits them. In a run with faults they count when clients
// get them.
func (w *worker) countsTokens() bool {
	return w.series != nil && w.role != engine.Prefill && w.j.attempts == nil
}

// emitted counts the tokens of a pass.
func (w *worker) emitted(p *engine.Pass, lastTokenMs func(engine.RequestID) (float64, bool)) {
	if p.Tokens == 0 {
		return
	}
	if len(p.Singles) > 0 {
		w.emittedSingles(p, lastTokenMs)
		return
	}
	emitters := p.Tokens
	for _, b := range p.Bursts {
		emitters -= b.Tokens - 1
	}
	if w.countsTokens() {
		in := w.series.at(p.EndMs)
		in.tokens += int64(p.Tokens)
		if gone := emitters - len(p.Started); gone > 0 {
			in.itl.add(max(0, p.EndMs-w.lastEmitMs), int64(gone))
		}
		if extra := p.Tokens - emitters; extra > 0 {
			in.itl.add(0, int64(extra))
		}
		in.continued(p.Started, p.EndMs, lastTokenMs)
	}
	w.lastEmitMs = p.EndMs
	w.emitters = emitters - len(p.Finished)
}

// emittedSingles counts the tokens of a pass in which requests emit one by itself each.
func (w *worker) emittedSingles(p *engine.Pass, lastTokenMs func(engine.RequestID) (float64, bool)) {
	if !w.countsTokens() {
		return
	}
	in := w.series.at(p.EndMs)
	in.tokens += int64(p.Tokens)
	in.continued(p.Singles, p.EndMs, lastTokenMs)
}

// continued counts the gaps of requests that go on to emit tokens at ms.
func (in *window) continued(runs []engine.TokenRun, ms float64, lastTokenMs func(engine.RequestID) (float64, bool)) {
	for _, t := range runs {
		if t.Index == 0 {
			continue
		}
		if before, ok := lastTokenMs(t.ID); ok {
			in.itl.add(max(0, ms-before), 1)
		}
	}
}

// coast adds passes in which each request that emitted in the pass before emitted a token.
func (w *worker) coast(e engine.Engine, endsMs []float64) {
	last := endsMs[len(endsMs)-1]
	next := stretch{fromMs: w.endMs, toMs: last, passes: len(endsMs), tokens: w.emitters * len(endsMs),
		requests: w.emitters}
	if w.countsTokens() {
		n := int64(w.emitters)
		for _, endMs := range endsMs {
			in := w.series.at(endMs)
			in.tokens += n
			in.itl.add(max(0, endMs-w.lastEmitMs), n)
			w.lastEmitMs = endMs
		}
	}
	w.lastEmitMs, w.endMs = last, last
	w.extend(next, w.blocksOf(e))
}
