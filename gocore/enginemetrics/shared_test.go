package enginemetrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engineargs"
)

// One process may have engines of several types, which share the histogram that has no type in its name.
func TestEnginesOfSeveralTypes(t *testing.T) {
	registry := prometheus.NewRegistry()
	var delays []prometheus.Histogram
	for _, text := range []string{`{}`, `{"engine_type": "sglang"}`} {
		args, _, err := engineargs.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		delays = append(delays, New(registry, args, false).delay)
	}
	if delays[0] != delays[1] {
		t.Error("each type has a histogram of delays of its own")
	}
}
