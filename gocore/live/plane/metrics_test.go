package plane

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/protocol/wire"
)

// counted returns the value of a counter, or how often a histogram was fed. label is a value of one of its labels, if
// it has any.
func counted(t *testing.T, p *Plane, name, label string) int {
	t.Helper()
	families, err := p.config.Metrics.registry.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			found := label == ""
			for _, l := range m.GetLabel() {
				found = found || l.GetValue() == label
			}
			if f.GetName() == name && found {
				return int(m.GetHistogram().GetSampleCount()) + int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("no metric %s of %s", name, label)
	return 0
}

// TestHandlerMetrics: requests in the queue are counted as waiting, and those that say when they were sent as having
// been on their way.
func TestHandlerMetrics(t *testing.T) {
	enough := make(chan struct{})
	tcp, caller := start(t, Limits{Active: 1, Queued: 2}, echoAfter(enough))
	over := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := call(t, tcp, caller, path, wire.JSON, []byte("{}"))
			over <- err
		}()
	}
	eventually(t, "three requests", func() bool { return tcp.plane.InFlight() == 3 })
	close(enough)
	expectServed(t, over, 3)
	for sent, want := range map[string]int{
		"":  0,
		"x": 0,
		fmt.Sprint(time.Now().Add(time.Hour).UnixNano()): 0, // another clock
		fmt.Sprint(time.Now().UnixNano()):                1,
	} {
		before := counted(t, tcp.plane, "dynamo_work_handler_network_transit_seconds", "")
		tcp.plane.config.Metrics.arrived(sent, time.Now())
		if got := counted(t, tcp.plane, "dynamo_work_handler_network_transit_seconds", "") - before; got != want {
			t.Errorf("sent at %q: got %d, want %d", sent, got, want)
		}
	}
	for name, want := range map[string]int{
		"dynamo_work_handler_permit_wait_seconds":            2,
		"dynamo_work_handler_time_to_first_response_seconds": 3,
	} {
		if got := counted(t, tcp.plane, name, ""); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// TestErrorKinds: what cannot be answered is counted by its kind.
func TestErrorKinds(t *testing.T) {
	tcp, _ := start(t, StandardLimits, echo)
	e, _ := tcp.plane.lookup(path)
	unreachable := wire.EncodeControl(wire.Control{ID: "a", Address: "127.0.0.1:1", Subject: "a"})
	for kind, payload := range map[string][]byte{
		invalidMessage:  []byte("x"),
		deserialization: wire.AppendMessage(nil, wire.Message{Header: []byte("{")}),
		noStream:        wire.AppendMessage(nil, wire.Message{Header: unreachable}),
	} {
		tcp.plane.answer(e, payload, time.Now(), nil)
		if got := counted(t, tcp.plane, "dynamo_component_errors_total", kind); got != 1 {
			t.Errorf("%s: got %d", kind, got)
		}
	}
}

// TestDetail: of many workers, histograms are shared and errors are shown once there is one.
func TestDetail(t *testing.T) {
	for detail, want := range map[Detail]struct{ histograms, errors int }{PerWorker: {3, 18}, PerModel: {1, 1}} {
		registry := prometheus.NewRegistry()
		m := NewMetrics(registry, detail)
		for _, id := range []string{"a", "b", "c"} {
			e := m.endpoint(Labels{Namespace: "n", Component: "c", Endpoint: "e", WorkerID: id})
			e.begin(1)
			e.end(time.Now())
			if id == "b" {
				e.failed(noStream)
			}
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n, observed := len(f.GetMetric()), uint64(0)
			for _, one := range f.GetMetric() {
				observed += one.GetHistogram().GetSampleCount()
			}
			switch f.GetName() {
			case "dynamo_component_request_duration_seconds":
				if n != want.histograms || observed != 3 {
					t.Errorf("detail %v: got %d histograms of %d requests, want %d of 3", detail, n, observed,
						want.histograms)
				}
			case "dynamo_component_errors_total":
				if n != want.errors {
					t.Errorf("detail %v: got %d kinds of errors, want %d", detail, n, want.errors)
				}
			}
		}
	}
}

// TestAnswersAreCounted: a frontend that has the beginning of an answer finds it among those that have been counted.
func TestAnswersAreCounted(t *testing.T) {
	tcp, caller := start(t, StandardLimits, echo)
	for i := range 200 {
		body := []byte([]string{"{}", "{"}[i%2]) // accepted, refused
		if answer, err := call(t, tcp, caller, path, wire.JSON, body); err == nil {
			answer.Close()
		}
		if got := counted(t, tcp.plane, "dynamo_work_handler_time_to_first_response_seconds", ""); got != i+1 {
			t.Fatalf("after %d answers: got %d", i+1, got)
		}
	}
}
