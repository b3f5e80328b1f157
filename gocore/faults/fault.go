package faults

import (
	"fmt"
	"math"
	"strconv"
)

// Kind is what goes wrong.
type Kind string

// The kinds of faults.
const (
	Crash       Kind = "crash"        // a worker is gone, with its requests and its cache
	Restart     Kind = "restart"      // a worker ends and starts up again
	Slow        Kind = "slow"         // passes take Factor times as long
	Pause       Kind = "pause"        // a worker stands still
	Partition   Kind = "partition"    // a worker goes on, and cannot be reached
	LinkSlow    Kind = "link_slow"    // transfers of KV take Factor times as long
	LinkDown    Kind = "link_down"    // transfers of KV stand still
	EventsLost  Kind = "events_lost"  // the router does not learn of changes of caches
	RouterStale Kind = "router_stale" // the router learns of them late
	ColdStart   Kind = "cold_start"   // start-ups take Factor times as long
)

// area is what a kind of fault concerns.
type area uint8

const (
	onWorkers  area = iota + 1 // workers themselves
	onLinks                    // the link between two pools
	onRouters                  // what routers learn of workers
	onStartUps                 // start-ups of workers
)

// kinds has a row for each kind: what it concerns, and what its fault may say besides kind, at_ms, mtbf_s and target. A
// factor is never left out.
var kinds = []row{
	{kind: Crash, on: onWorkers, keys: []string{"duration_ms", "mttr_s", "detection_ms"}},
	{kind: Restart, on: onWorkers, keys: []string{"duration_ms", "mttr_s", "detection_ms", "drain"}},
	{kind: Slow, on: onWorkers, keys: []string{"duration_ms", "mttr_s", "factor"}},
	{kind: Pause, on: onWorkers, keys: []string{"duration_ms", "mttr_s"}},
	{kind: Partition, on: onWorkers, keys: []string{"duration_ms", "mttr_s", "detection_ms"}},
	{kind: LinkSlow, on: onLinks, keys: []string{"duration_ms", "mttr_s", "factor"}},
	{kind: LinkDown, on: onLinks, keys: []string{"duration_ms", "mttr_s"}},
	{kind: EventsLost, on: onRouters, keys: []string{"duration_ms", "mttr_s"}},
	{kind: RouterStale, on: onRouters, keys: []string{"duration_ms", "mttr_s", "delay_ms"}},
	{kind: ColdStart, on: onStartUps, keys: []string{"duration_ms", "mttr_s", "factor"}},
}

// row is what a kind takes.
type row struct {
	kind Kind
	on   area
	keys []string
}

// Pool names the workers among which a target is.
type Pool string

// The pools. Workers of a run with one pool are those of Workers.
const (
	AnyPool Pool = ""
	Workers Pool = "worker"
	Prefill Pool = "prefill"
	Decode  Pool = "decode"
)

// Target is the workers that a fault hits.
type Target struct {
	Pool   Pool
	Random int // how many of the workers, drawn when the fault happens; 0 draws none
	One    bool
	Place  int // of the worker, if it is One; all workers of the pool otherwise
}

// String returns the target as users write it.
func (t Target) String() string {
	switch {
	case t.Random > 0 && t.Pool == AnyPool:
		return "random:" + strconv.Itoa(t.Random)
	case t.Random > 0:
		return fmt.Sprintf("%s:random:%d", t.Pool, t.Random)
	case t.One:
		return fmt.Sprintf("%s:%d", t.Pool, t.Place)
	case t.Pool == AnyPool:
		return "*"
	}
	return string(t.Pool) + ":*"
}

// In reports whether workers of a pool may be among the target.
func (t Target) In(p Pool) bool { return t.Pool == AnyPool || t.Pool == p }

// Has reports whether the worker at a place of a pool is among the target, as far as nothing has to be drawn.
func (t Target) Has(p Pool, place int) bool {
	return t.In(p) && t.Random == 0 && (!t.One || t.Place == place)
}

// Fault is one line of a script.
type Fault struct {
	Kind   Kind
	Target Target
	AtMs   float64 // when it happens, if it is not drawn
	MTBFMs float64 // the mean time until it happens, if it is drawn; 0 otherwise
	// DurationMs is how long it lasts, +Inf to the end of the run. A crash lasts until the worker starts up again.
	DurationMs  float64
	MTTRMs      float64 // the mean duration, if that is drawn; 0 otherwise
	Factor      float64 // 1 if the kind has none
	DetectionMs float64 // NaN for that of the run
	DelayMs     float64 // of events, +Inf until the fault is over
	Drain       bool    // a restart waits for the requests that the worker has
}

// Drawn reports whether something about the fault depends on the seed.
func (f *Fault) Drawn() bool { return f.MTBFMs > 0 || f.MTTRMs > 0 || f.Target.Random > 0 }

// Detection returns how long the fault goes unnoticed. A restart is announced.
func (f *Fault) Detection(ofRunMs float64) float64 {
	switch {
	case !math.IsNaN(f.DetectionMs):
		return f.DetectionMs
	case f.Kind == Restart:
		return 0
	}
	return ofRunMs
}

// Links reports whether the fault concerns the link between two pools.
func (f *Fault) Links() bool { return f.area() == onLinks }

// OfWorkers reports whether the fault hits workers themselves, and not what is between them or what routers learn of
// them.
func (f *Fault) OfWorkers() bool { return f.area() == onWorkers }

func (f *Fault) area() area {
	for _, r := range kinds {
		if r.kind == f.Kind {
			return r.on
		}
	}
	return 0
}
