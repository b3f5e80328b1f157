package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"dynosim/gocore/cachetrace"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
	"dynosim/gocore/workload"
)

// runError is an error of a run that had begun.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// Kind sorts an error of Run: "usage" for bad input, "notfound" for a file that does not exist, "failed" for a run that
// had begun, "cancelled" for one that was stopped.
func Kind(err error) string {
	var failed runError
	switch {
	case errors.Is(err, ErrCancelled):
		return "cancelled"
	case errors.As(err, &failed):
		return "failed"
	case errors.Is(err, fs.ErrNotExist):
		return "notfound"
	}
	return "usage"
}

// Run carries out the request described by config, a JSON object with the key "kind" ("trace" or "synthetic") and the
// parameters of the Python functions of that kind. All input is checked before anything is simulated.
func Run(config string, m *Monitor) (_ *Result, err error) {
	o, lengths, err := decode(config)
	if err != nil {
		return nil, err
	}
	d, warnings, err := parseDeployment(o)
	if err != nil {
		return nil, err
	}
	if err := checkOnline(o, d); err != nil {
		return nil, err
	}
	if err := checkRows(o); err != nil {
		return nil, err
	}
	routing, routerWarnings, err := parseRouting(o, d)
	if err != nil {
		return nil, err
	}
	spec, err := parseWorkload(o, lengths)
	if err != nil {
		return nil, err
	}
	spec.Passing = passes(o, d, spec)
	sdk := newSDK(m)
	if d, err = sdk.sizePools(d); err != nil {
		return nil, err
	}
	timing, err := loadModels(d, sdk)
	if err != nil {
		return nil, err
	}
	if err := routing.estimate(sdk); err != nil {
		return nil, err
	}
	w, err := loadWithin(m, o, spec, d)
	if err != nil {
		return nil, err
	}
	unpinned, err := routing.pin(o, w)
	if err != nil {
		return nil, err
	}
	origin, err := describe(config, o, d, routing, lengths, m)
	if err != nil {
		return nil, err
	}
	saved, err := schedule(o, w, d.args.BlockSize, m.poll)
	if err != nil {
		return nil, err
	}
	defer saved.finish(&err)
	warnings = slices.Concat(warnings, routerWarnings, unpinned, sdk.sessions.Warnings())
	warnings = append(warnings, ineffective(o, d, w)...)
	warnings = append(warnings, ineffectiveDraws(o, spec)...)

	m.total.Store(int64(w.Len()))
	if w.Len() >= thriftFrom && !keepsRows(o) {
		defer beThrifty()()
	}
	if err := m.enter(running); err != nil {
		return nil, err
	}
	cfg := runConfig(o)
	cfg.Workload, cfg.Each, cfg.Setup = w, inParallel, timing.setup(d)
	cfg.NoRows, cfg.SLA = !keepsRows(o) && o.Text("replay_mode") == offlineMode, sla(o)
	cfg.Poll = m.pollRun
	if o.Text("replay_mode") == offlineMode { // on the clock, the worker that asks looks
		cfg.Poll = func(nowMs float64, finished int) error {
			if err := sdk.err(); err != nil {
				return err
			}
			return m.pollRun(nowMs, finished)
		}
	}
	outcome, wall, err := simulate(o.Text("replay_mode"), cfg, d, routing, o.Text("router_log"))
	if err == nil {
		err = sdk.err() // of the last few passes
	}
	if err != nil {
		return nil, runError{err}
	}

	m.done.Store(int64(outcome.Collector.Ended())) // the last requests end after the last poll
	if err := m.enter(reporting); err != nil {
		return nil, err
	}
	summary := outcome.Collector.Summarise(report.Resources{
		PrefillWorkerSeconds: outcome.PrefillWorkerSeconds,
		DecodeWorkerSeconds:  outcome.WorkerSeconds,
		PrefillGPUsPerWorker: d.prefill.GPUsPerWorker,
		DecodeGPUsPerWorker:  gpusPerWorker(o, d),
		TimingModel:          timing.name,
		WallMs:               float64(wall.Nanoseconds()) / 1e6,
	}, sla(o))
	warnings = append(warnings, sdk.finalWarnings()...)
	if line := cutWarning(d.args, w); line != "" {
		warnings = append(warnings, line)
	}
	if line := rejectionWarning(outcome.Collector, w); line != "" {
		warnings = append(warnings, line)
	}
	result := &Result{summary: summary, warnings: warnings, saved: saved, origin: origin}
	if keepsRows(o) {
		result.rows = outcome.Collector.Rows(w)
	}
	if o.Given("report_jsonl_path") {
		result.writeErr = writeWhole(o.Text("report_jsonl_path"), func(file io.Writer) error {
			return result.rows.WriteJSONL(pollingWriter{file, m.poll})
		})
		if errors.Is(result.writeErr, ErrCancelled) {
			return nil, ErrCancelled
		}
	}
	return result, nil
}

// gpusPerWorker is 0 on the clock, where no worker seconds are counted either.
func gpusPerWorker(o *strictjson.Object, d deployment) int {
	if o.Text("replay_mode") == onlineMode {
		return 0
	}
	return d.args.GPUsPerWorker
}

// simulate carries out the run and tells how long that took. If there is a path, the router's decisions go there.
func simulate(mode string, cfg replay.Config, d deployment, r routing, logPath string) (outcome replay.Outcome, wall time.Duration, err error) {
	started := time.Now()
	if logPath == "" {
		outcome, err = replayIn(mode, r.deploy(cfg, d))
		return outcome, time.Since(started), err
	}
	err = writeWhole(logPath, func(file io.Writer) error {
		log := newDecisionLog(file, cfg.Workload)
		for _, stage := range r.stages {
			stage.Log = log.add
		}
		outcome, err = replayIn(mode, r.deploy(cfg, d))
		wall = time.Since(started)
		return errors.Join(err, log.flush())
	})
	return outcome, wall, err
}

// ineffective warns of input that is valid but changes nothing in this run.
func ineffective(o *strictjson.Object, d deployment, w *workload.Workload) []string {
	args := d.args
	var warnings []string
	warn := func(name, because string) {
		if !o.AtDefault(name) {
			warnings = append(warnings, fmt.Sprintf("%s %s has no effect %s", name, o.Shown(name), because))
		}
	}
	if o.Given("replay_concurrency") {
		warn("arrival_speedup_ratio", "with replay_concurrency")
		for _, name := range []string{"arrival_interval_ms", "arrival_process", "request_rate", "arrival_cv"} {
			warn(name, "with replay_concurrency")
		}
	}
	// It selects a profile of a router policy file, and runs with one are refused.
	warn("model_name", "without router_policy_config")
	if o.Int("turns_per_session") == 1 {
		warn("inter_turn_delay_ms", "with one turn per session")
	}
	if o.Float("shared_prefix_ratio") == 0 {
		warn("num_prefix_groups", "with shared_prefix_ratio 0")
	}
	if w.Format != workload.AppliedCompute {
		for _, name := range []string{"trace_shared_prefix_ratio", "trace_num_prefix_groups"} {
			warn(name, "with trace_format "+w.Format.String())
		}
	}
	if o.Int("num_prefix_groups") == 0 {
		warn("shared_prefix_ratio", "without num_prefix_groups")
	}
	if !args.PrefixCaching && args.Eviction == engineargs.LRU {
		warnings = append(warnings, "engine argument eviction_backend lru has no effect with enable_prefix_caching false")
	}
	if mode := routerMode(o); !mode.Configured {
		warn("router_config", "with router_mode "+mode.Name)
		pools := []engineargs.Args{args, d.prefill}
		if slices.ContainsFunc(pools, func(a engineargs.Args) bool { return a.RouterQueuePolicy != "" }) {
			warnings = append(warnings, "engine argument router_queue_policy has no effect with router_mode "+mode.Name)
		}
		if w.RouterHints {
			warnings = append(warnings, w.File+": priority and strict_priority have no effect with router_mode "+mode.Name)
		}
		if slices.ContainsFunc(pools, func(a engineargs.Args) bool {
			return !worker.Traits(a).BoundsBatches && a.MaxNumBatchedTokens != engineargs.Default().MaxNumBatchedTokens
		}) {
			warnings = append(warnings, "engine argument max_num_batched_tokens has no effect with engine_type sglang and router_mode "+mode.Name)
		}
	}
	if text := cachetrace.Warning(os.Getenv(cachetrace.Variable), args); text != "" {
		warnings = append(warnings, text)
	}
	for _, text := range w.Notes.Texts(w.Len()) {
		warnings = append(warnings, w.File+": "+text)
	}
	for _, hints := range w.Hints {
		if hints.PolicyClass != "" {
			warnings = append(warnings, w.File+": policy_class has no effect without a router policy file")
			break
		}
	}
	return warnings
}

// ineffectiveDraws warns of a seed from which nothing is drawn.
func ineffectiveDraws(o *strictjson.Object, spec workload.SyntheticSpec) []string {
	mode := routerMode(o)
	if mode.Configured || spec.Draws() || spec.Arrivals.Draws() && !o.Given("replay_concurrency") || o.AtDefault("seed") {
		return nil
	}
	because := "with router_mode " + mode.Name
	if o.Text("kind") == kindSynthetic {
		because += " and a workload in which nothing is drawn"
	}
	return []string{fmt.Sprintf("seed %s has no effect %s", o.Shown("seed"), because)}
}

// rejectionWarning names the requests that could never run, on one line.
func rejectionWarning(c *report.Collector, w *workload.Workload) string {
	const shown = 5
	rejected := c.Rejected()
	if len(rejected) == 0 {
		return ""
	}
	var names []string
	for i, r := range rejected {
		if i == shown {
			names = append(names, fmt.Sprintf("and %d more", len(rejected)-shown))
			break
		}
		names = append(names, fmt.Sprintf("%s: %s", w.TurnName(int32(r.ID)), r.Reason))
	}
	return fmt.Sprintf("%d of %d requests can never run and were rejected: %s", len(rejected), w.Len(), strings.Join(names, "; "))
}
