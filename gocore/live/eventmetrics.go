package live

import (
	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/protocol/discovery"
)

// eventMetrics count KV events by the names that publishers of Dynamo have for them.
type eventMetrics struct {
	dropped *prometheus.CounterVec
	native  *prometheus.CounterVec
}

func newEventMetrics(r prometheus.Registerer) *eventMetrics {
	labels := []string{"dynamo_namespace", "dynamo_component", "worker_id"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynamo_component_kv_publisher_" + name, Help: help},
			labels)
		r.MustRegister(c)
		return c
	}
	return &eventMetrics{
		dropped: counter("engines_dropped_events_total",
			"KV events lost between an engine and its publisher: none ever is.", labels...),
		native: counter("zmq_events_total", "KV events in the engine's own format.",
			append(labels, "event_type", "stage")...),
	}
}

// rank returns what counts the events of a rank of a worker, native ones only if there are any.
func (m *eventMetrics) rank(e discovery.Endpoint, workerID string, native bool) Observer {
	m.dropped.WithLabelValues(e.Namespace, e.Component, workerID)
	c := &eventCounter{}
	if !native {
		return c
	}
	// the other stages of Dynamo are those of a relay, which does not exist here
	for _, stage := range []string{"received", "accepted"} {
		c.stored = append(c.stored, m.native.WithLabelValues(e.Namespace, e.Component, workerID, "stored", stage))
		c.removed = append(c.removed, m.native.WithLabelValues(e.Namespace, e.Component, workerID, "removed", stage))
	}
	return c
}

// eventCounter implements [Observer].
type eventCounter struct{ stored, removed []prometheus.Counter }

// CacheChanged implements [Observer].
func (c *eventCounter) CacheChanged(changes []blocks.Change) {
	for i := range changes {
		if changes[i].To == blocks.Routers {
			continue
		}
		counters := c.stored
		if changes[i].Kind == kvcache.Removed {
			counters = c.removed
		}
		for _, counter := range counters {
			counter.Inc()
		}
	}
}

// PassEnded implements [Observer].
func (*eventCounter) PassEnded(engine.Work, float64) {}

// LoadChanged implements [Observer].
func (*eventCounter) LoadChanged(Load) {}
