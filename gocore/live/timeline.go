package live

import (
	"io"
	"strconv"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/journal"
)

// timeline is the journals of all engines of a process, nil if none is wanted. Each belongs to the goroutine of its
// engine until that has ended.
type timeline struct {
	journal *journal.Journal
	parts   []*journal.Journal // by number of the engine in the process
	started time.Time
}

// timelineBytes is how much is kept, for all engines together.
const timelineBytes = 64 << 20

func newTimeline(c *Config) *timeline {
	engines := c.Args.Engines()
	t := &timeline{started: time.Now(), parts: make([]*journal.Journal, c.Workers*engines)}
	cfg := journal.Config{
		Timeline: true, Live: true, Ranks: engines, MostBytes: timelineBytes / (c.Workers * engines),
		Name: func(id engine.RequestID) string { return strconv.Itoa(int(id)) },
	}
	cfg.Blocks[c.Args.Role] = c.Args.NumGPUBlocks * max(1, c.Args.Ranks)
	cfg.Grouped, cfg.OtherBlocks[c.Args.Role] = c.Args.LayerGroups().Beside > 0, c.Args.SGLang.Window.Blocks
	t.journal = journal.New(cfg)
	for i := range t.parts {
		t.parts[i] = t.journal.Part(i)
	}
	return t
}

// follow gives a runner that does not run yet its journal.
func (t *timeline) follow(r *runner, number int) {
	if t != nil {
		r.journal = t.parts[number]
		r.sinceMs = float64(time.Since(t.started))/1e6 - r.nowMs()
	}
}

// WriteTimeline writes what engines did, as a trace for Perfetto. The process must have been shut down, and must have
// been asked to keep a timeline. It reports true if some of it was not kept.
func (p *Process) WriteTimeline(out io.Writer) (cut bool, err error) {
	j := p.timeline.journal
	j.Merge(p.timeline.parts)
	j.Close()
	return j.Full(), j.WriteTimeline(out, nil, nil)
}

// recordJoin tells the journal of a request that joins the engine.
func (r *runner) recordJoin(req engine.Request, atMs float64) {
	if r.journal != nil {
		ms := max(r.sinceMs+atMs, 0)
		r.journal.Arrived(req, ms)
		r.journal.Joined(r.args.Role, 0, req.ID, ms)
	}
}

// recordLeave tells the journal of a request that leaves the engine otherwise than by a pass.
func (r *runner) recordLeave(q *request) {
	if r.journal != nil {
		r.journal.Left(r.args.Role, q.state.ID, r.sinceMs+max(r.nowMs(), r.endMs))
	}
}

// recordPass tells the journal of a pass that starts.
func (r *runner) recordPass(pass *engine.Pass) {
	if r.journal == nil {
		return
	}
	shown := *pass
	shown.StartMs += r.sinceMs
	shown.EndMs += r.sinceMs
	r.journal.Pass(r.args.Role, 0, r.engine, &shown, func(engine.RequestID) (float64, bool) { return 0, false })
}
