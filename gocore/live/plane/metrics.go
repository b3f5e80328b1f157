package plane

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels say to which worker and model an endpoint belongs.
type Labels struct {
	Namespace, Component, Endpoint, WorkerID string
}

var labelNames = []string{"dynamo_namespace", "dynamo_component", "dynamo_endpoint", "worker_id"}

func (l Labels) values(more ...string) []string {
	return append([]string{l.Namespace, l.Component, l.Endpoint, l.WorkerID}, more...)
}

// Detail is how detailed the metrics of each worker are. A page with histograms of a thousand workers is 20 MB.
type Detail int

// The levels of detail: all metrics for each worker; or histograms for the model as a whole, and no counters of errors
// that have not happened.
const (
	PerWorker Detail = iota
	PerModel
)

// Metrics count what goes over the plane.
type Metrics struct {
	registry      prometheus.Registerer
	detail        Detail
	requests      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	inFlight      *prometheus.GaugeVec
	requestBytes  *prometheus.CounterVec
	responseBytes *prometheus.CounterVec
	errors        *prometheus.CounterVec
	cancellations *prometheus.CounterVec
	rejected      prometheus.Counter
	permitWait    prometheus.Histogram
	transit       prometheus.Histogram
	firstResponse prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer, d Detail) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynamo_component_" + name, Help: help},
			append(labelNames[:4:4], labels...))
		r.MustRegister(c)
		return c
	}
	m := &Metrics{
		registry:      r,
		detail:        d,
		requests:      counter("requests_total", "Requests accepted."),
		requestBytes:  counter("request_bytes_total", "Bytes of request bodies."),
		responseBytes: counter("response_bytes_total", "Bytes of answers."),
		errors:        counter("errors_total", "Requests that failed.", "error_type"),
		cancellations: counter("cancellation_total", "Requests that their callers gave up."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dynamo_component_request_duration_seconds",
			Help:    "From the arrival of a request to the end of its answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600},
		}, d.ofHistogram(labelNames)),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dynamo_component_inflight_requests", Help: "Requests being served.",
		}, labelNames),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dynamo_rejection_request_total", Help: "Requests turned away for lack of room.",
		}),
	}
	histogram := func(name, help string, buckets ...float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dynamo_work_handler_" + name, Help: help,
			Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	m.permitWait = histogram("permit_wait_seconds", "How long requests that had to wait for a handler have waited.",
		.0001, .001, .01, .05, .1, .5, 1, 5, 10, 30, 60)
	m.transit = histogram("network_transit_seconds",
		"From a frontend's sending a request, by its clock, to its arrival.",
		.0001, .0005, .001, .005, .01, .05, .1, .5, 1)
	m.firstResponse = histogram("time_to_first_response_seconds",
		"From a handler's taking a request to the beginning of its answer.",
		.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	neverRejected := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dynamo_work_handler_enqueue_rejected_total",
		Help: "Requests that were turned away though there was room: none ever is.",
	})
	r.MustRegister(m.duration, m.inFlight, m.rejected, neverRejected)
	return m
}

// Detail returns what NewMetrics was given.
func (m *Metrics) Detail() Detail { return m.detail }

// ofHistogram selects from the labels of an endpoint, or their values, those that its histogram has.
func (d Detail) ofHistogram(all []string) []string {
	if d == PerModel {
		return all[:len(all)-1] // without worker_id
	}
	return all
}

// begin adds the metric of how long a worker has existed, once.
func (m *Metrics) begin(workerID string) {
	began := time.Now()
	_ = m.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dynamo_component_uptime_seconds", Help: "Since the worker has been there.",
		ConstLabels: prometheus.Labels{"worker_id": workerID},
	}, func() float64 { return time.Since(began).Seconds() })) // an error means that it was added before
}

// sentHeader is the header with the time when a frontend sent a request, in nanoseconds since 1970.
const sentHeader = "x-frontend-send-ts-ns"

// arrived records how long a request was on its way, if it says when it was sent.
func (m *Metrics) arrived(sent string, received time.Time) {
	sentNs, err := strconv.ParseInt(sent, 10, 64)
	if on := received.Sub(time.Unix(0, sentNs)); err == nil && on >= 0 { // clocks may differ
		m.transit.Observe(on.Seconds())
	}
}

func (m *Metrics) responded(since time.Time) { m.firstResponse.Observe(time.Since(since).Seconds()) }

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
	gauge("dynamo_work_handler_pool_capacity", "Requests that handlers take at most.",
		func() float64 { return float64(l.limits.Active) })
	gauge("dynamo_work_handler_queue_capacity", "Requests that may wait.",
		func() float64 { return float64(l.limits.Queued) })
}

// The kinds of errors that are counted.
const (
	invalidMessage  = "invalid_message"  // not in two parts
	deserialization = "deserialization"  // a control header that cannot be read
	noStream        = "response_stream"  // the frontend cannot be reached
	handlerFailed   = "generate"         // internally
	publishResponse = "publish_response" // the frontend does not read
	publishFinal    = "publish_final"    // the same at the end
)

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
	m.begin(l.WorkerID)
	v := l.values()
	if m.detail == PerWorker {
		for _, kind := range []string{invalidMessage, deserialization, noStream, handlerFailed, publishResponse,
			publishFinal} {
			m.errors.WithLabelValues(l.values(kind)...)
		}
	}
	return &endpointMetrics{
		labels:        l,
		requests:      m.requests.WithLabelValues(v...),
		duration:      m.duration.WithLabelValues(m.detail.ofHistogram(v)...),
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
