package job

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/journal"
	"dynosim/gocore/replay"
	"dynosim/gocore/strictjson"
)

// journalSpec says what a run writes down while it goes on, besides requests.
type journalSpec struct {
	timeline     string // a file, "" for none
	fromMs, toMs float64
	series       bool
	stepMs       float64 // 0 lets the journal choose
}

// parseJournal reads the options of timelines and series.
func parseJournal(o *strictjson.Object) (journalSpec, error) {
	s := journalSpec{
		timeline: o.Text("timeline"), toMs: math.Inf(1),
		series: o.Given("timeseries") || o.Given("timeseries_step") || o.Given("html"),
	}
	if base := strings.TrimSuffix(s.timeline, ".gz"); strings.HasSuffix(base, ".json") {
		return s, &strictjson.FieldError{
			Field: "timeline", Got: o.Shown("timeline"),
			Want: "another name, such as run.pftrace: the file is protobuf, which ui.perfetto.dev opens",
		}
	}
	if o.Given("timeline_window") {
		if s.timeline == "" {
			return s, &strictjson.FieldError{Field: "timeline_window", Got: o.Shown("timeline_window"),
				Want: "it left out, or timeline with it"}
		}
		var ok bool
		if s.fromMs, s.toMs, ok = parseWindow(o.Text("timeline_window")); !ok {
			return s, &strictjson.FieldError{
				Field: "timeline_window", Got: o.Shown("timeline_window"),
				Want: "two times, the earlier one first, such as 10s:40s, 500ms: or :1.5m",
			}
		}
	}
	switch {
	case o.Given("timeseries_step"):
		ms, ok := parseTime(o.Text("timeseries_step"))
		if !ok || ms < 1 || ms > maxStepMs {
			return s, &strictjson.FieldError{Field: "timeseries_step", Got: o.Shown("timeseries_step"),
				Want: "a time from 1ms to 24h, such as 1s or 500ms"}
		}
		s.stepMs = ms
	case o.Given("timeseries"):
		s.stepMs = defaultStepMs
	}
	return s, nil
}

const (
	defaultStepMs = 1000
	maxStepMs     = 24 * 3600 * 1000
)

// parseWindow reads two times with a colon between them. A missing one stands for the beginning or the end of the run.
func parseWindow(text string) (fromMs, toMs float64, ok bool) {
	from, to, found := strings.Cut(text, ":")
	if !found {
		return 0, 0, false
	}
	toMs, ok = math.Inf(1), true
	if from = strings.TrimSpace(from); from != "" {
		fromMs, ok = parseTime(from)
	}
	if to = strings.TrimSpace(to); ok && to != "" {
		toMs, ok = parseTime(to)
	}
	return fromMs, toMs, ok && fromMs < toMs
}

// parseTime reads a time with its unit, or seconds without one.
func parseTime(text string) (ms float64, ok bool) {
	text = strings.TrimSpace(text)
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, false
		}
		seconds = d.Seconds()
	}
	return seconds * 1000, seconds >= 0 && seconds <= math.MaxInt64/1e9
}

// open makes the journal of a run, nil if the run keeps none.
func (s *journalSpec) open(r *run) *journal.Journal {
	if s.timeline == "" && !s.series {
		return nil
	}
	d := r.deployment
	cfg := journal.Config{
		Requests: r.workload.Len(),
		Timeline: s.timeline != "", FromMs: s.fromMs, ToMs: s.toMs, Series: s.series, StepMs: s.stepMs,
		Ranked: d.ranked(),
		Hosted: d.args.HostCache.Blocks > 0, HostLinks: d.args.Ranks,
		Storage: d.args.HostCache.Storage.Blocks > 0,
		Grouped: d.args.LayerGroups().Beside > 0,
		Name:    r.nameInTimeline,
	}
	cfg.Blocks[engine.Aggregated], cfg.Blocks[engine.Decode] = blocksOf(d.args), blocksOf(d.args)
	cfg.Blocks[engine.Prefill] = blocksOf(d.prefill)
	cfg.OtherBlocks[engine.Aggregated] = d.args.SGLang.Window.Blocks
	if r.sla.IsSet() {
		cfg.Good = r.sla.Met
	}
	return journal.New(cfg)
}

// blocksOf returns the size of the KV pools of a worker: each of its ranks has one.
func blocksOf(args engineargs.Args) int { return args.NumGPUBlocks * max(1, args.Ranks) }

// nameInTimeline returns the row of a request in its trace, as in the per-request columns.
func (r *run) nameInTimeline(id engine.RequestID) string {
	if int(id) < r.workload.Len() {
		return strconv.Itoa(int(r.workload.Row(int32(id))))
	}
	return strconv.Itoa(int(id))
}

// close ends a journal and writes its timeline. The warning says how the series differs from what was asked for.
func (s *journalSpec) close(j *journal.Journal, e replay.Outcome, written *writtenFiles,
	poll func() error) (table *journal.Table, warning string, err error) {
	j.Close()
	if s.timeline != "" {
		changes := make([]journal.Scale, len(e.Scaling))
		for i, e := range e.Scaling {
			changes[i] = journal.Scale{AtMs: e.AtMs, Pool: e.Pool, To: e.To}
		}
		err := written.produce("timeline", s.timeline, poll,
			func(file io.Writer) error { return j.WriteTimeline(file, changes, inTimeline(e.Faults)) })
		if err != nil {
			return nil, "", err
		}
	}
	table = j.Table()
	if table != nil && s.stepMs > 0 && table.StepMs > s.stepMs {
		warning = fmt.Sprintf("timeseries_step: the run is so long that windows are %g s instead of %g s",
			table.StepMs/1000, s.stepMs/1000)
	}
	return table, warning, nil
}

// inTimeline returns faults as timelines show them.
func inTimeline(events []replay.FaultEvent) []journal.Fault {
	roles := map[string]engine.Role{"agg": engine.Aggregated, "prefill": engine.Prefill, "decode": engine.Decode}
	shown := make([]journal.Fault, len(events))
	for i, e := range events {
		shown[i] = journal.Fault{Kind: string(e.Kind), FromMs: e.AtMs, ToMs: e.UntilMs}
		for k, number := range e.Workers {
			shown[i].Workers = append(shown[i].Workers, journal.HitWorker{Role: roles[e.Pools[k]], Number: number})
		}
	}
	return shown
}
