package plane

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels say whose an endpoint is.
type Labels struct {
	Namespace, Component, Endpoint, WorkerID string
}

var labelNames = []string{"dynamo_namespace", "dynamo_component", "dynamo_endpoint", "worker_id"}

func (l Labels) values(more ...string) []string {
	return append([]string{l.Namespace, l.Component, l.Endpoint, l.WorkerID}, more...)
}

// Metrics count what goes over the plane.
type Metrics struct {
	registry      prometheus.Registerer
	requests      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	inFlight      *prometheus.GaugeVec
	requestBytes  *prometheus.CounterVec
	responseBytes *prometheus.CounterVec
	errors        *prometheus.CounterVec
	cancellations *prometheus.CounterVec
	rejected      prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynamo_component_" + name, Help: help}, append(labelNames[:4:4], labels...))
		r.MustRegister(c)
		return c
	}
	m := &Metrics{
		registry:      r,
		requests:      counter("requests_total", "Requests accepted."),
		requestBytes:  counter("request_bytes_total", "Bytes of request bodies."),
		responseBytes: counter("response_bytes_total", "Bytes of answers."),
		errors:        counter("errors_total", "Requests that failed.", "error_type"),
		cancellations: counter("cancellation_total", "Requests that their callers gave up."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "dynamo_component_request_duration_seconds", Help: "From the arrival of a request to the end of its answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600},
		}, labelNames),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dynamo_component_inflight_requests", Help: "Requests being served.",
		}, labelNames),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dynamo_rejection_request_total", Help: "Requests turned away for lack of room.",
		}),
	}
	began := time.Now()
	uptime := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dynamo_component_uptime_seconds", Help: "Since the process began to listen.",
	}, func() float64 { return time.Since(began).Seconds() })
	r.MustRegister(m.duration, m.inFlight, m.rejected, uptime)
	return m
}

// observe reports the load of the limiter.
func (m *Metrics) observe(l *limiter) {
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	active := func() float64 { n, _ := l.load(); return float64(n) }
	queued := func() float64 { _, n := l.load(); return float64(n) }
	gauge("dynamo_engine_request", "Requests in handlers.", active)
	gauge("dynamo_request_queue", "Requests that wait for a handler.", queued)
	gauge("dynamo_work_handler_pool_active_tasks", "Requests in handlers.", active)
	gauge("dynamo_work_handler_queue_depth", "Requests that wait for a handler.", queued)
	gauge("dynamo_work_handler_pool_capacity", "Requests that handlers take at most.", func() float64 { return float64(l.limits.Active) })
	gauge("dynamo_work_handler_queue_capacity", "Requests that may wait.", func() float64 { return float64(l.limits.Queued) })
}

// endpointMetrics are those of one endpoint.
type endpointMetrics struct {
	labels        Labels
	requests      prometheus.Counter
	duration      prometheus.Observer
	inFlight      prometheus.Gauge
	requestBytes  prometheus.Counter
	responseBytes prometheus.Counter
	errors        *prometheus.CounterVec
	cancellations prometheus.Counter
}

func (m *Metrics) endpoint(l Labels) *endpointMetrics {
	v := l.values()
	return &endpointMetrics{
		labels:        l,
		requests:      m.requests.WithLabelValues(v...),
		duration:      m.duration.WithLabelValues(v...),
		inFlight:      m.inFlight.WithLabelValues(v...),
		requestBytes:  m.requestBytes.WithLabelValues(v...),
		responseBytes: m.responseBytes.WithLabelValues(v...),
		errors:        m.errors,
		cancellations: m.cancellations.WithLabelValues(v...),
	}
}

func (m *endpointMetrics) begin(bytes int) {
	m.requests.Inc()
	m.requestBytes.Add(float64(bytes))
	m.inFlight.Inc()
}

func (m *endpointMetrics) end(since time.Time) {
	m.inFlight.Dec()
	m.duration.Observe(time.Since(since).Seconds())
}

func (m *endpointMetrics) failed(kind string) {
	m.errors.WithLabelValues(m.labels.values(kind)...).Inc()
}
