package traffic

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"

	"dynosim/gocore/workload/tracefile"
)

// client is one client of ServeGen.
type client struct {
	name           string
	trace, dataset Source
	file           int32 // the number of trace among all files
	windows        []window
	periods        []period
}

// window is a span of time in which requests arrive in one way.
type window struct {
	startS, lengthS float64
	rate            float64 // requests per second
	process         process
}

type process struct {
	distribution string
	cv           float64
}

// period is a span of time with the same distributions of lengths. The prompt is text and what the parts of other kinds
// add, the answer all that is generated.
type period struct {
	startS float64
	prompt pdf
	parts  []part
	output pdf
	empty  bool // there are no lengths
}

// part is images, sounds or films: how many a prompt has, and the tokens of each.
type part struct{ count, tokens pdf }

// pdf is a distribution of whole numbers.
type pdf struct {
	values     []int64
	cumulative []float64
}

// Bounds of the distributions.
const (
	minCV, maxCV   = 0.01, 100
	maxRate        = 1e6
	defaultWindowS = 600
	maxParts       = 1000
	maxTraceS      = 1e8
)

func (c *client) read(into *collector) error {
	if err := c.readWindows(); err != nil {
		return err
	}
	return c.readPeriods(into)
}

// readWindows reads NAME-trace.csv: start, rate, coefficient of variation, distribution and its two parameters, which
// say the same again. A window ends where the next one begins.
func (c *client) readWindows() error {
	t, err := tracefile.OpenRows(c.trace.Name, c.trace.Reader)
	if err != nil {
		return err
	}
	for {
		more, err := t.Next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		w, err := readWindow(t)
		if err != nil {
			return err
		}
		if last := len(c.windows) - 1; last >= 0 {
			if c.windows[last].lengthS = w.startS - c.windows[last].startS; c.windows[last].lengthS <= 0 {
				return t.Fault(0, "a time after that of the row before")
			}
			w.lengthS = c.windows[last].lengthS
		}
		c.windows = append(c.windows, w)
	}
	if len(c.windows) == 0 {
		return fmt.Errorf("%s: is empty, want rows of start,rate,cv,distribution and its parameters", c.trace.Name)
	}
	return nil
}

func readWindow(t *tracefile.Table) (window, error) {
	w := window{lengthS: defaultWindowS}
	if t.Len() < 4 {
		return w, t.Fault(t.Len()-1, "rows of start,rate,cv,distribution and its parameters")
	}
	var err error
	if w.startS, err = t.Number(0); err != nil {
		return w, err
	}
	if w.rate, err = t.Number(1); err != nil {
		return w, err
	}
	if w.process.cv, err = t.Number(2); err != nil {
		return w, err
	}
	switch name := t.Cell(3); name {
	case "Gamma", "Weibull":
		w.process.distribution = strings.ToLower(name)
	case "":
		w.process = process{"poisson", 1}
	default:
		return w, t.Fault(3, "Gamma, Weibull or nothing")
	}
	switch bursty := w.process.distribution != "poisson" && w.rate > 0; {
	case w.startS > maxTraceS:
		return w, t.Fault(0, fmt.Sprintf("at most %v seconds", maxTraceS))
	case w.rate > maxRate:
		return w, t.Fault(1, fmt.Sprintf("at most %v requests per second", maxRate))
	case bursty && !(w.process.cv >= minCV && w.process.cv <= maxCV):
		return w, t.Fault(2, fmt.Sprintf("a number from %v to %v", minCV, maxCV))
	}
	return w, nil
}

// otherParts are the kinds of input besides text.
var otherParts = []string{"image", "audio", "video"}

// readPeriods reads NAME-dataset.json: for each start of a period the distributions by name.
func (c *client) readPeriods(into *collector) error {
	d, err := tracefile.OpenDocument(c.dataset.Name, c.dataset.Reader, into.Poll)
	if err != nil {
		return err
	}
	err = d.Members(func(start string) error {
		startS, err := strconv.ParseFloat(start, 64)
		if err != nil || !(startS >= 0 && startS <= maxTraceS) {
			return d.Faultf("got %q as a key, want the start of a period in seconds", start)
		}
		p, err := readPeriod(d)
		p.startS = startS
		c.periods = append(c.periods, p)
		return err
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(c.periods, func(a, b period) int { return cmp.Compare(a.startS, b.startS) })
	if !slices.ContainsFunc(c.periods, func(p period) bool { return !p.empty }) {
		return fmt.Errorf("%s: has no lengths, want input_tokens and output_tokens for some period", c.dataset.Name)
	}
	return nil
}

func readPeriod(d *tracefile.Document) (period, error) {
	var p period
	p.parts = make([]part, len(otherParts))
	keys := []tracefile.Key{
		{Name: "input_tokens", Read: intoPDF(d, &p.prompt, maxInput)},
		{Name: "text_tokens", Read: intoPDF(d, &p.prompt, maxInput)},
		{Name: "output_tokens", Read: intoPDF(d, &p.output, maxOutput)},
	}
	for i, kind := range otherParts {
		keys = append(keys,
			tracefile.Key{Name: kind + "_tokens", Read: intoPDF(d, &p.parts[i].tokens, maxInput)},
			tracefile.Key{Name: kind + "_count", Read: intoPDF(d, &p.parts[i].count, maxParts)})
	}
	given, err := d.Object(keys)
	if err == nil && has(given, 0) && has(given, 1) {
		err = d.Faultf("has input_tokens and text_tokens, want one of them")
	}
	p.empty = len(p.prompt.values) == 0 || len(p.output.values) == 0
	return p, err
}

// intoPDF returns a reader of a distribution, which is a text: {18: 0.2, 1401: 0.8}.
func intoPDF(d *tracefile.Document, into *pdf, limit int64) func() error {
	return func() error {
		text, err := d.Text()
		if err != nil {
			return err
		}
		var ok bool
		if *into, ok = parsePDF(text, limit); !ok {
			return d.Faultf("got %.40q, want a distribution like {18: 0.2, 1401: 0.8} of integers from 0 to %d", text,
				limit)
		}
		return nil
	}
}

func parsePDF(text string, limit int64) (pdf, bool) {
	var p pdf
	inner, opened := strings.CutPrefix(strings.TrimSpace(text), "{")
	inner, closed := strings.CutSuffix(inner, "}")
	if !opened || !closed {
		return p, false
	}
	if strings.TrimSpace(inner) == "" {
		return p, true
	}
	sum := 0.0
	for entry := range strings.SplitSeq(inner, ",") {
		key, value, found := strings.Cut(entry, ":")
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(key), ".0"), 10, 64)
		weight, weightErr := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if !found || err != nil || weightErr != nil || n < 0 || n > limit || !(weight >= 0 && weight <= 1e9) {
			return p, false
		}
		sum += weight
		p.values = append(p.values, n)
		p.cumulative = append(p.cumulative, sum)
	}
	return p, sum > 0
}

// draw draws a value; an empty distribution has only 0.
func (p *pdf) draw(rng *rand.Rand) int64 {
	if len(p.values) == 0 {
		return 0
	}
	x := rng.Float64() * p.cumulative[len(p.cumulative)-1]
	at := sort.SearchFloat64s(p.cumulative, math.Nextafter(x, math.Inf(1)))
	return p.values[min(at, len(p.values)-1)]
}

// lengths draws those of a request that arrives at this time.
func (c *client) lengths(startS float64, inputs, outputs *rand.Rand) (input, output int32, err error) {
	p := c.periodAt(startS)
	prompt := p.prompt.draw(inputs)
	for i := range p.parts {
		for range p.parts[i].count.draw(inputs) {
			prompt += p.parts[i].tokens.draw(inputs)
		}
	}
	if prompt > maxInput {
		return 0, 0, fmt.Errorf("%s: a prompt of the period from %v s on has %d tokens, want at most %d",
			c.dataset.Name, p.startS, prompt, maxInput)
	}
	return int32(prompt), int32(p.output.draw(outputs)), nil
}

// periodAt returns the period of a time or, if that has no lengths, the nearest one before that has some, or after.
func (c *client) periodAt(startS float64) *period {
	var found *period
	for i := range c.periods {
		p := &c.periods[i]
		if p.startS > startS && found != nil {
			break
		}
		if !p.empty {
			found = p
		}
	}
	return found
}
