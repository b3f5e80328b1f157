package openai

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// frontendMetrics are those that Dynamo's planner reads from a frontend, by the names that these have there.
type frontendMetrics struct {
	requests                            *prometheus.CounterVec
	outputs                             *prometheus.CounterVec
	inflight, queued                    *prometheus.GaugeVec
	duration, firstToken, gap, isl, osl *prometheus.HistogramVec
}

// Buckets of latencies in seconds, from less than a token to minutes.
var frontendBuckets = []float64{.001, .0025, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .2, .35, .5, .75, 1, 2, 5,
	10, 20, 40, 80, 160, 320}

// longestContext bounds the buckets of lengths, in tokens, of models that come while a frontend runs.
const longestContext = 1_000_000

func newFrontendMetrics(r *prometheus.Registry) *frontendMetrics {
	name := func(text string) string { return "dynamo_frontend_" + text }
	labels := []string{"model"}
	histogram := func(text, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name(text), Help: help, Buckets: buckets},
			labels)
		r.MustRegister(h)
		return h
	}
	m := &frontendMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("requests_total"),
			Help: "Requests that have ended."}, []string{"model", "endpoint", "request_type", "status"}),
		outputs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("output_tokens_total"),
			Help: "Tokens of answers."}, labels),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name("inflight_requests"),
			Help: "Requests that are being answered."}, labels),
		queued: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name("queued_requests"),
			Help: "Requests that have no token yet."}, labels),
		duration: histogram("request_duration_seconds", "From the arrival of a request to its end.", frontendBuckets),
		firstToken: histogram("time_to_first_token_seconds", "From the arrival of a request to its first token.",
			frontendBuckets),
		gap: histogram("inter_token_latency_seconds", "Between two tokens of an answer.", frontendBuckets),
		isl: histogram("input_sequence_tokens", "Tokens of prompts.", lengthBuckets(longestContext)),
		osl: histogram("output_sequence_tokens", "Tokens of answers.", lengthBuckets(longestContext)),
	}
	r.MustRegister(m.requests, m.outputs, m.inflight, m.queued)
	return m
}

// show makes the gauges and histograms of a model appear before its first request: who scales by them finds them at
// once.
func (m *frontendMetrics) show(model string) {
	m.outputs.WithLabelValues(model)
	for _, gauge := range []*prometheus.GaugeVec{m.inflight, m.queued} {
		gauge.WithLabelValues(model)
	}
	for _, histogram := range []*prometheus.HistogramVec{m.duration, m.firstToken, m.gap, m.isl, m.osl} {
		histogram.WithLabelValues(model)
	}
}

// tokenMetrics are those of frontendMetrics that each token of an answer changes, of one model.
type tokenMetrics struct {
	outputs prometheus.Counter
	gap     prometheus.Observer
}

// enter counts a request until the function that it returns is called.
func (m *frontendMetrics) enter(g *generation) (leave func()) {
	model := g.modelName()
	inflight, queued := m.inflight.WithLabelValues(model), m.queued.WithLabelValues(model)
	inflight.Inc()
	queued.Inc()
	g.counted = tokenMetrics{m.outputs.WithLabelValues(model), m.gap.WithLabelValues(model)}
	return func() {
		inflight.Dec()
		kind, status := "unary", "success"
		if g.stream {
			kind = "stream"
		}
		for _, c := range g.choices {
			if !c.over {
				status = "error"
			}
		}
		if !g.answering {
			queued.Dec()
		}
		m.requests.WithLabelValues(model, g.shape.endpoint(), kind, status).Inc()
		m.duration.WithLabelValues(model).Observe(time.Since(g.received).Seconds())
	}
}

// tokens counts n tokens that a choice gets.
func (m *frontendMetrics) tokens(g *generation, c *choice, n int, now time.Time) {
	if !g.answering {
		g.answering = true
		m.queued.WithLabelValues(g.modelName()).Dec()
	}
	g.counted.outputs.Add(float64(n))
	last := c.last
	if c.sent == 0 { // what comes with the first token comes at once
		m.firstToken.WithLabelValues(g.modelName()).Observe(now.Sub(g.received).Seconds())
		last, n = now, n-1
	}
	each := now.Sub(last).Seconds() / float64(max(n, 1))
	for range n {
		g.counted.gap.Observe(each)
	}
}

// finished counts an answer that is complete.
func (m *frontendMetrics) finished(g *generation, c *choice) {
	m.isl.WithLabelValues(g.modelName()).Observe(float64(c.prompt))
	m.osl.WithLabelValues(g.modelName()).Observe(float64(len(c.answer.Tokens)))
}
