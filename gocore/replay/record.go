package replay

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/fleet"
	"dynosim/gocore/report"
	"dynosim/gocore/worker"
)

// recorder tells the report and the journal of a run what has happened.
type recorder struct{ *run }

var _ fleet.Recorder = recorder{}

func (r recorder) now() float64 { return r.fleet.NowMs() }

// Routed implements [fleet.Recorder].
func (r recorder) Routed(p *fleet.Pool, i int, id engine.RequestID, overlapTokens int) {
	switch p.Role {
	case engine.Decode:
		r.collector.DecodeRoute(r.of(id), overlapTokens)
	case engine.Prefill:
		r.collector.PrefillRoute(r.of(id), i, overlapTokens)
		r.collector.Spends(id, report.WorkerWait, r.now())
	}
}

// Joined implements [fleet.Recorder].
func (r recorder) Joined(p *fleet.Pool, i int, id engine.RequestID) {
	r.joined(p.Role, i, id, r.now())
}

func (r recorder) joined(role engine.Role, i int, id engine.RequestID, sentMs float64) {
	switch role {
	case engine.Aggregated:
		r.collector.Worker(r.of(id), i)
		r.collector.Spends(id, report.WorkerWait, sentMs)
	case engine.Decode:
		r.collector.Worker(r.of(id), i)
		r.collector.Spends(id, report.KVWait, sentMs)
	}
	r.Journal.Joined(role, i, id, sentMs)
}

// PassStarted implements [fleet.Recorder]. Admissions and tokens are recorded at once, even tokens beyond the end of a
// run that is cut short; with faults, tokens when their pass has ended.
func (r recorder) PassStarted(p *fleet.Pool, i int, pass *engine.Pass) {
	r.follow(p.Role, i, p.Worker(i).Engine)
	if r.faults == nil {
		r.pass(p.Role, i, p.Worker(i).Engine, pass)
		return
	}
	seen := r.faults.admitted(p.Role, i, pass)
	r.Journal.Begun(p.Role, i, pass)
	if p.Role == engine.Prefill {
		r.collector.PrefillPass(i, seen)
	} else {
		r.collector.Pass(i, seen)
	}
}

// follow records how the ranks of a worker wait for each other, and what its requests wait for if its cache has several
// groups.
func (r *run) follow(role engine.Role, i int, e engine.Engine) {
	if role != engine.Aggregated { // the workers of both pools take turns
		i *= 2
	}
	if role == engine.Decode {
		i++
	}
	if ranks, has := e.(engine.LockstepReporter); has {
		r.collector.Lockstep(i, ranks.Lockstep())
	}
	if groups, has := e.(engine.GroupReporter); has {
		if now, several := groups.Groups(); several {
			r.collector.Groups(i, now)
		}
	}
}

func (r recorder) pass(role engine.Role, i int, e engine.Engine, pass *engine.Pass) {
	if role == engine.Prefill {
		r.collector.PrefillPass(i, pass)
	} else {
		r.collector.Pass(i, pass)
	}
	r.Journal.Pass(role, i, e, pass, r.collector.BeforeRun)
}

// Coasted implements [fleet.Recorder].
func (r recorder) Coasted(p *fleet.Pool, i int, endsMs []float64) {
	if r.faults != nil { // the last pass may still be being run
		endsMs = endsMs[:fleet.EndedBy(endsMs, r.now())]
	}
	r.coasted(p.Role, i, p.Worker(i), endsMs)
}

func (r recorder) coasted(role engine.Role, i int, w *worker.Worker, endsMs []float64) {
	r.follow(role, i, w.Engine)
	r.collector.Coast(i, endsMs)
	r.collector.Surplus(w.Surplus())
	r.Journal.Coast(role, i, w.Engine, endsMs)
	if r.Attribution {
		r.collector.CoastParts(i, endsMs, w.CoastHostMs())
	}
}

// Left implements [fleet.Recorder].
func (r recorder) Left(p *fleet.Pool, id engine.RequestID) { r.Journal.Left(p.Role, id, r.now()) }

// Unsent implements [fleet.Recorder].
func (r recorder) Unsent(id engine.RequestID) { r.Journal.Unsent(id, r.now()) }

// Step implements [fleet.Recorder].
func (r recorder) Step(id engine.RequestID, s fleet.Step) {
	nowMs := r.now()
	switch s {
	case fleet.SourceHeld:
		r.collector.Step(r.of(id), report.SourceHeld, nowMs)
	case fleet.Reserved:
		r.collector.Step(r.of(id), report.DestinationReserved, nowMs)
		r.collector.Spends(id, report.RouterWait, nowMs)
		r.Journal.Reserved(id, nowMs)
	case fleet.Queued:
		r.collector.Spends(id, report.WorkerWait, nowMs)
	case fleet.TransferStarted:
		r.collector.Spends(id, report.KVTransfer, nowMs)
	case fleet.TransferTakes:
		r.Journal.Transfer(id, nowMs)
	case fleet.Transferred:
		r.collector.Spends(id, report.KVWait, nowMs)
	case fleet.Activated:
		r.collector.Step(r.of(id), report.DestinationActivated, nowMs)
		r.collector.Spends(id, report.WorkerWait, nowMs)
		r.Journal.Activated(id, nowMs)
	case fleet.Released:
		r.collector.Step(r.of(id), report.SourceReleased, nowMs)
		r.Journal.Left(engine.Prefill, id, nowMs)
	}
}

// Failed implements [fleet.Recorder].
func (r recorder) Failed(p *fleet.Pool, id engine.RequestID, reason string) {
	status := report.Failed
	if p.Role == engine.Prefill {
		status = report.Rejected
	}
	r.collector.Terminal(r.of(id), status, reason)
}

// Added implements [fleet.Recorder].
func (r recorder) Added(p *fleet.Pool) {
	if p.Role != engine.Prefill {
		r.collector.AddWorker()
	}
}

// Removed implements [fleet.Recorder].
func (r recorder) Removed(*fleet.Pool, int) {}
