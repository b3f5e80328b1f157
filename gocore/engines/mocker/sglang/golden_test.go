package sglang

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
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
		args, w := parseExample(t, d)
		return newTimeline(t, args, w).String()
	})
}

// parseExample reads engine arguments, under the names users write but "blocks" for num_gpu_blocks and without the
// nesting of those that are SGLang's own, the number of tokens of an id, "tokens_per_id", and requests.
func parseExample(t *testing.T, d *datadriven.TestData) (engineargs.Args, workload) {
	own := []string{
		"schedule_policy", "max_prefill_tokens", "chunked_prefill_size", "clip_max_new_tokens",
		"schedule_conservativeness",
		"reference_quirks",
	}
	w := workload{traceBlock: 1}
	fields, nested := []string{`"engine_type": "sglang"`}, []string(nil)
	for _, a := range d.CmdArgs {
		key, value := a.Key, a.Vals[0]
		switch key {
		case "blocks":
			key = "num_gpu_blocks"
		case "tokens_per_id":
			w.traceBlock, _ = strconv.Atoi(value)
			continue
		}
		if _, err := strconv.ParseFloat(value, 64); err != nil && value != "true" && value != "false" &&
			value != "null" {
			value = strconv.Quote(value)
		}
		text := fmt.Sprintf("%q: %s", key, value)
		if slices.Contains(own, key) {
			nested = append(nested, text)
		} else {
			fields = append(fields, text)
		}
	}
	fields = append(fields, `"sglang": {`+strings.Join(nested, ", ")+"}")
	args, _, err := engineargs.Parse("{" + strings.Join(fields, ", ") + "}")
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		a := arrival{name: words[0]}
		for _, word := range words[1:] {
			if err := a.set(word); err != nil {
				d.Fatalf(t, "%s: %v", word, err)
			}
		}
		if a.prompt == 0 {
			a.prompt = len(a.ids) * w.traceBlock
		}
		w.arrivals = append(w.arrivals, a)
	}
	return args, w
}

func (a *arrival) set(word string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "at":
		a.atMs, err = strconv.ParseFloat(value, 64)
	case "prompt":
		a.prompt, err = strconv.Atoi(value)
	case "out":
		a.output, err = strconv.Atoi(value)
	case "ids":
		a.ids, err = enginetest.IDs(value)
	case "reply":
		a.reply, err = enginetest.IDs(value)
	default:
		err = errors.New("unknown key")
	}
	return err
}

// timeline is the readable record of one run.
type timeline struct {
	*simulation
	enginetest.Timeline
	notes *enginetest.Recorder
	end   string // if it is a dead end
}

const (
	schedule = iota
	prefill
	decode
	pool
	emission
	columns
)

// newTimeline runs a workload with a look between the phases of each pass, and makes sure that nothing differs in a run
// without such looks, or with a record of events.
func newTimeline(t *testing.T, args engineargs.Args, w workload) *timeline {
	l := &timeline{simulation: newSimulation(args, w)}
	l.notes = enginetest.NewRecorder(len(l.requests))
	l.plain = true
	var seen []engine.Pass
	for l.release() {
		unblocks := l.unblocks
		pass, err := l.step(l.runPass)
		if err != nil {
			l.end = err.Error()
			break
		}
		if l.unblocks > unblocks {
			l.Rows = append(l.Rows, enginetest.Row{Cells: []string{"unblock: " + l.poolCell()}})
		}
		if err = l.notes.See(pass); err == nil && len(seen) == 100_000 {
			err = errors.New("no end in sight")
		}
		if err != nil {
			t.Fatalf("pass %d at %v ms: %v", len(seen)+1, l.nowMs, err)
		}
		seen = append(seen, enginetest.CopyPass(pass))
	}
	for _, variant := range []string{"plain", "lazy", "recording"} {
		if err := sameRun(args, w, variant, seen); err != nil {
			t.Errorf("again, %s: %v", variant, err)
		}
	}
	return l
}

// sameRun repeats a run and compares all passes.
func sameRun(args engineargs.Args, w workload, variant string, want []engine.Pass) error {
	m := newSimulation(args, w)
	m.plain = variant == "plain"
	if variant == "recording" {
		m.s.Observe()
	}
	for i := range want {
		m.release()
		pass, err := m.step(m.s.RunPass)
		if err != nil {
			return err
		}
		if got := enginetest.CopyPass(pass); !reflect.DeepEqual(got, want[i]) {
			return fmt.Errorf("pass %d differs\n got %+v\nwant %+v", i+1, got, want[i])
		}
	}
	return nil
}

// runPass does what Scheduler.RunPass does.
func (l *timeline) runPass(nowMs float64) (pass *engine.Pass, alive bool) {
	l.pass(nowMs)
	for l.s.out.Idle() && l.s.ratioMayHelp() {
		l.pass(nowMs)
	}
	return &l.s.out, !l.s.out.Idle()
}

// pass does what Scheduler.pass does, and writes down what it sees.
func (l *timeline) pass(nowMs float64) {
	s := l.s
	s.begin(nowMs)
	s.orderQueue()
	s.admitWaiting()
	r := enginetest.Row{Pass: len(l.Rows) + 1, StartMs: nowMs, Cells: make([]string, columns)}
	r.Cells[schedule] = enginetest.Joined("", "admit", l.admitted(), "wait", l.waiting())
	before := slices.Clone(s.running)
	s.out.EndMs = nowMs + float64(s.clock.PrefillSeconds(s.prefillCount, s.prefillEnds, s.prefillStarts)*1000)
	emissions := s.emissions
	var tokens []string
	context := l.context()
	s.decode()
	r.Cells[prefill], r.Cells[decode] = "prefill -", "decode -"
	if s.prefillCount > 0 {
		r.Cells[prefill] = fmt.Sprintf("prefill %d;%d;%d", s.prefillCount, s.prefillEnds, s.prefillStarts)
	}
	for _, q := range s.retracted {
		context -= q.promptTokens + q.generated
	}
	if s.emissions > emissions {
		before = slices.DeleteFunc(before, func(q *sequence) bool { return q.status == retracted })
		r.Cells[decode] = fmt.Sprintf("decode %d;%d", len(before), context)
		for _, q := range before {
			tokens = append(tokens, l.emitted(q))
		}
	}
	var gone, rejected []string
	for _, q := range s.retracted {
		gone = append(gone, l.name(q))
	}
	for _, reject := range s.out.Rejected {
		rejected = append(rejected, l.workload.arrivals[reject.ID].name)
	}
	r.Cells[emission] = enginetest.Joined("", "retract", strings.Join(gone, " "), "", strings.Join(tokens, " "),
		"reject", strings.Join(rejected, " "))
	s.requeueRetracted()
	s.catchUpAll()
	r.Cells[pool] = l.poolCell()
	r.EndMs = s.out.EndMs
	l.Rows = append(l.Rows, r)
}

// emitted says which tokens a sequence has got in this pass.
func (l *timeline) emitted(q *sequence) string {
	last := l.s.generated(q)
	text := fmt.Sprintf("%s%d", l.name(q), last)
	for _, b := range l.s.out.Bursts {
		if b.ID == q.id {
			text = fmt.Sprintf("%s%d..%d", l.name(q), last-b.Tokens+1, last)
		}
	}
	if q.finishAt == l.s.emissions {
		text += "."
	}
	return text
}

func (l *timeline) name(q *sequence) string { return l.workload.arrivals[q.id].name }

// context adds up the lengths of the running sequences.
func (l *timeline) context() (tokens int) {
	for _, q := range l.s.running {
		tokens += l.s.tokens(q)
	}
	return tokens
}

// poolCell returns free/evictable/protected, and what is wrong with the accounts.
func (l *timeline) poolCell() string {
	p := l.s.pool
	text := fmt.Sprintf("%d/%d/%d", p.Free(), p.Evictable(), p.Protected())
	if leaked := p.Leaked(); leaked > 0 {
		text += fmt.Sprintf(" leaked %d", leaked)
	}
	if over := p.OverReturned(); over > 0 {
		text += fmt.Sprintf(" over %d", over)
	}
	return text
}

// admitted lists the requests admitted in this pass, as in "A+16 B+8(32 reused)".
func (l *timeline) admitted() string {
	var parts []string
	for _, a := range l.s.out.Admitted {
		for _, q := range l.s.owned() {
			if q.id != a.ID {
				continue
			}
			text := fmt.Sprintf("%s+%d", l.name(q), q.holding.Tokens()-a.ReusedTokens)
			if a.ReusedTokens > 0 {
				text += fmt.Sprintf("(%d reused)", a.ReusedTokens)
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

func (l *timeline) String() string {
	var b strings.Builder
	l.Write(&b)
	var names []string
	for _, a := range l.workload.arrivals {
		names = append(names, a.name)
	}
	enginetest.WriteFates(&b, names, l.notes.Fates)
	if l.end != "" {
		b.WriteString(l.end + "\n")
	}
	return b.String()
}
