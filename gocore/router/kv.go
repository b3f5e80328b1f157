package router

import (
	"fmt"
	"math"
	"math/rand/v2"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/strictjson"
)

// KV is the KV-aware router of one pool of workers. It is not safe for concurrent use. Times must not go back.
type KV struct {
	config    Config
	blockSize int
	ranks     int // as in Options, at least 1
	rng       *rand.Rand
	stage     string
	pin       func(id int32) (worker int, ok bool)
	pinMode   PinMode
	log       func(Decision)

	index      index
	beside     besides
	lower      *lowerTiers // nil if workers have none
	tracker    *tracker
	queue      queue
	candidates candidates
	members    *members     // nil if the workers of the pool never change
	polled     *polledLoads // nil if decisions go by the loads of this instant

	// Room that is used again.
	admitted  []Admission
	stretches []stretch // of the prompt at hand
	cached    query
	shared    query
	logged    []Candidate
	placed    [2][]match // overlaps and shared blocks of members, by place
}

// Options describes a router.
type Options struct {
	Config  Config
	Workers int // at least 1; their ids are 0 to Workers-1
	// Ranks above 1 tells that each group of this number of workers is the data-parallel ranks of one, for the log and
	// for messages.
	Ranks     int
	BlockSize int // tokens
	// MaxNumBatchedTokens is what a worker computes in one pass at most; math.MaxInt stands for no limit. The queue
	// threshold is a multiple of it.
	MaxNumBatchedTokens int
	Groups              Groups     // of layers that workers have beside the one of full attention
	NodeWorkers         int        // workers that follow each other and share a store, 0 for all
	LowerTiers          bool       // workers may tell of host memory, or of a store that they share
	Rand                *rand.Rand // decides ties, and everything at a temperature above 0
	Stage               string     // names the router in decisions and errors: "" or "prefill" or "decode"

	// Pin names the worker of a request that is not to be chosen freely. Nil pins nothing.
	Pin     func(id int32) (worker int, ok bool)
	PinMode PinMode
	// Log gets every decision, in order. It may be nil.
	Log func(Decision)
	// Estimate makes prefill load shrink while time passes. Nil leaves it whole until the prefill is done.
	Estimate Estimate

	// Decider and Blocks, the number of blocks of a worker's cache, are for an [Asked] router, whose rule is in Python.
	Decider Decider
	Blocks  int

	// Settings are the values of the keys of a mode that has any; see [Mode.Settings].
	Settings *strictjson.Object
}

// unlimitedBatch stands for a worker without a limit on the tokens of a pass.
const unlimitedBatch = 10_000_000

// Load is what the router has booked on a worker.
type Load struct {
	PrefillTokens int64 // of prompts, not cached and not computed yet
	ActiveBlocks  int64 // distinct full blocks of the prompts of active requests
}

// New creates a router whose workers are idle and have nothing cached.
func New(o Options) *KV {
	k := &KV{
		config:     o.Config,
		blockSize:  o.BlockSize,
		ranks:      max(1, o.Ranks),
		rng:        o.Rand,
		stage:      o.Stage,
		pin:        o.Pin,
		pinMode:    o.PinMode,
		log:        o.Log,
		tracker:    newTracker(o.Config, o.Workers, o.busyAbove(), o.Estimate),
		queue:      queue{policy: o.Config.QueuePolicy, fair: newFair(o.Config)},
		beside:     newBesides(o.Groups),
		candidates: newCandidates(o.Workers),
	}
	k.candidates.activeBlocks = k.tracker.activeBlocks
	if o.LowerTiers {
		k.lower = &lowerTiers{perNode: o.NodeWorkers}
	}
	if o.Config.MetricsIntervalMs > 0 {
		k.polled = &polledLoads{clock: PollClock{EveryMs: o.Config.MetricsIntervalMs}, of: []*KV{k}}
	} else if o.rankable() {
		k.tracker.ranking, k.tracker.blockSize = newRanking(o.Workers), int64(o.BlockSize)
	}
	return k
}

var _ Router = (*KV)(nil)

// Traits implements [Router].
func (*KV) Traits() Traits { return Traits{Observes: true} }

// busyAbove returns the prefill load, in tokens, above which a worker is busy.
func (o *Options) busyAbove() float64 {
	switch {
	case !o.Config.Queueing:
		return math.Inf(1)
	case o.MaxNumBatchedTokens == math.MaxInt:
		return o.Config.QueueThreshold * unlimitedBatch
	default:
		return o.Config.QueueThreshold * float64(o.MaxNumBatchedTokens)
	}
}

// Submit routes a request that arrives now. It is admitted at once, or waits if all workers are busy or others wait.
func (k *KV) Submit(r Request, nowMs float64) ([]Admission, error) {
	k.polled.poll(nowMs)
	k.admitted = k.admitted[:0]
	blocks := r.PromptTokens / k.blockSize
	if r.PromptTokens < 1 {
		return nil, fmt.Errorf("request %d has %d prompt tokens, want at least 1", r.ID, r.PromptTokens)
	}
	if known := len(r.Prompt.Segments) * r.Prompt.PerSegment; known < blocks {
		return nil, fmt.Errorf("request %d has %d full blocks and ids for %d of them", r.ID, blocks, known)
	}
	k.stretches = appendStretches(k.stretches[:0], r.Prompt, blocks)
	overlaps := k.overlaps()
	if k.config.Queueing && (k.queue.len() > 0 || k.allBusy(nowMs)) {
		k.queue.push(r, overlaps, k.bestCached(overlaps), nowMs)
		return nil, nil
	}
	err := k.dispatch(r, overlaps, 0, nowMs)
	return k.admitted, err
}

// PrefillCompleted says that the first token of a request is there, and not its last one. The request must be active.
func (k *KV) PrefillCompleted(id int32, nowMs float64) ([]Admission, error) {
	k.polled.poll(nowMs)
	if err := k.tracker.prefillCompleted(id, nowMs); err != nil {
		return nil, err
	}
	return k.drain(nowMs)
}

// Free says that a request has ended, in whatever way. An unknown one changes nothing.
func (k *KV) Free(id int32, nowMs float64) ([]Admission, error) {
	k.polled.poll(nowMs)
	k.stretches, _ = k.tracker.free(id, nowMs, k.stretches)
	return k.drain(nowMs)
}

// Cancel withdraws a request. One that waits just leaves the queue, and no other is admitted instead; one that is
// active ends as by Free.
func (k *KV) Cancel(id int32, nowMs float64) ([]Admission, error) {
	k.polled.poll(nowMs)
	var active bool
	if k.stretches, active = k.tracker.free(id, nowMs, k.stretches); active {
		return k.drain(nowMs)
	}
	k.queue.remove(id)
	return nil, nil
}

// Apply notes what a worker has stored in its cache and removed from it. Blocks below the device count with
// Options.LowerTiers. No request is admitted by it.
func (k *KV) Apply(worker int, events []kvcache.Event) {
	for _, e := range events {
		if e.Tier != kvcache.Device {
			k.lower.apply(int32(worker), e)
		} else if x := k.indexOf(e.Group); x != nil {
			x.apply(int32(worker), e)
		}
	}
}

// Waiting returns the number of requests in the queue.
func (k *KV) Waiting() int { return k.queue.len() }

// Load returns the load of a worker now.
func (k *KV) Load(worker int, nowMs float64) Load {
	return Load{
		PrefillTokens: k.tracker.tokensAt(nowMs)[worker],
		ActiveBlocks:  k.tracker.activeBlocks[worker],
	}
}

// drain admits waiting requests until all workers are busy.
func (k *KV) drain(nowMs float64) ([]Admission, error) {
	k.admitted = k.admitted[:0]
	for k.queue.len() > 0 && !k.allBusy(nowMs) {
		w := k.queue.pop()
		r := w.request
		k.stretches = appendStretches(k.stretches[:0], r.Prompt, r.PromptTokens/k.blockSize)
		err := k.dispatch(r, w.overlaps, nowMs-w.sinceMs, nowMs)
		k.queue.recycle(w)
		if err != nil {
			return k.admitted, err
		}
	}
	return k.admitted, nil
}

// dispatch chooses a worker by the loads of this instant and books the request there. k.stretches are the prompt's, and
// overlaps those of its arrival.
func (k *KV) dispatch(r Request, overlaps []match, waitMs, nowMs float64) error {
	blocks := r.PromptTokens / k.blockSize
	shared := k.tracker.shared(&k.shared, k.stretches)
	overlaps, shared = k.own(overlaps, &k.placed[0]), k.own(shared, &k.placed[1])
	c := &k.candidates
	k.gather(nowMs)
	scatter(c.cached, overlaps)
	scatter(c.shared, shared)
	k.gatherLower()
	defer clearMatches(c.cached, overlaps)
	defer clearMatches(c.shared, shared)
	place, err := k.decide(r, overlaps, shared, waitMs, nowMs)
	if err != nil {
		return err
	}
	worker, overlap := k.workerAt(place), int(c.cached[place])
	k.admitted = append(k.admitted, Admission{
		ID:            r.ID,
		Worker:        worker,
		OverlapBlocks: overlap,
		PromptBlocks:  ceilDiv(r.PromptTokens, k.blockSize),
		WaitMs:        waitMs,
	})
	return k.tracker.add(booking{
		id:        r.ID,
		worker:    int32(worker),
		prompt:    r.Prompt,
		tokens:    r.PromptTokens,
		uncached:  r.PromptTokens - overlap*k.blockSize - c.lowerTokens(place, k.blockSize),
		stretches: k.stretches,
		blocks:    blocks,
	}, nowMs)
}

// decide chooses a worker, by a ranking of the loads or by the costs of all workers, and logs the decision. The answer
// is the place of the worker among the candidates.
func (k *KV) decide(r Request, overlaps, shared []match, waitMs, nowMs float64) (worker int, err error) {
	newBlocks := k.tracker.newBlocks(r.PromptTokens / k.blockSize)
	if k.tracker.ranking != nil && k.members == nil {
		if worker, ok := k.pickRanked(r.PromptTokens, newBlocks, overlaps, shared); ok {
			return worker, nil
		}
	}
	k.candidates.price(&k.config, k.blockSize, r.PromptTokens, newBlocks)
	worker, pinned, err := k.choose(r.ID, nowMs)
	if err != nil {
		return 0, err
	}
	if k.log != nil {
		tied := k.candidates.tied
		d := Decision{AtMs: nowMs, ID: r.ID, Stage: k.stage, Chosen: k.workerAt(worker), Tied: tied, Pinned: pinned,
			WaitMs: waitMs}
		k.report(d, newBlocks)
	}
	return worker, nil
}

// bestCached returns the most tokens of a prompt that a worker has cached.
func (k *KV) bestCached(overlaps []match) int {
	best := int32(0)
	for _, m := range overlaps {
		best = max(best, m.blocks)
	}
	return int(best) * k.blockSize
}

// scatter writes matches into a list with a place for every worker, which is 0 everywhere.
func scatter(perWorker []int32, matches []match) {
	for _, m := range matches {
		perWorker[m.worker] = m.blocks
	}
}

// clearMatches undoes scatter. It touches no worker but those of the matches.
func clearMatches(perWorker []int32, matches []match) {
	for _, m := range matches {
		perWorker[m.worker] = 0
	}
}
