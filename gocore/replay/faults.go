package replay

import (
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
	"dynosim/gocore/faults"
	"dynosim/gocore/fleet"
	"dynosim/gocore/journal"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/report"
)

// FaultConfig is what goes wrong in a run, and what frontends and clients do about it.
type FaultConfig struct {
	Script      []faults.Fault
	Seed        uint64
	DetectionMs float64 // from the loss of a worker until nothing is sent there any more
	// AvoidMs is how long after its streams have broken nothing is sent to a worker whose loss was not detected yet.
	AvoidMs float64
	// RetryRefusedMs is how long after its streams have broken a request that is sent to a lost worker goes to the
	// router again, as far as MigrationLimit allows. Later it fails at once.
	RetryRefusedMs float64
	// Rules are those of a release of Dynamo for what its frontend does about a worker that does not answer.
	Rules           RouterRules
	MigrationLimit  int     // how often a request may go on elsewhere
	ClientTimeoutMs float64 // after which a client gives a request up, +Inf for never
	ClientRetries   int     // how often a client begins anew
	ClientBackoffMs float64 // before the first of these; each further pause is twice as long
	HedgeAfterMs    float64 // without a first token, after which a request is sent a second time; +Inf for never
	// Began records every attempt of a request but the first: its id, by which routers know it, and its number. Nil is
	// for nothing.
	Began func(id, turn int32, number int)
}

// RouterRules are what a frontend does about a worker that was lost, before its loss is detected.
type RouterRules int

const (
	// Rules13 are those of Dynamo 1.3.1, which AvoidMs and RetryRefusedMs describe: after broken streams a router in
	// turn leaves the worker out, a KV-aware one tries again; when the workers have been listed anew, requests that are
	// sent there fail.
	Rules13 RouterRules = iota
	// Rules16 are those of Dynamo 1.6.1: a worker whose streams have broken off, or that has refused a request, is left
	// out until the workers are listed anew, AvoidMs after the loss and every ListingMs from then on; a request that
	// was refused goes to the router again.
	Rules16
)

// ListingMs is the time between two listings of the workers.
const ListingMs = 5000

// faultRun is what a run with faults knows besides: it has the script carried out, and leads every request to its end.
//
// A request (a turn) may need several attempts. The engines, the routers and the hand-offs know attempts, each by an id
// of its own; the collector and the driver know turns. The first attempt of a turn has its id. An attempt that is over
// may still be on a worker that has not heard of that; whatever it does is not visible.
//
// A run without faults has none.
type faultRun struct {
	*run
	cfg   *FaultConfig
	pools []*faultyPool // as in the fleet

	attempts []attempt   // by id
	turns    []turnState // by number
	trials   []report.Trials
	open     int // turns that have arrived and are not over

	script eventheap.Heap[func() error] // what the script does: passes begin and end otherwise afterwards
	timers eventheap.Heap[func() error] // what clients and routers do
	pushed int64
	broken []breakage // attempts that have failed at this instant

	failure    error // ends the run
	idleFaults int   // faults drawn since anything else has happened
	drawn      int   // faults drawn so far

	fresh    map[int32]uint32 // by turn: the first id of blocks of its output that are part of a prompt
	freshEnd uint32           // ids from here on are taken

	clocks     map[clockKey]*faults.Clock
	drained    map[workerKey]float64 // restarts of workers that drain: how long each is away
	cutNumbers map[workerKey]int     // the number of the last partition of a worker
	cuts       int
	cold       []*faults.Fault // that make start-ups slow now
	lasting    map[int]bool    // faults of no worker by number, while they last

	links  []*faults.Fault // that slow down or stop transfers now
	events []FaultEvent
	tally  FaultTally
}

// attempt is one sending of a request.
type attempt struct {
	turn     int32
	base     int32 // tokens that the client had before; they are part of the prompt
	over     bool
	admitted bool
}

// turnState is where a turn stands.
type turnState struct {
	live  []engine.RequestID // attempts that are not over: one, or two with hedging
	begun engine.RequestID   // the first attempt that was admitted, unassigned before
	try   int                // number of the client's current try
	open  bool               // it has arrived and is not over
	first bool               // the client has a token of the current try
	// when the last attempt was sent, or when the client has begun to wait before it tries again
	sinceMs float64
}

// breakage is an attempt that has failed.
type breakage struct {
	id       engine.RequestID
	tokens   int // that the client has
	cause    string
	migrates bool // it may go on elsewhere
	refused  bool // the worker was lost before it was sent there
	pool     int  // of the worker that has refused it
	worker   int
	event    int // number of the fault
}

// FaultEvent is a fault that has happened.
type FaultEvent struct {
	Fault   int // number in the script, from 0
	Kind    faults.Kind
	Pool    string
	Workers []int    // ids, empty for a fault that has no workers
	Pools   []string // of each of Workers
	AtMs    float64
	// when it was over: +Inf if never. A crash is over when there is a worker in the place of each again
	UntilMs float64
	Hit     int // attempts that were lost with a worker
	Refused int // attempts that were sent to a worker which was not there any more
	// What became of these: each went on elsewhere, was begun anew by its client, or failed for good.
	Migrated, Retried, Failed int

	places []poolPlace // of a crash, in which there is no worker again
}

// FaultTally counts what happened in all.
type FaultTally struct {
	Timeouts int // tries that clients gave up
	Stranded int // requests given up because nothing could happen any more
}

// newFaultRun prepares a run with faults. It has a fleet.
func newFaultRun(r *run) {
	f := &faultRun{run: r, cfg: r.Faults}
	f.fresh, f.freshEnd = map[int32]uint32{}, math.MaxUint32
	f.clocks, f.drained, f.cutNumbers = map[clockKey]*faults.Clock{}, map[workerKey]float64{}, map[workerKey]int{}
	f.lasting = map[int]bool{}
	turns := r.Workload.Len()
	f.attempts, f.turns, f.trials = make([]attempt, turns), make([]turnState, turns), make([]report.Trials, turns)
	for i := range turns {
		f.attempts[i] = attempt{turn: int32(i)}
		f.turns[i].begun = unassigned
	}
	r.collector.KeepTrials(f.trials)
	r.collector.AttributeAttempts()
	r.Journal.ExpectFaults()
	if r.Journal.KeepsSeries() {
		r.collector.LogTokens()
	}
	r.faults = f
	var hooks []*fleet.Hooks
	for k, p := range r.fleet.Pools() {
		kind := map[engine.Role]faults.Pool{engine.Aggregated: faults.Workers, engine.Prefill: faults.Prefill,
			engine.Decode: faults.Decode}[p.Role]
		f.pools = append(f.pools, &faultyPool{Pool: p, kind: kind, kept: map[int]int{}, awaited: map[int]int{}})
		hooks = append(hooks, f.hooks(k))
	}
	r.fleet.SetFaults(f, hooks)
	f.prepare()
}

// unassigned stands for no worker, and for no attempt.
const unassigned = -1

// hooks returns what faults change in a pool of the fleet.
func (f *faultRun) hooks(pool int) *fleet.Hooks {
	return &fleet.Hooks{
		Accepts:       func(i int, id engine.RequestID) bool { return f.accepts(pool, i, id) },
		Over:          func(id engine.RequestID) bool { return f.attempts[id].over },
		PassStarted:   func(i int, pass *engine.Pass) { f.stretch(pool, i, pass) },
		PassStalled:   func(i int, pass *engine.Pass) { f.stalls(pool, i, pass) },
		PassEnded:     func(i int, pass *engine.Pass) error { return f.passEnds(pool, i, pass) },
		Shown:         func(i int, pass *engine.Pass) error { return f.show(pool, i, pass) },
		PassResumed:   func(i int, pass *engine.Pass) { f.resumed(pool, i, pass) },
		CoastUntil:    func(i int, untilMs float64) (float64, bool) { return f.mayCoast(pool, i, untilMs) },
		CoastStarted:  func(i int, endsMs []float64) []float64 { return f.coasts(pool, i, endsMs) },
		CacheChanged:  func(i int, events []kvcache.Event) { f.news(pool, i, events) },
		Halted:        func(i int) bool { return f.halted(pool, i) },
		Unreachable:   func(i int) bool { return f.pools[pool].cond(i).cut > 0 },
		Activated:     func(i int) { f.join(pool, i) },
		Drained:       func(i int) error { return f.left(pool, i) },
		StartUpFactor: func(i int) float64 { return f.coldFactor(pool, i) },
	}
}

// recall takes an attempt that is over back from routers and workers.
func (f *faultRun) recall(id engine.RequestID) error {
	return f.fleet.Recall(id, func(p *fleet.Pool, i int) {
		f.forget(f.pools[p.Index()], i, id)
	})
}

// request returns an attempt as engines get it: the tokens that the client has are part of the prompt.
func (f *faultRun) request(id engine.RequestID) engine.Request {
	a := &f.attempts[id]
	t := f.driver.Turn(a.turn)
	req := engine.Request{
		ID: id, Prompt: t.Prompt, PromptTokens: t.InputTokens + int(a.base), OutputTokens: t.OutputTokens - int(a.base),
		NamedBlocks: t.NamedBlocks,
	}
	if a.base > 0 {
		req.Prompt = f.grown(t.Prompt, req.PromptTokens, max(t.NamedBlocks, t.InputTokens/f.blockSize()), a.turn)
	}
	return req
}

func (f *faultRun) blockSize() int {
	if f.Disagg != nil {
		return f.Disagg.Prefill.BlockSize
	}
	return f.Args.BlockSize
}

// grown names the blocks of a prompt that ends with generated tokens, of which named ones have names already. No other
// request has the others, whose ids come from the upper end.
func (f *faultRun) grown(p kvcache.Prompt, tokens, named int, turn int32) kvcache.Prompt {
	blocks := tokens / f.blockSize()
	named = min(named, len(p.Segments)*p.PerSegment)
	if blocks <= named {
		return p
	}
	first, known := f.fresh[turn]
	if !known {
		t := f.driver.Turn(turn)
		f.freshEnd -= uint32((t.InputTokens+t.OutputTokens)/f.blockSize() - named + 1)
		first = f.freshEnd
		f.fresh[turn] = first
	}
	if named > 0 && p.Block(named-1) >= kvcache.BlockID(f.freshEnd) {
		named = 0 // more names than fit: what others have cached is not found
	}
	segments := make([]uint32, blocks)
	for i := range segments {
		if i < named {
			segments[i] = uint32(p.Block(i))
		} else {
			segments[i] = first + uint32(i-named)
		}
	}
	return kvcache.Prompt{Segments: segments, PerSegment: 1}
}

// onScript has something done that changes what workers do.
func (f *faultRun) onScript(atMs float64, do func() error) {
	if !math.IsInf(atMs, 1) {
		f.script.Push(max(atMs, f.fleet.NowMs()), f.pushed, do)
		f.pushed++
	}
}

// after has something done that changes nothing for passes.
func (f *faultRun) after(ms float64, do func() error) {
	if !math.IsInf(ms, 1) {
		f.timers.Push(f.fleet.NowMs()+ms, f.pushed, do)
		f.pushed++
	}
}

// Happen implements [fleet.Faults]: first what has to be done about attempts that have failed, then what the script
// does.
func (f *faultRun) Happen() (changed bool, err error) {
	if f.idleFaults > maxIdleFaults {
		f.abandonAll()
		f.idleFaults, changed = 0, true
	}
	for err = f.failure; err == nil; changed = true {
		if len(f.broken) > 0 {
			b := f.broken[0]
			f.broken = f.broken[1:]
			if err = f.leaveOut(b); err == nil {
				err = f.goOn(b)
			}
			continue
		}
		do := f.due(&f.script)
		if do == nil {
			do = f.due(&f.timers)
		}
		if do == nil {
			return changed, nil
		}
		err = do()
	}
	return changed, err
}

// maxIdleFaults is how many faults may be drawn one after the other without anything else happening while requests are
// left. Then nothing else will happen: faults that are drawn never end.
const maxIdleFaults = 2000

// Progressed implements [fleet.Faults].
func (f *faultRun) Progressed() { f.idleFaults = 0 }

// drawing counts a fault that is drawn. It returns an error if they follow each other so fast that a run would do
// little else: beyond freeFaults, at most faultsPerSecond of them are carried out in a second of simulated time.
func (f *faultRun) drawing(n int) error {
	f.idleFaults++
	f.drawn++
	if float64(f.drawn) <= freeFaults+faultsPerSecond*f.fleet.NowMs()/1000 {
		return nil
	}
	return fmt.Errorf("faults[%d]: mtbf_s: got %v, want faults that are less frequent: %d were drawn in %v s of "+
		"simulated time, and a run may "+
		"draw %v and %v a second; with worker:* each worker draws its own",
		n, f.cfg.Script[n].MTBFMs/1000, f.drawn, f.fleet.NowMs()/1000, freeFaults, faultsPerSecond)
}

const (
	freeFaults      = 10_000.
	faultsPerSecond = 100.
)

// due takes the first event out of a heap if its time has come.
func (f *faultRun) due(h *eventheap.Heap[func() error]) func() error {
	if h.NextMs() > f.fleet.NowMs() {
		return nil
	}
	return h.Pop()
}

// DueMs implements [fleet.Faults].
func (f *faultRun) DueMs() float64 {
	return min(f.script.NextMs(), f.timers.NextMs())
}

// disturbedMs returns when the script changes something next. No worker coasts beyond.
func (f *faultRun) disturbedMs() float64 {
	return f.script.NextMs()
}

// Done implements [fleet.Faults].
func (f *faultRun) Done() bool { return f.open == 0 && f.driver.Unreleased() == 0 }

// GiveUp implements [fleet.Faults].
func (f *faultRun) GiveUp() bool {
	if f.open == 0 || !slices.ContainsFunc(f.pools, (*faultyPool).harmed) && len(f.links) == 0 {
		return false
	}
	f.abandonAll()
	return true
}

// abandonAll has all requests fail that have arrived.
func (f *faultRun) abandonAll() {
	for turn := range f.turns {
		if j := &f.turns[turn]; j.open && f.failure == nil {
			f.tally.Stranded++
			tokens := f.has(int32(turn))
			f.failure = f.withdraw(j)
			f.lost(int32(turn), tokens, "no worker was left that could have gone on with it")
		}
	}
}

// outcome returns what has happened.
func (f *faultRun) outcome() ([]FaultEvent, FaultTally) {
	if f.events == nil {
		f.events = []FaultEvent{}
	}
	return f.events, f.tally
}

// cut records the tokens of requests that are not over when the run ends. Passes that have begun keep their tokens,
// unless their workers cannot be reached.
func (f *faultRun) cut() {
	defer f.ends()
	for k := len(f.pools) - 1; k >= 0; k-- { // decode workers first: they know the tokens of a request that both have
		s := f.pools[k]
		for i := range s.Len() {
			if s.Worker(i).Engine != nil {
				f.cutWorker(k, i)
			}
		}
	}
	for turn := range f.turns { // what waits in a router has tokens, too, if it was on a worker before
		if id := engine.RequestID(turn); f.turns[turn].open {
			tokens, _ := f.collector.Emitted(id)
			f.collector.Cut(engine.RequestState{ID: id, Generated: tokens})
			f.collector.AttemptsCut(id, f.turns[turn].live)
		}
	}
}

// ends hands on what is only known when the run has ended.
func (f *faultRun) ends() {
	f.collector.AttemptsEnd()
	if !f.Journal.KeepsSeries() {
		return
	}
	role := f.pools[len(f.pools)-1].Role
	f.collector.Tokens(func(t report.Tokens) {
		f.Journal.Got(role, t.Worker, journal.Tokens{AtMs: t.AtMs, N: t.N, GapMs: t.GapMs, TTFTMs: t.TTFTMs,
			Lost: t.Lost})
	})
}

func (f *faultRun) cutWorker(pool, i int) {
	s := f.pools[pool]
	c, w := s.cond(i), s.Worker(i)
	emits := pool == len(f.pools)-1
	passes := c.unseen
	if w.Pass != nil && w.Pass.EndMs <= fleet.MaxTimeMs {
		f.Journal.Ended(s.Role, i, w.Engine, w.Pass, w.Pass.EndMs)
	}
	switch {
	case len(w.Coast) > 0:
		endsMs := w.Settle(len(w.Coast))
		f.follow(s.Role, i, w.Engine)
		f.collector.Coast(i, endsMs)
		f.collector.CoastParts(i, endsMs, w.CoastHostMs())
		f.Journal.Coast(s.Role, i, w.Engine, endsMs)
	case w.Pass != nil && c.cut == 0 && emits && w.Pass.EndMs <= fleet.MaxTimeMs:
		for _, started := range joinedOrSingle(w.Pass) {
			f.claim(started.ID)
		}
		f.record(i, f.emitted(w.Pass, w.Pass.EndMs))
		f.divide(pool, i, w.Pass)
	case w.Pass != nil:
		passes = append(passes, w.Pass)
	}
	generated := map[engine.RequestID]int{}
	states := w.Engine.States()
	for _, state := range states {
		generated[state.ID] = state.Generated
	}
	for _, state := range states {
		if f.attempts[state.ID].over {
			continue
		}
		state.Generated = f.seen(state.ID, generated, passes)
		state.ID = f.of(state.ID)
		f.collector.Cut(state)
	}
}
