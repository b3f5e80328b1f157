package faults

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"dynosim/gocore/strictjson"
)

// Layout is what a script has to fit: the workers of a deployment when the run begins.
type Layout struct {
	TwoPools        bool
	Prefill, Decode int  // workers; those of one pool are Decode
	Grows           bool // more workers may come
}

// maxFaults bounds a script.
const maxFaults = 100_000

// Parse reads a script: one JSON object per line, or a JSON list of objects. Empty lines and lines that begin with #
// are skipped. Errors name the line, or the number of the fault in a list, and the key.
func Parse(text string, l Layout) ([]Fault, error) {
	parts, unit, err := split(text)
	if err != nil {
		return nil, err
	}
	found := []Fault{}
	for _, p := range parts {
		f, err := parse(p.text, l)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", unit, p.number, err)
		}
		if found = append(found, f); len(found) > maxFaults {
			return nil, fmt.Errorf("got more than %d faults, want fewer; mtbf_s repeats one", maxFaults)
		}
	}
	return found, nil
}

// part is one object of a script, and its line or its place in the list.
type part struct {
	number int
	text   string
}

func split(text string) (parts []part, unit string, err error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, "", fmt.Errorf("not a JSON list of objects: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		for i, object := range list {
			parts = append(parts, part{i + 1, string(object)})
		}
		return parts, "fault", nil
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			parts = append(parts, part{number, line})
		}
	}
	return parts, "line", nil
}

// largestMs is a bound on times, about 30,000 years.
const largestMs = 1e15

// ShortestMTBFMs is a bound on the mean time between faults. With a far shorter one, crashes that end at once follow
// each other without simulated time passing, and a run would never end.
const ShortestMTBFMs = 1

var fields = []strictjson.Field{
	{Name: "kind", Type: strictjson.Enum{Choices: kindNames()}, Required: true},
	{Name: "target", Type: strictjson.Text{NonEmpty: true}},
	{Name: "at_ms", Type: strictjson.Number{Max: largestMs}},
	{Name: "mtbf_s", Type: strictjson.Number{Min: ShortestMTBFMs / 1000.0, Max: largestMs / 1000}},
	{Name: "duration_ms", Type: strictjson.Number{Max: largestMs}},
	{Name: "mttr_s", Type: strictjson.Number{MinOpen: true, Max: largestMs / 1000}},
	{Name: "factor", Type: strictjson.Number{Min: 0.001, Max: 1e6}, Default: 1.0},
	{Name: "detection_ms", Type: strictjson.Number{Max: largestMs}},
	{Name: "delay_ms", Type: strictjson.Number{Max: largestMs}},
	{Name: "drain", Type: strictjson.Bool{}},
}

func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k.kind))
	}
	return names
}

// parse reads one fault.
func parse(text string, l Layout) (Fault, error) {
	o, err := strictjson.Decode(text, strictjson.Schema{Fields: fields})
	if err != nil {
		return Fault{}, err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return Fault{}, err
	}
	f := Fault{Kind: Kind(o.Text("kind")), Factor: o.Float("factor"), Drain: o.Bool("drain"),
		DurationMs: math.Inf(1), DetectionMs: math.NaN(), DelayMs: math.Inf(1)}
	if err := f.checkKeys(o); err != nil {
		return f, err
	}
	f.AtMs, f.MTBFMs, f.MTTRMs = o.Float("at_ms"), o.Float("mtbf_s")*1000, o.Float("mttr_s")*1000
	for name, to := range map[string]*float64{"duration_ms": &f.DurationMs, "detection_ms": &f.DetectionMs,
		"delay_ms": &f.DelayMs} {
		if o.Given(name) {
			*to = o.Float(name)
		}
	}
	if f.Kind == Restart && !o.Given("duration_ms") {
		f.DurationMs = 0
	}
	f.Target, err = parseTarget(o, f.Kind, l)
	return f, err
}

// checkKeys refuses keys that the kind does not have, and combinations that say nothing.
func (f *Fault) checkKeys(o *strictjson.Object) error {
	row := kinds[slices.IndexFunc(kinds, func(k row) bool { return k.kind == f.Kind })]
	for _, name := range []string{"duration_ms", "mttr_s", "factor", "detection_ms", "delay_ms", "drain"} {
		if o.Given(name) && !slices.Contains(row.keys, name) {
			return &strictjson.FieldError{Field: name, Got: o.Shown(name),
				Want: fmt.Sprintf("it left out with kind %s, which takes %s", f.Kind, strings.Join(row.keys, ", "))}
		}
	}
	switch {
	case o.Given("at_ms") == o.Given("mtbf_s"):
		got := "nothing"
		if o.Given("at_ms") {
			got = o.Shown("at_ms") + " together with mtbf_s"
		}
		return &strictjson.FieldError{Field: "at_ms", Got: got,
			Want: "either at_ms, the time, or mtbf_s, the mean time between faults in seconds"}
	case o.Given("duration_ms") && o.Given("mttr_s"):
		return &strictjson.FieldError{Field: "mttr_s", Got: o.Shown("mttr_s"),
			Want: "it left out with duration_ms: it is the mean of a duration that is drawn"}
	case o.Given("mtbf_s") && !o.Given("duration_ms") && !o.Given("mttr_s") && f.Kind != Crash && f.Kind != Restart:
		return &strictjson.FieldError{Field: "duration_ms", Got: "nothing",
			Want: fmt.Sprintf("it, or mttr_s, with mtbf_s and kind %s: a fault that happens again has to end", f.Kind)}
	case slices.Contains(row.keys, "factor") && !o.Given("factor"):
		return &strictjson.FieldError{Field: "factor", Got: "nothing",
			Want: fmt.Sprintf("how many times as long things take with kind %s", f.Kind)}
	case f.OfWorkers() && !o.Given("target"): // of others everything is the target then
		return &strictjson.FieldError{Field: "target", Got: "nothing", Want: targetForms}
	}
	return nil
}

const targetForms = `"worker:3" or "worker:*" with one pool, "prefill:0" or "decode:*" with two, or "random:1"`

// parseTarget reads the workers that a fault hits.
func parseTarget(o *strictjson.Object, kind Kind, l Layout) (Target, error) {
	wrong := func(want string) error {
		return &strictjson.FieldError{Field: "target", Got: o.Shown("target"), Want: want}
	}
	text := o.Text("target")
	if (&Fault{Kind: kind}).Links() && !l.TwoPools {
		return Target{}, &strictjson.FieldError{Field: "kind", Got: string(kind),
			Want: "another one in a run with one pool, which has no link between pools"}
	}
	if text == "" || text == "*" {
		return Target{}, nil
	}
	pool, which, _ := strings.Cut(text, ":")
	t := Target{Pool: Pool(pool)}
	if pool == "random" {
		t.Pool, which = AnyPool, text
	}
	switch {
	case t.Pool == AnyPool:
	case l.TwoPools && t.Pool != Prefill && t.Pool != Decode:
		return t, wrong(`"prefill:0", "decode:*", "random:1" or the like in a run with two pools`)
	case !l.TwoPools && t.Pool != Workers:
		return t, wrong(`"worker:3", "worker:*", "random:1" or the like in a run with one pool`)
	}
	if which == "*" {
		return t, nil
	}
	number, random := strings.CutPrefix(which, "random:")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || random && n == 0 || number != strconv.Itoa(n) {
		return t, wrong(targetForms)
	}
	if random {
		t.Random = n
		return t, nil
	}
	if workers := l.workers(t.Pool); n >= workers && !l.Grows {
		return t, wrong(fmt.Sprintf("%s:0 to %s:%d, as there are %d workers", pool, pool, workers-1, workers))
	}
	t.One, t.Place = true, n
	return t, nil
}

func (l Layout) workers(p Pool) int {
	if p == Prefill {
		return l.Prefill
	}
	return l.Decode
}
