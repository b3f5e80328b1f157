package report

import (
	"bufio"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/engine"
	"dynosim/gocore/spelling"
	"dynosim/gocore/workload"
)

// Rows is the per-request table of a run: one row per request that arrived, in the order of the workload.
type Rows struct {
	c       *Collector
	w       *workload.Workload
	turns   []int32
	reasons map[engine.RequestID]string
	// failures are the reasons of requests that failed for a fault or a time-out.
	failures map[engine.RequestID]string
	// owned says whether rows have tenants and deadlines.
	owned bool
}

// Rows returns the per-request table. w must be the workload that was run.
func (c *Collector) Rows(w *workload.Workload) *Rows {
	rows := &Rows{c: c, w: w, reasons: make(map[engine.RequestID]string), failures: make(map[engine.RequestID]string),
		owned: w.Tenants || w.Deadlines()}
	for i := range c.records {
		if !math.IsNaN(c.records[i].arrivalMs) {
			rows.turns = append(rows.turns, int32(i))
		}
	}
	for _, r := range c.rejected {
		rows.reasons[r.ID] = r.Reason
	}
	for _, r := range c.lost {
		rows.failures[r.ID] = r.Reason
	}
	return rows
}

// Len returns the number of rows; nil has none.
func (rows *Rows) Len() int {
	if rows == nil {
		return 0
	}
	return len(rows.turns)
}

// column is one key of a row. Exactly one of the three functions is set.
type column struct {
	name  string
	doc   string                                          // for docs/reference/report.md
	given bool                                            // a text that is always there and may be empty
	float func(rows *Rows, turn int32, r *record) float64 // NaN = none
	int   func(rows *Rows, turn int32, r *record) int     // -1 = none
	text  func(rows *Rows, turn int32, r *record) string  // "" = none
}

// columns are the keys of a row, in the order in which they are written. Those of prefill/decode hand-off (handoff.go)
// are always empty in an aggregated run.
var columns = []column{
	{name: "session_id", doc: "The session: `session_id` of the trace, or a name made for it.",
		given: true, text: func(rows *Rows, turn int32, _ *record) string { return rows.w.SessionName(turn) }},
	{name: "turn_index", doc: "Place of the request in its session, from 0.",
		int: func(rows *Rows, turn int32, _ *record) int { return int(rows.w.Turns[turn].Index) }},
	{name: "uuid", doc: "Numbers the requests, the same in equal runs.",
		text: func(_ *Rows, turn int32, _ *record) string { return requestUUID(turn) }},
	{name: "arrival_time_ms", doc: "When it was sent.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.arrivalMs }},
	{name: "first_admit_ms", doc: "When a worker first admitted it.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.firstAdmitMs }},
	{name: "first_token_ms", doc: "When its first token was emitted.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.firstTokenMs }},
	{name: "last_token_ms", doc: "When its last token was emitted.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.lastMs }},
	{name: "ttft_ms", doc: "Time to first token: first token minus arrival.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.ifTokens(1, r.ttftMs) }},
	{name: "ttst_ms", doc: "Time to second token, counted from the first one.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.ifTokens(2, r.ttstMs) }},
	{name: "e2e_latency_ms", doc: "Last token minus arrival.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.ifTokens(1, r.e2eMs) }},
	{name: "itl_ms", doc: "Mean gap between its tokens, the group `tpot_ms` of the statistics.",
		float: func(_ *Rows, _ int32, r *record) float64 { return r.ifTokens(2, r.tpotMs) }},
	{name: "input_length", doc: "Tokens of the prompt.",
		int: func(_ *Rows, _ int32, r *record) int { return r.inputTokens }},
	{name: "output_length", doc: "Tokens asked for.",
		int: func(_ *Rows, _ int32, r *record) int { return int(r.outputTokens) }},
	{name: "reused_input_tokens", doc: "Prompt tokens found in the cache of the worker that computed the prompt.",
		int: reusedInput},
	{name: "prefill_worker_idx", doc: "Two pools: worker that computed the prompt.",
		int: ofHandoffInt(func(h *handoff) int { return int(h.worker) })},
	{name: "decode_worker_idx", doc: "Worker that generated, or would have generated, the output.",
		int: func(_ *Rows, _ int32, r *record) int { return int(r.worker) }},
	{name: "prefill_admit_ms", doc: "Two pools: first admission by the prefill worker.",
		float: ofHandoff(func(h *handoff) float64 { return h.prefill.firstMs })},
	{name: "source_held_ms", doc: "Two pools: the prompt was computed, its KV is held for the decode worker.",
		float: ofHandoff(func(h *handoff) float64 { return h.stepMs[SourceHeld] })},
	{name: "destination_reserved_ms", doc: "Two pools: the decode worker had room.",
		float: ofHandoff(func(h *handoff) float64 { return h.stepMs[DestinationReserved] })},
	{name: "destination_activated_ms", doc: "Two pools: the KV had arrived.",
		float: ofHandoff(func(h *handoff) float64 { return h.stepMs[DestinationActivated] })},
	{name: "decode_admit_ms", doc: "Two pools: first admission by the decode worker.",
		float: ofHandoff(func(h *handoff) float64 { return h.decode.firstMs })},
	{name: "source_released_ms", doc: "Two pools: the prefill worker released the KV.",
		float: ofHandoff(func(h *handoff) float64 { return h.stepMs[SourceReleased] })},
	{name: "decode_reused_input_tokens", doc: "Two pools: prompt tokens found in the cache of the decode worker.",
		int: ofHandoffInt(func(h *handoff) int { return h.decode.reused })},
	{name: "prefill_route_overlap_tokens",
		doc: "Two pools: prompt tokens that the router took to be cached on the prefill worker.",
		int: ofHandoffInt(func(h *handoff) int { return h.prefillOverlap })},
	{name: "decode_route_overlap_tokens",
		doc: "Two pools: prompt tokens that the router took to be cached on the decode worker.",
		int: ofHandoffInt(func(h *handoff) int { return h.decodeOverlap })},
	{name: "terminal_status", doc: "How the request ended: `completed`, `rejected`, `failed`, `canceled`; null if it " +
		"had not ended.",
		text: func(_ *Rows, _ int32, r *record) string { return r.status.String() }},
	{name: "rejection_reason", doc: "Why it can never run.",
		text: func(rows *Rows, turn int32, _ *record) string { return rows.reasons[engine.RequestID(turn)] }},
	{name: "trace_row", doc: "Its line in the trace, from 0.",
		int: func(rows *Rows, turn int32, _ *record) int { return int(rows.w.Turns[turn].Row) }},
	{name: "state", doc: "Where it was when the run ended: `finished`, `running`, `waiting`, `rejected`, `failed`, " +
		"`cancelled`.",
		text: func(_ *Rows, _ int32, r *record) string { return r.lastState() }},
}

// String returns the status as rows show it, "" for a request that is not over.
func (s Status) String() string {
	return [...]string{"", "completed", "rejected", "failed", "canceled", "failed"}[s]
}

// lastState says where a request was when the run ended.
func (r *record) lastState() string {
	switch {
	case r.status == Completed:
		return "finished"
	case r.status == Canceled:
		return "cancelled"
	case r.status != unfinished:
		return r.status.String()
	case r.preempted || math.IsNaN(r.firstAdmitMs):
		return "waiting"
	}
	return "running"
}

// ifTokens returns a metric that needs a request with at least n tokens.
func (r *record) ifTokens(n int32, metric func() float64) float64 {
	if !r.counts() || r.tokens < n {
		return math.NaN()
	}
	return metric()
}

// requestUUID returns the identifier of a request, in the form of a UUID. It only numbers the requests: equal runs
// write equal files.
func requestUUID(turn int32) string {
	text := []byte("00000000-0000-4000-8000-000000000000")
	for i, n := len(text)-1, uint32(turn)+1; n > 0; i, n = i-1, n/16 {
		text[i] = "0123456789abcdef"[n%16]
	}
	return string(text)
}

// ColumnNames lists the columns of numbers with and without fraction, and of text; nil has none.
func (rows *Rows) ColumnNames() (floats, ints, texts []string) {
	if rows == nil {
		return nil, nil, nil
	}
	for _, c := range rows.columns() {
		switch {
		case c.float != nil:
			floats = append(floats, c.name)
		case c.int != nil:
			ints = append(ints, c.name)
		default:
			texts = append(texts, c.name)
		}
	}
	return floats, ints, texts
}

// Floats returns a column in row order, NaN for none; false if there is no such column.
func (rows *Rows) Floats(name string) ([]float64, bool) {
	c := rows.find(name)
	if c == nil || c.float == nil {
		return nil, false
	}
	values := make([]float64, len(rows.turns))
	for i, turn := range rows.turns {
		values[i] = c.float(rows, turn, &rows.c.records[turn])
	}
	return values, true
}

// Ints returns a column in row order, -1 for none; false if there is no such column.
func (rows *Rows) Ints(name string) ([]int64, bool) {
	c := rows.find(name)
	if c == nil || c.int == nil {
		return nil, false
	}
	values := make([]int64, len(rows.turns))
	for i, turn := range rows.turns {
		values[i] = int64(c.int(rows, turn, &rows.c.records[turn]))
	}
	return values, true
}

// Strings returns a column in row order, "" for none; false if there is no such column.
func (rows *Rows) Strings(name string) ([]string, bool) {
	c := rows.find(name)
	if c == nil || c.text == nil {
		return nil, false
	}
	values := make([]string, len(rows.turns))
	for i, turn := range rows.turns {
		values[i] = c.text(rows, turn, &rows.c.records[turn])
	}
	return values, true
}

// rankColumns are the further keys of rows of workers with several data-parallel ranks.
var rankColumns = []column{
	{name: "dp_rank", doc: "Workers with several data-parallel ranks: the rank that computed it; with two pools that " +
		"of the decode worker.",
		int: func(rows *Rows, turn int32, _ *record) int { return int(rows.c.ranks[turn]) }},
}

// prefillRankColumns are those that two pools have besides.
var prefillRankColumns = []column{
	{name: "prefill_dp_rank", doc: "Two pools: the rank of the prefill worker that computed the prompt.",
		int: func(rows *Rows, turn int32, _ *record) int { return int(rows.c.prefillRanks[turn]) }},
}

// columnsOf returns the columns of rows whose latencies were divided, or were not, in a run with faults or without, and
// those of ranks.
func columnsOf(attributed, faulty bool, ranks []column) []column {
	all := slices.Concat(columns, ranks)
	switch {
	case attributed && faulty:
		all = slices.Concat(all, partColumnsWithLost)
	case attributed:
		all = slices.Concat(all, partColumns)
	}
	if faulty {
		all = slices.Concat(all, trialColumns)
	}
	return all
}

// columns returns those of these rows.
func (rows *Rows) columns() []column {
	var ranks []column
	if rows.c.ranks != nil {
		ranks = rankColumns
	}
	if rows.c.prefillRanks != nil {
		ranks = slices.Concat(ranks, prefillRankColumns)
	}
	all := columnsOf(rows.c.attributes(), rows.c.trials != nil, ranks)
	if rows.owned {
		all = slices.Concat(all, tenantColumns)
	}
	return all
}

func (rows *Rows) find(name string) *column {
	all := rows.columns()
	if i := slices.IndexFunc(all, func(c column) bool { return c.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// WriteJSONL writes one JSON object per row.
func (rows *Rows) WriteJSONL(out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<16)
	var line []byte
	all := rows.columns()
	for _, turn := range rows.turns {
		line = rows.appendJSON(line[:0], turn, all)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (rows *Rows) appendJSON(line []byte, turn int32, all []column) []byte {
	r := &rows.c.records[turn]
	for i, c := range all {
		line = appendKey(line, c.name, i == 0)
		switch {
		case c.float != nil:
			line = AppendFloat(line, c.float(rows, turn, r))
		case c.int != nil:
			line = appendInt(line, c.int(rows, turn, r))
		default:
			line = appendText(line, c.text(rows, turn, r), c.given)
		}
	}
	return append(line, '}', '\n')
}

// AppendFloat writes x as [spelling.AppendNumber] does; NaN becomes null.
func AppendFloat(dst []byte, x float64) []byte {
	if math.IsNaN(x) {
		return append(dst, "null"...)
	}
	return spelling.AppendNumber(dst, x)
}

// appendKey begins a member of a JSON object, and the object before the first one.
func appendKey(dst []byte, key string, first bool) []byte {
	separator := byte(',')
	if first {
		separator = '{'
	}
	dst = append(dst, separator, '"')
	dst = append(dst, key...)
	return append(dst, '"', ':')
}

func appendInt(dst []byte, n int) []byte {
	if n < 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

func appendText(dst []byte, s string, given bool) []byte {
	if s == "" && !given {
		return append(dst, "null"...)
	}
	quoted, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		panic("report: a string is not valid UTF-8: " + err.Error())
	}
	return quoted
}
