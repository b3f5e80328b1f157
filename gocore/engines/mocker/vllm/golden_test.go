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
		if _, err := strconv.ParseFloat(value, 64); err != nil && value != "true" && value != "false" &&
			value != "null" {
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
				a.ids, err = enginetest.IDs(value)
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

// timeline is the readable record of one run.
type timeline struct {
	*simulation
	enginetest.Timeline
	notes *enginetest.Recorder
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
	l.notes = enginetest.NewRecorder(len(l.arrivals))
	l.plain = true
	var seen []passRecord
	for l.release() {
		pass, alive := l.runPass()
		err := l.notes.See(pass)
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
	r := enginetest.Row{Pass: s.passes, StartMs: l.nowMs, Cells: make([]string, columns)}
	r.Cells[schedule] = enginetest.Joined(l.served(before), "preempt", preempted, "admit", l.admitted(), "wait",
		l.waiting())
	active := s.pool.Active()
	scheduled := append([]*sequence(nil), s.running...)
	generated := map[*sequence]int{}
	for _, q := range scheduled {
		generated[q] = q.generated
	}
	s.emit(l.nowMs + s.prefillMs())

	r.Cells[prefill], r.Cells[decode] = "prefill -", "decode -"
	if s.prefillCount > 0 {
		r.Cells[prefill] = fmt.Sprintf("prefill %d;%d;%d", s.prefillCount, s.prefillISL, s.prefillStart)
	}
	if s.out.Tokens > 0 {
		r.Cells[decode] = fmt.Sprintf("decode %d, %dblk", len(s.ready), active)
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
	r.Cells[emission] = enginetest.Joined(strings.Join(tokens, " "), "preempt", l.preempted(scheduled), "reject",
		strings.Join(rejected, " "))
	r.EndMs = s.out.EndMs
	l.Rows = append(l.Rows, r)
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

// preempted lists those of the requests that ran which have been preempted, in order: each went to the head of the
// queue.
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

func (l *timeline) String() string {
	var b strings.Builder
	l.Write(&b)
	var names []string
	for _, a := range l.arrivals {
		names = append(names, a.name)
	}
	enginetest.WriteFates(&b, names, l.notes.Fates)
	return b.String()
}
