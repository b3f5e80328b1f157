package traffic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"dynosim/gocore/workload/tracefile"
)

// benchResult is the result of one run of vllm bench serve or sglang.bench_serving with details: an element of each
// list for each request.
type benchResult struct {
	inputs, outputs []uint64
	starts          []int64 // nanoseconds; nil if the result does not have them
	failed          []bool
	rate            float64 // requests per second; infinite if all were sent at once
	burstiness      float64 // the shape of the gamma distribution of the gaps
}

// readBench reads the result of vllm bench serve --save-result --save-detailed, or of sglang.bench_serving
// --output-file
// --output-details. Results without start times say only at which rate requests were sent: their gaps are drawn.
func readBench(c *collector, sources []Source) error {
	c.Unit = "request"
	d, err := tracefile.OpenDocument(sources[0].Name, sources[0].Reader, c.Poll)
	if err != nil {
		return err
	}
	b := benchResult{rate: math.Inf(1), burstiness: 1}
	if err := b.read(d); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("%s line %d: more than one result, want a file with one of its lines", sources[0].Name,
			d.Line()+1)
	}
	if b.starts == nil {
		b.draw(c)
	}
	for i := range b.inputs {
		r := Request{StartNs: c.at(b.starts[i]), Place: int32(i + 1), Session: -1, After: -1, Input: int32(b.inputs[i]),
			Output: int32(b.outputs[i])}
		if err := c.addAnswered(r, i >= len(b.failed) || !b.failed[i]); err != nil {
			return err
		}
	}
	c.sort()
	return nil
}

func (b *benchResult) read(d *tracefile.Document) error {
	lengths := func(into *[]uint64, limit uint64) func() error {
		return func() (err error) {
			*into, err = d.Counts(nil, limit, MaxRequests)
			return err
		}
	}
	given, err := d.Object([]tracefile.Key{
		{Name: "input_lens", Read: lengths(&b.inputs, maxInput)},
		{Name: "output_lens", Read: lengths(&b.outputs, maxOutput)},
		{Name: "start_times", Read: func() error { return b.readStarts(d) }},
		{Name: "errors", Read: func() error { return b.readErrors(d) }},
		{Name: "request_rate", Read: func() error { return b.readRate(d) }},
		{Name: "burstiness", Read: func() error {
			x, err := d.Number()
			if err == nil && !(x >= 1e-4 && x <= 1e4) {
				err = d.Faultf("got %v, want a number from 0.0001 to 10000", x)
			}
			b.burstiness = x
			return err
		}},
	})
	switch {
	case err != nil:
		return err
	case !has(given, 0) || !has(given, 1):
		return d.Missing("input_lens", "input_lens and output_lens of each request: run vllm bench serve with "+
			"--save-result --save-detailed, sglang.bench_serving with --output-details")
	case len(b.outputs) != len(b.inputs):
		return d.Missing("output_lens", fmt.Sprintf("as many elements as input_lens, %d, and got %d", len(b.inputs),
			len(b.outputs)))
	case b.starts == nil && math.IsNaN(b.rate):
		return d.Missing("start_times", "the times at which the requests were sent: request_rate is no number")
	case b.starts != nil && len(b.starts) != len(b.inputs):
		return d.Missing("start_times", fmt.Sprintf("as many elements as input_lens, %d, and got %d", len(b.inputs),
			len(b.starts)))
	}
	return nil
}

func (b *benchResult) readStarts(d *tracefile.Document) error {
	b.starts = []int64{}
	return d.Array(func(int) error {
		ns, err := d.Seconds()
		b.starts = append(b.starts, ns)
		return err
	})
}

// readErrors reads what went wrong with each request, nothing if its text is empty.
func (b *benchResult) readErrors(d *tracefile.Document) error {
	return d.Array(func(int) error {
		text, err := d.Text()
		b.failed = append(b.failed, text != "")
		return err
	})
}

// readRate reads requests per second, or inf. Another text, trace for one, is a rate that only start times tell.
func (b *benchResult) readRate(d *tracefile.Document) error {
	text, err := d.Text()
	if err != nil {
		return err
	}
	if b.rate, err = strconv.ParseFloat(text, 64); err != nil {
		b.rate = math.NaN()
	} else if !(b.rate > 0 && 1/b.rate < 1e9) {
		return d.Faultf("got %s, want a number > 0 or inf", text)
	}
	return nil
}

// draw draws start times. The first is 0.
func (b *benchResult) draw(c *collector) {
	b.starts = make([]int64, len(b.inputs))
	if math.IsInf(b.rate, 1) {
		return
	}
	gap := c.Gaps("gamma", 1/math.Sqrt(b.burstiness), rand.NewPCG(c.Seed, arrivalStream))
	at := 0.0
	for i := 1; i < len(b.starts); i++ {
		at += gap() / b.rate
		b.starts[i] = int64(math.Round(min(at, maxDrawnSeconds) * 1e9))
	}
}

// Streams of random numbers, for each client of its own.
const (
	arrivalStream = iota + 1
	inputStream
	outputStream
	streams
)

// maxDrawnSeconds bounds arrivals that are drawn.
const maxDrawnSeconds = 1e9
