package vllm

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestGolden runs testdata/*.txt, worked examples pass by pass; see testdata/one_request.txt for how to read them.
// -rewrite writes the results anew.
func TestGolden(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, d *datadriven.TestData) string {
		args, workload := parseExample(t, d)
		return newTimeline(t, args, workload).String()
	})
}

// parseExample reads engine arguments, under the names users write but "blocks" for num_gpu_blocks, and requests.
func parseExample(t *testing.T, d *datadriven.TestData) (engineargs.Args, []arrival) {
	var fields []string
	for _, a := range d.CmdArgs {
		key, value := a.Key, a.Vals[0]
		if key == "blocks" {
			key = "num_gpu_blocks"
		}
		if _, err := strconv.ParseFloat(value, 64); err != nil && value != "true" && value != "false" && value != "null" {
			value = strconv.Quote(value)
		}
		fields = append(fields, fmt.Sprintf("%q: %s", key, value))
	}
	args, _, err := engineargs.Parse("{" + strings.Join(fields, ", ") + "}")
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	var workload []arrival
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		a := arrival{name: words[0]}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			var err error
			switch key {
			case "at":
				a.atMs, err = strconv.ParseFloat(value, 64)
			case "prompt":
				a.prompt, err = strconv.Atoi(value)
			case "out":
				a.output, err = strconv.Atoi(value)
			case "ids":
				a.ids, err = parseIDs(value)
			default:
				err = fmt.Errorf("unknown key")
			}
			if err != nil {
				d.Fatalf(t, "%s: %v", word, err)
			}
		}
		workload = append(workload, a)
	}
	return args, workload
}

// parseIDs reads "1..5" and "1,2,7".
func parseIDs(text string) (ids []uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "..")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 64)
		if err != nil {
			return nil, err
		}
		to, err := strconv.ParseUint(last, 10, 64)
		if err != nil {
			return nil, err
		}
		for ; from <= to; from++ {
			ids = append(ids, from)
		}
	}
	return ids, nil
}

// timeline is the readable record of one run.
type timeline struct {
	*simulation
	rows  []row
	notes *recorder
}

type row struct {
	pass           int
	startMs, endMs float64
	cells          [columns]string
}

const (
	schedule = iota
	prefill
	decode
	emission
	columns
)

// newTimeline runs a workload with a look between scheduling and emission, and makes sure that nothing differs in a run
// without such looks, with or without shortcuts.
func newTimeline(t *testing.T, args engineargs.Args, workload []arrival) *timeline {
	l := &timeline{simulation: newSimulation(args, workload)}
	l.notes = newRecorder(len(l.arrivals))
	l.plain = true
	var seen []passRecord
	for l.release() {
		pass, alive := l.runPass()
		err := l.notes.see(pass)
		if !alive || len(seen) == 100_000 {
			err = errors.New("no end in sight")
		}
		if err != nil {
			t.Fatalf("pass %d at %v ms: %v", len(seen)+1, l.nowMs, err)
		}
		seen = append(seen, record(l.s, pass))
		l.nowMs = pass.EndMs
	}
	for _, plain := range []bool{true, false} {
		if err := sameRun(args, engine.Setup{}, workload, plain, seen); err != nil {
			t.Errorf("again, plain %t: %v", plain, err)
		}
	}
	return l
}

// sameRun repeats a run and compares all passes.
func sameRun(args engineargs.Args, setup engine.Setup, workload []arrival, plain bool, want []passRecord) error {
	m := newSimulationWith(args, setup, workload)
	m.plain = plain
	passes := 0
	err := m.run(func(p *engine.Pass) error {
		got := record(m.s, p)
		if passes == len(want) {
			return fmt.Errorf("pass %d is one too many: %+v", passes+1, got)
		}
		if !reflect.DeepEqual(got, want[passes]) {
			return fmt.Errorf("pass %d differs\n got %+v\nwant %+v", passes+1, got, want[passes])
		}
		passes++
		return nil
	})
	if err == nil && passes < len(want) {
		err = fmt.Errorf("got %d passes, want %d", passes, len(want))
	}
	return err
}

// runPass does what Scheduler.RunPass does, and writes down what it sees.
func (l *timeline) runPass() (pass *engine.Pass, alive bool) {
	s := l.s
	before := append([]*sequence(nil), s.running...)
	s.begin(l.nowMs)
	s.serveRunning()
	preempted := l.preempted(before)
	s.admitWaiting()
	r := row{pass: s.passes, startMs: l.nowMs}
	r.cells[schedule] = joined(l.served(before), "preempt", preempted, "admit", l.admitted(), "wait", l.waiting())
	active := s.pool.Active()
	scheduled := append([]*sequence(nil), s.running...)
	generated := map[*sequence]int{}
	for _, q := range scheduled {
		generated[q] = q.generated
	}
	s.emit(l.nowMs + s.prefillMs())

	r.cells[prefill], r.cells[decode] = "prefill -", "decode -"
	if s.prefillCount > 0 {
		r.cells[prefill] = fmt.Sprintf("prefill %d;%d;%d", s.prefillCount, s.prefillISL, s.prefillStart)
	}
	if s.out.Tokens > 0 {
		r.cells[decode] = fmt.Sprintf("decode %d, %dblk", len(s.ready), active)
	}
	var tokens []string
	for _, q := range s.ready {
		if q.generated > generated[q] {
			text := fmt.Sprintf("%s%d", l.name(q), q.generated)
			if q.generated == q.maxOutput {
				text += "."
			}
			tokens = append(tokens, text)
		}
	}
	var rejected []string
	for _, reject := range s.out.Rejected {
		rejected = append(rejected, l.arrivals[reject.ID].name)
	}
	r.cells[emission] = joined(strings.Join(tokens, " "), "preempt", l.preempted(scheduled), "reject", strings.Join(rejected, " "))
	r.endMs = s.out.EndMs
	l.rows = append(l.rows, r)
	return &s.out, s.watchForStall()
}

func (l *timeline) name(q *sequence) string { return l.arrivals[q.id].name }

// served lists the requests among before that were given tokens, as in "A+1 B+16".
func (l *timeline) served(before []*sequence) string {
	var parts []string
	for _, q := range before {
		if q.share.pass == l.s.passes {
			parts = append(parts, fmt.Sprintf("%s+%d", l.name(q), q.share.tokens))
		}
	}
	if parts == nil {
		return ""
	}
	return "run " + strings.Join(parts, " ")
}

// admitted lists the requests admitted in this pass, as in "A+16 B+8(32 cached)".
func (l *timeline) admitted() string {
	var parts []string
	for _, a := range l.s.out.Admitted {
		for _, q := range l.s.running {
			if q.id != a.ID {
				continue
			}
			text := fmt.Sprintf("%s+%d", l.name(q), q.share.tokens)
			if a.ReusedTokens > 0 {
				text += fmt.Sprintf("(%d cached)", a.ReusedTokens)
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}

// waiting lists the queue from its head.
func (l *timeline) waiting() string {
	var names []string
	for i := range l.s.waiting.Len() {
		names = append(names, l.name(l.s.waiting.At(i)))
	}
	return strings.Join(names, " ")
}

// preempted lists those of the requests that ran which have been preempted, in order: each went to the head of the queue.
func (l *timeline) preempted(ran []*sequence) string {
	count := 0
	for _, q := range ran {
		if q.status == preempted {
			count++
		}
	}
	var names []string
	for i := count - 1; i >= 0; i-- {
		names = append(names, l.name(l.s.waiting.At(i)))
	}
	return strings.Join(names, " ")
}

// joined appends to text each pair of a word and what it says, unless that is empty.
func joined(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if text != "" {
			text += "  "
		}
		text += pairs[i] + " " + pairs[i+1]
	}
	return text
}

func (l *timeline) String() string {
	var b strings.Builder
	l.writePasses(&b)
	width := 0
	for _, a := range l.arrivals {
		width = max(width, len(a.name))
	}
	for i, a := range l.arrivals {
		o := l.notes.fates[i]
		fmt.Fprintf(&b, "%-*s  ", width, a.name)
		if o.Reused != nil {
			fmt.Fprintf(&b, "admit=%s reused=%s", ms(o.AdmitMs), repeats(o.Reused))
		}
		switch {
		case o.Rejected != "":
			fmt.Fprintf(&b, " rejected: %s\n", o.Rejected)
		case o.Finished:
			fmt.Fprintf(&b, " first=%s last=%s\n", ms(o.TokenMs[0]), ms(o.TokenMs[len(o.TokenMs)-1]))
		}
	}
	return strings.ReplaceAll(b.String(), "   rejected", "  rejected")
}

// writePasses aligns the columns and says once what repeats many times.
func (l *timeline) writePasses(b *strings.Builder) {
	texts := make([][]string, len(l.rows))
	var widths []int
	for i, r := range l.rows {
		texts[i] = []string{
			fmt.Sprintf("pass %d", r.pass), "t=" + ms(r.startMs),
			r.cells[schedule], r.cells[prefill], r.cells[decode], "end=" + ms(r.endMs), r.cells[emission],
		}
	}
	var shown []string
	for i := 0; i < len(l.rows); {
		period, times := l.cycle(i)
		if times < 4 {
			shown = append(shown, "")
			widths = widen(widths, texts[i])
			i++
			continue
		}
		for range period {
			shown = append(shown, "")
			widths = widen(widths, texts[i])
			i++
		}
		more := (times - 1) * period
		last := l.rows[i+more-1]
		shown = append(shown, fmt.Sprintf("... %s more passes that repeat the %d above, to t=%s", grouped(more), period, ms(last.endMs)))
		for range more {
			texts[i] = nil
			i++
		}
	}
	i := 0
	for _, summary := range shown {
		if summary != "" {
			b.WriteString(summary + "\n")
			for i < len(texts) && texts[i] == nil {
				i++
			}
			continue
		}
		var line strings.Builder
		for column, text := range texts[i] {
			fmt.Fprintf(&line, "%-*s  ", widths[column], text)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		i++
	}
}

func widen(widths []int, texts []string) []int {
	if widths == nil {
		widths = make([]int, len(texts))
	}
	for i, text := range texts {
		widths[i] = max(widths[i], len(text))
	}
	return widths
}

// cycle finds the shortest group of rows from row i on that repeats, times aside, and how often it stands there in a row.
func (l *timeline) cycle(i int) (period, times int) {
	for period = 1; period <= 16; period++ {
		end := i + period
		for end < len(l.rows) && l.rows[end].cells == l.rows[end-period].cells {
			end++
		}
		if times = (end - i) / period; times >= 4 {
			return period, times
		}
	}
	return 1, 1
}

// repeats prints 0 8 16 16 16 as 0,8,16*3.
func repeats(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end < len(numbers) && numbers[end] == numbers[i] {
			end++
		}
		text := strconv.Itoa(numbers[i])
		if end-i > 1 {
			text += "*" + strconv.Itoa(end-i)
		}
		parts = append(parts, text)
		i = end
	}
	return strings.Join(parts, ",")
}

// ms prints a time so that no two differ in print only.
func ms(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// grouped prints 9998 as 9,998.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
