package job

import (
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/faults"
	"dynosim/gocore/replay"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
)

// What goes wrong in a run, and what its report says about that. docs/faults.md has the meaning.

// faultOptions are the options that make a run one with faults; others say how requests take them.
var faultOptions = []string{"faults", "client_timeout_ms", "hedge_after_ms"}

// parseFaults reads the script of faults and what frontends and clients do about them. It returns nil if nothing goes
// wrong.
func parseFaults(o *strictjson.Object, d deployment) (*replay.FaultConfig, error) {
	first := slices.IndexFunc(faultOptions, o.Given)
	if first < 0 {
		return nil, nil
	}
	if d.disaggregated && worker.Traits(d.prefill).Undisturbed {
		return nil, &strictjson.FieldError{
			Field: faultOptions[first], Got: o.Shown(faultOptions[first]),
			Want: "it left out with scheduler " + d.prefill.Scheduler.String() + " on prefill and decode workers: what " +
				"these do about lost ones, and about requests that are taken back, is not known",
		}
	}
	script, err := faults.Parse(o.Text("faults"), faults.Layout{
		TwoPools: d.disaggregated, Prefill: d.prefillWorkers, Decode: d.workers, Grows: isPlanned(o),
	})
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	if len(script) == 0 && !o.Given("client_timeout_ms") && !o.Given("hedge_after_ms") {
		return nil, nil
	}
	// At rate 0 the report has what it has at others.
	if script, err = atRate(script, o.Float("fault_rate")); err != nil {
		return nil, err
	}
	return &replay.FaultConfig{
		Script: script, Seed: o.Uint("seed"),
		DetectionMs: o.Float("detection_ms"), AvoidMs: o.Float("avoid_ms"), MigrationLimit: o.Int("migration_limit"),
		RetryRefusedMs:  o.Float("retry_refused_ms"),
		Rules:           routerRules[o.Text("router_rules")],
		ClientTimeoutMs: orNever(o, "client_timeout_ms"), ClientRetries: o.Int("client_retries"),
		ClientBackoffMs: o.Float("client_backoff_ms"), HedgeAfterMs: orNever(o, "hedge_after_ms"),
	}, nil
}

// routerRules are the rules of the releases of Dynamo.
var routerRules = map[string]replay.RouterRules{"1.3": replay.Rules13, "1.6": replay.Rules16}

// atRate makes random faults happen rate times as often.
func atRate(script []faults.Fault, rate float64) ([]faults.Fault, error) {
	if rate == 0 {
		return slices.DeleteFunc(script, func(f faults.Fault) bool { return f.MTBFMs > 0 }), nil
	}
	for i := range script {
		f := &script[i]
		if f.MTBFMs > 0 && f.MTBFMs/rate < faults.ShortestMTBFMs {
			return nil, &strictjson.FieldError{Field: "fault_rate", Got: fmt.Sprint(rate),
				Want: fmt.Sprintf("at most %v, so that a fault with mtbf_s %v happens once in %v ms at most",
					f.MTBFMs/faults.ShortestMTBFMs, f.MTBFMs/1000, faults.ShortestMTBFMs)}
		}
		f.MTBFMs /= rate
	}
	return script, nil
}

func orNever(o *strictjson.Object, name string) float64 {
	if !o.Given(name) {
		return math.Inf(1)
	}
	return o.Float(name)
}

// warnOfUnusedCacheFaults warns of faults of cache events if the router gets no such events.
func (s *Spec) warnOfUnusedCacheFaults() (warnings []string) {
	mode := s.routing.Mode
	if mode.Configured || mode.Asks || mode.UsesEvents {
		return nil
	}
	for _, kind := range []faults.Kind{faults.EventsLost, faults.RouterStale} {
		if s.scripted(func(f *faults.Fault) bool { return f.Kind == kind }) {
			warnings = append(warnings, fmt.Sprintf("faults of kind %s have no effect with router_mode %s, which "+
				"gets no cache events", kind, mode.Name))
		}
	}
	return warnings
}

// scripted reports whether the script has a fault with a property.
func (s *Spec) scripted(has func(*faults.Fault) bool) bool {
	return s.faults != nil && slices.ContainsFunc(s.faults.Script, func(f faults.Fault) bool { return has(&f) })
}

// drawsFaults reports whether anything about the faults depends on the seed.
func (s *Spec) drawsFaults() bool {
	return s.scripted((*faults.Fault).Drawn)
}

// faultReport is what the report says about faults.
type faultReport struct {
	Failed       int          `json:"failed_requests"`
	Migrated     int          `json:"migrated_requests"`
	Migrations   int          `json:"migrations"`
	Retried      int          `json:"retried_requests"`
	Retries      int          `json:"retries"`
	Timeouts     int          `json:"client_timeouts"`
	Hedges       int          `json:"hedges"`
	Recomputed   int          `json:"recomputed_tokens"`
	LostTokens   int          `json:"lost_output_tokens"`
	Availability *float64     `json:"availability"`
	Events       []faultEvent `json:"fault_events"`
}

// faultKeys are the keys of numbers of a faultReport.
var faultKeys = []string{"failed_requests", "migrated_requests", "migrations", "retried_requests", "retries",
	"client_timeouts",
	"hedges", "recomputed_tokens", "lost_output_tokens", "availability"}

// faultEvent is a fault that happened. Numbers that do not exist are null.
type faultEvent struct {
	Kind     faults.Kind `json:"kind"`
	Pool     string      `json:"pool"`
	Workers  []int       `json:"workers"`
	AtMs     float64     `json:"at_ms"`
	UntilMs  *float64    `json:"until_ms"`
	Hit      int         `json:"lost_attempts"`
	Refused  int         `json:"refused_attempts"`
	Migrated int         `json:"migrated"`
	Retried  int         `json:"retried"`
	Failed   int         `json:"failed"`
	Before   *float64    `json:"goodput_before_rps"`
	During   *float64    `json:"goodput_during_rps"`
	After    *float64    `json:"goodput_after_rps"`
	Recovery *float64    `json:"recovery_ms"`
}

// reportFaults sums up what went wrong, nil if nothing could.
func (r *run) reportFaults(e ended) *faultReport {
	if r.faults == nil {
		return nil
	}
	f := &faultReport{Failed: len(e.Collector.Lost()), Timeouts: e.FaultTally.Timeouts, Events: []faultEvent{}}
	for _, t := range e.Collector.AllTrials() {
		f.Migrations += t.Migrations
		f.Retries += t.Retries
		f.Hedges += t.Hedges
		f.Recomputed += t.RecomputedTokens
		f.LostTokens += t.LostTokens
		f.Migrated += min(t.Migrations, 1)
		f.Retried += min(t.Retries, 1)
	}
	if over := e.Collector.Finished(); over > 0 {
		f.Availability = finite(float64(over-f.Failed) / float64(over))
	}
	good, endMs := e.Collector.GoodMs(r.sla), e.Collector.DurationMs()
	for _, v := range e.Faults {
		g := faults.Around(good, v.AtMs, v.UntilMs, endMs)
		f.Events = append(f.Events, faultEvent{
			Kind: v.Kind, Pool: v.Pool, Workers: v.Workers, AtMs: v.AtMs, UntilMs: finite(v.UntilMs),
			Hit: v.Hit, Refused: v.Refused, Migrated: v.Migrated, Retried: v.Retried, Failed: v.Failed,
			Before: finite(g.BeforeRPS), During: finite(g.DuringRPS), After: finite(g.AfterRPS),
			Recovery: finite(g.RecoveryMs),
		})
	}
	return f
}

// finite returns a value of JSON, null if it is not finite.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
