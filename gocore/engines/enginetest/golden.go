package enginetest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/scripttest"
)

// Examples is how the worked examples of an engine are written.
type Examples struct {
	New New
	// Args is the text of the engine arguments from those of an example, name and value.
	Args func(given [][2]string) string
	// TokensPerID is what an id of a prompt stands for; 0 is a block.
	TokensPerID int
	// Line describes a pass, behind its number, start and end; "" leaves it out.
	Line func(engine.Shape) string
}

// Golden runs testdata/*.txt. -rewrite writes the results anew.
func Golden(t *testing.T, examples Examples) {
	Run(t, func(t *testing.T, d *datadriven.TestData) string { return examples.read(t, d).timeline(t) })
}

// Run does what Golden does, for an engine that reads its examples and shows their results by itself.
func Run(t *testing.T, show func(*testing.T, *datadriven.TestData) string) {
	scripttest.RunOnly(t, "testdata", "run", show)
}

// example is an engine with named requests.
type example struct {
	Examples
	workload Workload
	names    []string
}

func (x Examples) read(t *testing.T, d *datadriven.TestData) example {
	var given [][2]string
	for _, a := range d.CmdArgs {
		given = append(given, [2]string{a.Key, a.Vals[0]})
	}
	args, warnings, err := engineargs.Parse(x.Args(given))
	if err != nil || len(warnings) > 0 {
		d.Fatalf(t, "%v %v", err, warnings)
	}
	e := example{Examples: x, workload: Workload{Args: args}}
	w := &e.workload
	perID := max(1, x.TokensPerID/args.BlockSize)
	prefixes := map[string]uint32{}
	for line := range strings.Lines(d.Input) {
		var name, ids string
		var at float64
		req := engine.Request{ID: engine.RequestID(len(e.names)), Prompt: kvcache.Prompt{PerSegment: perID}}
		if _, err := fmt.Sscanf(line, "%s at=%f prompt=%d out=%d ids=%s", &name, &at, &req.PromptTokens,
			&req.OutputTokens, &ids); err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		prefix := ""
		all, err := IDs(ids)
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		for _, id := range all {
			prefix += fmt.Sprintf("/%d", id)
			if _, known := prefixes[prefix]; !known {
				prefixes[prefix] = uint32(len(prefixes))
			}
			req.Prompt.Segments = append(req.Prompt.Segments, prefixes[prefix])
		}
		e.names, w.AtMs, w.Requests = append(e.names, name), append(w.AtMs, at), append(w.Requests, req)
	}
	return e
}

// timeline returns a line for each pass, and one for each request.
func (e example) timeline(t *testing.T) string {
	var out strings.Builder
	passes := 0
	var shapes []engine.Shape
	s := e.New(e.workload.Args, engine.Setup{Shapes: func(shape engine.Shape) { shapes = append(shapes, shape) }})
	seen := newTimes(len(e.names))
	err := e.workload.Run(s, func(p *engine.Pass) {
		seen.see(p)
		events := e.events(p)
		for _, shape := range shapes {
			text := e.Line(shape)
			if text == "" {
				continue
			}
			passes++
			if shape.PreemptedRequests > 0 {
				text += " " + e.preempts(shape)
			}
			fmt.Fprintf(&out, "%-3d %-24s %s%s\n", passes,
				fmt.Sprintf("%v..%v", number(shape.StartMs), number(shape.EndMs)), text, events)
			events = ""
		}
		if events != "" {
			out.WriteString(strings.TrimSpace(events) + "\n")
		}
		shapes = shapes[:0]
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range e.names {
		if math.IsNaN(seen.admit[i]) {
			fmt.Fprintf(&out, "%s never admitted\n", name)
			continue
		}
		fmt.Fprintf(&out, "%s admitted %v, first token %v, last %v, reused %d\n",
			name, number(seen.admit[i]), number(seen.first[i]), number(seen.last[i]), seen.reused[i])
	}
	return trailingSpace.ReplaceAllString(out.String(), "\n")
}

var trailingSpace = regexp.MustCompile(` +\n`)

func (e example) preempts(shape engine.Shape) string {
	if e.workload.Args.EngineType == engineargs.SGLang {
		return fmt.Sprintf("retracts %d", shape.PreemptedRequests)
	}
	return fmt.Sprintf("preempts %d", shape.PreemptedRequests)
}

// events names the requests that were admitted while the pass was composed, or the one after it, and those that end
// with it.
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
	for _, s := range slices.Concat(p.Started, p.Singles) {
		if s.Index == 0 {
			t.first[s.ID] = p.EndMs
		}
	}
	for _, id := range p.Finished {
		t.last[id] = p.EndMs
	}
}
