package workload

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Conversion summarises a converted recording.
type Conversion struct {
	Rows           int
	TraceBlockSize int
	Tools          ToolSummary
}

// ToolSummary counts the tool calls of a recording.
type ToolSummary struct {
	Spans        int
	Sessions     int // that called tools
	ByStatus     []Count
	ByClass      []Count
	TotalSeconds float64
}

// Count is how often something occurs.
type Count struct {
	Name  string
	Count int
}

// ConvertDynamo writes a dynamo trace as Mooncake JSONL: one row a request, in order of time. With agentic the rows are
// those of agentic_mooncake, for which every request must belong to a session. poll, if not nil, is called now and
// then; an error it returns ends the conversion and is passed on.
func ConvertDynamo(out io.Writer, sources []Source, agentic bool, poll func() error) (Conversion, error) {
	rec, err := readRecording(sources, poll)
	if err != nil {
		return Conversion{}, err
	}
	if agentic {
		if all, err := rec.context(sources); err != nil || !all {
			if err == nil {
				err = fmt.Errorf("%s: no request has an agent_context, which an agentic trace needs",
					sourceNames(sources))
			}
			return Conversion{}, err
		}
	}
	rows, err := rec.lower(agentic)
	if err != nil {
		return Conversion{}, fmt.Errorf("%s: %w", sourceNames(sources), err)
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	var line jsonLine
	for i := range rows {
		rows[i].append(&line, rows, agentic)
		if err := line.flush(buffered); err != nil {
			return Conversion{}, err
		}
	}
	return Conversion{Rows: len(rows), TraceBlockSize: rec.blockSize, Tools: rec.summary()}, buffered.Flush()
}

// append writes the row, without what is absent or empty.
func (r *lowered) append(line *jsonLine, rows []lowered, agentic bool) {
	if agentic {
		line.text("request_id", r.call.id)
		line.text("session_id", r.call.session)
	}
	line.integer("input_length", int64(r.call.inputLength))
	line.integer("output_length", int64(r.call.outputTokens))
	unsignedsOf(line, "hash_ids", r.call.hashIDs)
	line.number("timestamp", r.timestampMs)
	if !agentic {
		return
	}
	if len(r.waitFor) > 0 {
		line.number("delay", r.delayMs)
	}
	line.text("request_kind", r.kind)
	if len(r.waitFor) > 0 {
		line.list("wait_for", len(r.waitFor), func(i int) { *line = appendQuoted(*line, rows[r.waitFor[i]].call.id) })
	}
	if len(r.branches) > 0 {
		line.texts("branches", r.branches)
	}
	if r.reset {
		line.key("prefix_reset")
		*line = append(*line, "true"...)
	}
	if r.toolWaitMs > 0 {
		line.number("tool_wait_ms", r.toolWaitMs)
	}
	if len(r.tools) > 0 {
		line.list("tool_events", len(r.tools), func(i int) { *line = r.tools[i].append(*line) })
	}
}

func (t *toolCall) append(dst []byte) []byte {
	var line jsonLine
	line.text("tool_call_id", t.id)
	line.text("tool_class", t.class)
	line.integer("started_at_unix_ms", int64(t.startMs))
	line.integer("ended_at_unix_ms", int64(t.endMs))
	line.number("duration_ms", t.durationMs)
	line.text("status", t.status)
	if t.given&toolOutputBytes != 0 {
		line.integer("output_bytes", int64(t.outputBytes))
	}
	if t.given&toolOutputTokens != 0 {
		line.integer("output_tokens", int64(t.outputTokens))
	}
	if t.given&toolErrorType != 0 {
		line.text("error_type", t.errorType)
	}
	return append(append(dst, line...), '}')
}

func (rec *recording) summary() ToolSummary {
	s := ToolSummary{Spans: len(rec.tools)}
	sessions, statuses, classes := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range rec.tools {
		tool := &rec.tools[i]
		sessions[tool.session]++
		statuses[tool.status]++
		classes[tool.class]++
		s.TotalSeconds += tool.durationMs / 1000
	}
	s.Sessions, s.ByStatus, s.ByClass = len(sessions), counts(statuses), counts(classes)
	return s
}

// counts lists the counts, the largest first.
func counts(of map[string]int) []Count {
	var all []Count
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, Count{Name: name, Count: of[name]})
	}
	slices.SortStableFunc(all, func(a, b Count) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// String describes the conversion in one to four lines, without the path of the output.
func (c Conversion) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rows: %d\ntrace block size: %d\n", c.Rows, c.TraceBlockSize)
	if c.Tools.Spans > 0 {
		fmt.Fprintf(&b, "tool calls: %d, %.2f s in all, sessions with tool calls: %d\n", c.Tools.Spans,
			c.Tools.TotalSeconds, c.Tools.Sessions)
		fmt.Fprintf(&b, "tool calls by status: %s; by class: %s\n", list(c.Tools.ByStatus), list(c.Tools.ByClass))
	}
	return b.String()
}

func list(all []Count) string {
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = fmt.Sprintf("%s %d", c.Name, c.Count)
	}
	return strings.Join(parts, ", ")
}
