package job

import (
	"encoding/json"
	"io"
	"strings"

	"dynosim/gocore/fleet"
	"dynosim/gocore/journal"
	"dynosim/gocore/planner"
	"dynosim/gocore/report"
)

// Result is the outcome of a run for the user.
type Result struct {
	summary   []report.Value
	warnings  []string
	saved     *savedTrace // nil if the workload was not saved
	files     *writtenFiles
	rows      *report.Rows        // nil if the run keeps none
	explained *report.Explanation // nil unless it was asked for
	tenants   *report.Tenants     // nil unless the trace has tenants
	origin    provenance
	scaling   []planner.Event // nil without a planner
	meetings  fleet.Meetings
	faults    *faultReport // nil if nothing could go wrong
	writeErr  error
	series    *journal.Table // nil if it was not asked for
	thrift    func()         // ends the thrift that a run of many rows began; nil if there is none
}

// JSON returns the report and what goes with it:
//
//	{"report": {...}, "warnings": ["..."], "rows": 12, "columns": {"float": [...], "int": [...], "text": [...]},
//	 "saved_trace": {"path": "...", "trace_format": "mooncake", "trace_block_size": 64}, "write_error": "...",
//	 "files": [{"draft": ".dynamo-01.tmp", "path": "rows.jsonl", "given": "rows.jsonl"}],
//	 "scaling_events": [{"at_ms": 5000, "pool": "agg", "from": 1, "to": 2, "reason": ""}],
//	 "held_requests": 0, "cold_worker_requests": 3, "attribution": {...}, "tenants": {...},
//	 "faults": {"failed_requests": 0, ..., "fault_events": [...]},
//	 "timeseries": {"step_ms": 1000, "rows": 60, "columns": {...}},
//	 "provenance": {...}}
//
// The report's keys come in the order of the table. saved_trace, null if none was asked for, says how to read it.
// write_error says why the per-request file could not be written, and is "" otherwise. files are complete, but not yet
// at the paths where they belong; Close removes those that have not been moved there. attribution, which is only there
// if it was asked for, says where latencies come from; tenants is only there if the trace has any. timeseries is null
// unless it was asked for; the names of its columns begin with "timeseries/" below. faults is null unless something
// could go wrong. provenance says what was run.
func (r *Result) JSON() string {
	floats, ints, texts := r.rows.ColumnNames()
	rest := struct {
		Warnings   []string            `json:"warnings"`
		Rows       int                 `json:"rows"`
		Columns    map[string][]string `json:"columns"`
		Saved      *savedTrace         `json:"saved_trace"`
		WriteError string              `json:"write_error"`
		Files      []waitingFile       `json:"files"`
		Scaling    []planner.Event     `json:"scaling_events"`
		Held       int                 `json:"held_requests"`
		Cold       int                 `json:"cold_worker_requests"`
		Faults     *faultReport        `json:"faults"`
		Series     *seriesShape        `json:"timeseries"`
		Tenants    *report.Tenants     `json:"tenants,omitempty"`
		Provenance provenance          `json:"provenance"`
	}{
		Warnings: append([]string{}, r.warnings...),
		Rows:     r.rows.Len(),
		Saved:    r.saved,
		Files:    r.files.waiting(),
		Columns:  map[string][]string{"float": orEmpty(floats), "int": orEmpty(ints), "text": orEmpty(texts)},

		Scaling:    r.scaling,
		Series:     shapeOf(r.series),
		Faults:     r.faults,
		Tenants:    r.tenants,
		Held:       r.meetings.Held,
		Cold:       r.meetings.Cold,
		Provenance: r.origin,
	}
	if r.writeErr != nil {
		rest.WriteError = r.writeErr.Error()
	}
	encoded, err := json.Marshal(rest)
	if err != nil {
		panic("job: the result does not marshal: " + err.Error())
	}
	text := append([]byte(`{"report":`), report.AppendJSON(nil, r.summary)...)
	if r.explained != nil {
		text = r.explained.AppendJSON(append(text, `,"attribution":`...))
	}
	text = append(text, ',')
	return string(append(text, encoded[1:]...))
}

// Close removes the files of the run that are not in their places, and ends what goes on as long as there are rows. A
// result may be closed once.
func (r *Result) Close() {
	r.files.discard()
	if r.thrift != nil {
		r.thrift()
	}
}

// seriesShape describes the series of a run.
type seriesShape struct {
	StepMs  float64             `json:"step_ms"`
	Rows    int                 `json:"rows"`
	Columns map[string][]string `json:"columns"`
}

func shapeOf(t *journal.Table) *seriesShape {
	if t == nil {
		return nil
	}
	columns := map[string][]string{"float": journal.FloatColumns(t.Kind), "int": journal.IntColumns(),
		"text": journal.TextColumns()}
	return &seriesShape{StepMs: t.StepMs, Rows: t.Rows, Columns: columns}
}

// ofSeries begins the names of columns of the series.
const ofSeries = "timeseries/"

// Floats returns a per-request column in row order, NaN for none, or one of the series; false if there is no such
// column.
func (r *Result) Floats(name string) ([]float64, bool) {
	if of, ok := strings.CutPrefix(name, ofSeries); ok {
		return r.series.Floats(of)
	}
	return r.rows.Floats(name)
}

// Ints returns a per-request column in row order, -1 for none, or one of the series; false if there is no such column.
func (r *Result) Ints(name string) ([]int64, bool) {
	if of, ok := strings.CutPrefix(name, ofSeries); ok {
		return r.series.Ints(of)
	}
	return r.rows.Ints(name)
}

// Strings returns a per-request column in row order, "" for none, or one of the series; false if there is no such
// column.
func (r *Result) Strings(name string) ([]string, bool) {
	if of, ok := strings.CutPrefix(name, ofSeries); ok {
		return r.series.Strings(of)
	}
	return r.rows.Strings(name)
}

// pollingWriter stops writing when poll says so.
type pollingWriter struct {
	io.Writer
	poll func() error
}

func (w pollingWriter) Write(p []byte) (int, error) {
	if err := w.poll(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

// orEmpty returns the names as JSON wants them: a list that is empty, not null.
func orEmpty(names []string) []string { return append([]string{}, names...) }
