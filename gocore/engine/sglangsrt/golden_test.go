package sglangsrt

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
)

// TestGolden runs testdata/*.txt, worked examples pass by pass; see testdata/alternation.txt for how to read them.
// -rewrite writes the results anew.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd != "run" {
					d.Fatalf(t, "unknown command")
				}
				e := readExample(t, d)
				return e.timeline(t)
			})
		})
	}
}

// example is an engine with named requests.
type example struct {
	drawn
	names []string
}

// readExample reads engine arguments, "blocks" for num_gpu_blocks, those of the nested object under short names, and requests.
func readExample(t *testing.T, d *datadriven.TestData) example {
	nestedNames := map[string]string{
		"overlap": "overlap_schedule", "chunk": "chunked_prefill_size", "max_prefill": "max_prefill_tokens",
		"conservativeness": "schedule_conservativeness", "policy": "schedule_policy", "ignore_eos": "ignore_eos",
		"recv_interval": "scheduler_recv_interval",
	}
	fields, nested := []string{`"engine_type": "sglang", "scheduler": "sglang-0.5"`}, []string{}
	for _, a := range d.CmdArgs {
		if long, ok := nestedNames[a.Key]; ok {
			nested = append(nested, fmt.Sprintf("%q: %s", long, a.Vals[0]))
		} else {
			fields = append(fields, fmt.Sprintf("%q: %s", strings.Replace(a.Key, "blocks", "num_gpu_blocks", 1), a.Vals[0]))
		}
	}
	fields = append(fields, fmt.Sprintf(`"sglang": {%s}`, strings.Join(nested, ", ")))
	args, warnings, err := engineargs.Parse("{" + strings.Join(fields, ", ") + "}")
	if err != nil || len(warnings) > 0 {
		d.Fatalf(t, "%v %v", err, warnings)
	}
	e := example{drawn: drawn{args: args}}
	prefixes := map[string]uint32{}
	for line := range strings.Lines(d.Input) {
		var name, ids string
		var at float64
		req := engine.Request{ID: engine.RequestID(len(e.names)), Prompt: kvcache.Prompt{PerSegment: 16 / args.BlockSize}}
		if _, err := fmt.Sscanf(line, "%s at=%f prompt=%d out=%d ids=%s", &name, &at, &req.PromptTokens, &req.OutputTokens, &ids); err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		prefix := ""
		for _, id := range expand(ids) {
			prefix += "/" + id
			if _, known := prefixes[prefix]; !known {
				prefixes[prefix] = uint32(len(prefixes))
			}
			req.Prompt.Segments = append(req.Prompt.Segments, prefixes[prefix])
		}
		e.names, e.atMs, e.requests = append(e.names, name), append(e.atMs, at), append(e.requests, req)
	}
	return e
}

// expand turns "1..3,7" into its numbers.
func expand(ids string) (all []string) {
	for part := range strings.SplitSeq(ids, ",") {
		first, last, isRange := strings.Cut(part, "..")
		if !isRange {
			last = first
		}
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(last)
		for ; from <= to; from++ {
			all = append(all, strconv.Itoa(from))
		}
	}
	return all
}

// timeline has a line for each batch, and one for each request.
func (e example) timeline(t *testing.T) string {
	var out strings.Builder
	passes := 0
	var shapes []engine.Shape
	s := New(e.args, engine.Setup{Shapes: func(shape engine.Shape) { shapes = append(shapes, shape) }})
	told := newTimes(len(e.names))
	err := e.run(s, func(p *engine.Pass) {
		told.see(p)
		for _, shape := range shapes {
			passes++
			what := fmt.Sprintf("decode  %d;%d", shape.DecodeRequests, shape.ContextSum)
			if shape.PrefillRequests > 0 {
				what = fmt.Sprintf("prefill %d;%d;%d", shape.PrefillRequests, shape.ISLSum, shape.PrefixSum)
			}
			fmt.Fprintf(&out, "%-3d %-24s %-16s in use %-4d", passes, fmt.Sprintf("%v..%v", number(shape.StartMs), number(shape.EndMs)), what, shape.InUse)
			if shape.PreemptedRequests > 0 {
				fmt.Fprintf(&out, " retracts %d", shape.PreemptedRequests)
			}
		}
		out.WriteString(e.events(p))
		out.WriteString("\n")
		shapes = shapes[:0]
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range e.names {
		if math.IsNaN(told.admit[i]) {
			fmt.Fprintf(&out, "%s never admitted\n", name)
			continue
		}
		fmt.Fprintf(&out, "%s admitted %v, first token %v, last %v, reused %d\n", name, number(told.admit[i]), number(told.first[i]), number(told.last[i]), told.reused[i])
	}
	return trailingSpace.ReplaceAllString(out.String(), "\n")
}

var trailingSpace = regexp.MustCompile(` +\n`)

// events names the requests that were admitted while the pass was composed, or the one after it, and those that end with it.
func (e example) events(p *engine.Pass) string {
	var b strings.Builder
	for _, a := range p.Admitted {
		fmt.Fprintf(&b, " +%s", e.names[a.ID])
		if a.ReusedTokens > 0 {
			fmt.Fprintf(&b, "(%d cached)", a.ReusedTokens)
		}
	}
	for _, id := range p.Finished {
		fmt.Fprintf(&b, " %s.", e.names[id])
	}
	for _, r := range p.Rejected {
		fmt.Fprintf(&b, " rejects %s: %s", e.names[r.ID], r.Reason)
	}
	return b.String()
}

func number(ms float64) float64 { return math.Round(ms*1e6) / 1e6 }

// times is what is known of each request.
type times struct {
	admit, first, last []float64
	reused             []int
}

func newTimes(requests int) *times {
	t := &times{make([]float64, requests), make([]float64, requests), make([]float64, requests), make([]int, requests)}
	for i := range t.admit {
		t.admit[i] = math.NaN()
	}
	return t
}

func (t *times) see(p *engine.Pass) {
	for _, a := range p.Admitted {
		if math.IsNaN(t.admit[a.ID]) {
			t.admit[a.ID], t.reused[a.ID] = p.StartMs, a.ReusedTokens
		}
	}
	for _, s := range p.Started {
		if s.Index == 0 {
			t.first[s.ID] = p.EndMs
		}
	}
	for _, id := range p.Finished {
		t.last[id] = p.EndMs
	}
}
