package profile

import (
	"errors"
	"fmt"
	"math"

	"dynosim/gocore/timing"
)

// resolution is the number of points on each axis of a table that is made from samples.
const resolution = 100

// leastSeconds is the shortest duration in such a table.
const leastSeconds = 1e-6

// fill makes the prefill table. A line is fitted to the samples,
//
//	seconds = p0 + p1*isl
//
// and the axis runs from the shortest to the longest prompt.
func (s *prefillSamples) fill(t *timing.Tables) error {
	n := min(len(s.isl), len(s.ttftMs)) // lists of different length are cut, as in the reference
	if n == 0 {
		return errors.New("no samples")
	}
	var isl, seconds []float64 // of the samples that count in the fit
	low, high := math.Inf(1), math.Inf(-1)
	for i := range n {
		x := math.Trunc(s.isl[i])
		low, high = min(low, x), max(high, x)
		if s.ttftMs[i] != 0 {
			isl = append(isl, x)
			seconds = append(seconds, s.ttftMs[i]/1000)
		}
	}
	if low == high {
		return &timing.TableError{Array: "prefill_isl", Got: fmt.Sprintf("only the value %v", low),
			Want: "two or more different ones"}
	}
	if len(seconds) == 0 {
		return &timing.TableError{Array: "prefill_ttft", Got: "only zeros", Want: "durations"}
	}
	slopes, p0 := fit(seconds, isl)
	p1 := slopes[0]
	if !(p1 >= 0) {
		return &timing.TableError{Array: "prefill_ttft",
			Got:  fmt.Sprintf("durations that change by %v s for each token", p1),
			Want: "longer ones for longer prompts"}
	}
	t.PrefillISL = linspace(low, high)
	t.PrefillTTFTMs = make([]float64, resolution)
	for i, x := range t.PrefillISL {
		t.PrefillTTFTMs[i] = max(leastSeconds, p0+float64(p1*x)) * 1000
	}
	return nil
}

// fill makes the decode table. A plane is fitted to the samples,
//
//	kv      = usage * pool, batch = kv / context, both rounded to whole numbers
//	seconds = d0 + d1*batch + d2*kv
//
// and evaluated from an empty pool to the fullest sample, and from one token of context to the longest mean context
// that a sample's kv / batch stands for.
func (s *decodeSamples) fill(t *timing.Tables) error {
	n := min(len(s.kvUsage), len(s.contextLength), len(s.itlMs))
	if n == 0 {
		return errors.New("no samples")
	}
	var batches, kvs, seconds []float64 // of the samples that count in the fit
	maxKV, maxContext := math.Inf(-1), math.Inf(-1)
	for i := range n {
		kv, batch := math.RoundToEven(s.kvUsage[i]*s.maxKVTokens), 1.0
		if s.contextLength[i] > 0 {
			batch = max(1, math.RoundToEven(kv/s.contextLength[i]))
		}
		maxKV, maxContext = max(maxKV, kv), max(maxContext, kv/batch)
		if s.itlMs[i] != 0 {
			batches = append(batches, batch)
			kvs = append(kvs, kv)
			seconds = append(seconds, s.itlMs[i]/1000)
		}
	}
	switch {
	case !(maxKV > 0 && maxKV < math.Inf(1)):
		return &timing.TableError{Array: "x_kv_usage", Got: fmt.Sprintf("at most %v tokens in use", maxKV),
			Want: "samples with KV tokens in use"}
	case maxContext <= 1:
		return &timing.TableError{Array: "y_context_length", Got: "no sample with more than one token of context",
			Want: "longer contexts"}
	case len(seconds) == 0:
		return &timing.TableError{Array: "z_itl", Got: "only zeros", Want: "durations"}
	}
	slopes, d0 := fit(seconds, batches, kvs)
	d1, d2 := slopes[0], slopes[1]
	if !(d2 >= 0) {
		return &timing.TableError{Array: "z_itl",
			Got:  fmt.Sprintf("durations that change by %v s for each KV token in use", d2),
			Want: "longer ones for fuller pools"}
	}
	if d1 < -1e-6 { // the batch alone does not make a step faster; the other two are not fitted again
		d1 = 0
	}
	t.DecodeActiveKVTokens = linspace(0, maxKV)
	t.DecodeContextLength = linspace(1, maxContext)
	t.DecodeITLMs = make([]float64, 0, resolution*resolution)
	for _, kv := range t.DecodeActiveKVTokens {
		for _, context := range t.DecodeContextLength {
			y := d0 + float64(d1*max(1, kv/context)) + float64(d2*kv)
			t.DecodeITLMs = append(t.DecodeITLMs, max(leastSeconds, y)*1000)
		}
	}
	return nil
}

// linspace returns the axis from low to high with equal steps.
func linspace(low, high float64) []float64 {
	axis := make([]float64, resolution)
	step := (high - low) / (resolution - 1)
	for i := range axis {
		axis[i] = low + float64(float64(i)*step)
	}
	axis[resolution-1] = high
	return axis
}
