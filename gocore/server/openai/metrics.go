package openai

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of requests, beside those of engines that package enginemetrics has.
type metrics struct {
	registry *prometheus.Registry
	engines  map[string]*requestMetrics // by prefix
	frontend *frontendMetrics
	refusals *prometheus.CounterVec
	open     *prometheus.GaugeVec
}

// requestMetrics have the names of an engine's own server.
type requestMetrics struct {
	success                            *prometheus.CounterVec
	prompt, answer, choices, most      *prometheus.HistogramVec
	queued, prefill, decode, inference *prometheus.HistogramVec
	each                               *prometheus.HistogramVec
}

// Buckets, in tokens, requests and seconds.
var (
	lengthBuckets   = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
	choiceBuckets   = []float64{1, 2, 5, 10, 20}
	durationBuckets = []float64{.001, .01, .05, .1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	gapBuckets      = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
)

func newMetrics(r *prometheus.Registry, models *served) *metrics {
	m := &metrics{registry: r, engines: map[string]*requestMetrics{}, frontend: newFrontendMetrics(r)}
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynosim_http_errors_total", Help: "Requests that got an error instead of an answer."}, []string{"status"})
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dynosim_requests_in_flight", Help: "Requests that are being answered."}, []string{"model_name"})
	r.MustRegister(m.refusals, m.open, adapterMetrics{models})
	return m
}

// show makes the metrics of one more model. Those with the names of an engine are shown by the process that runs it.
func (m *metrics) show(model *Model) {
	m.open.WithLabelValues(model.Name)
	m.frontend.show(model.Name)
	if model.elsewhere() {
		return
	}
	model.metrics = m.engines[model.prefix()]
	if model.metrics == nil {
		model.metrics = newRequestMetrics(m.registry, model.prefix())
		m.engines[model.prefix()] = model.metrics
	}
}

// prefix begins the names of the metrics of a model's engine.
func (m *Model) prefix() string { return m.Args.EngineType.String() + ":" }

func newRequestMetrics(r *prometheus.Registry, prefix string) *requestMetrics {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, []string{"model_name"})
		r.MustRegister(h)
		return h
	}
	m := &requestMetrics{
		success: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "request_success_total", Help: "Answers that are complete."}, []string{"model_name", "finished_reason"}),
		prompt:  histogram("request_prompt_tokens", "Tokens of prompts.", lengthBuckets), answer: histogram("request_generation_tokens", "Tokens of answers.", lengthBuckets),
		choices:   histogram("request_params_n", "Answers that a request asks for.", choiceBuckets),
		most:      histogram("request_params_max_tokens", "Tokens that a request asks for.", lengthBuckets),
		queued:    histogram("request_queue_time_seconds", "From the arrival of a request to the beginning of its first pass.", durationBuckets),
		prefill:   histogram("request_prefill_time_seconds", "From the beginning of the first pass to the first token.", durationBuckets),
		decode:    histogram("request_decode_time_seconds", "From the first token to the last one.", durationBuckets),
		inference: histogram("request_inference_time_seconds", "From the beginning of the first pass to the last token.", durationBuckets),
		each:      histogram("request_time_per_output_token_seconds", "Mean gap between the tokens of an answer.", gapBuckets),
	}
	r.MustRegister(m.success)
	return m
}

// enter counts a request until the function that it returns is called.
func (m *metrics) enter(g *generation) (leave func()) {
	model := g.target.model
	if own := model.metrics; own != nil {
		own.choices.WithLabelValues(model.Name).Observe(float64(len(g.choices)))
		if g.most != nil {
			own.most.WithLabelValues(model.Name).Observe(float64(*g.most))
		}
	}
	open := m.open.WithLabelValues(model.Name)
	open.Inc()
	left := m.frontend.enter(g)
	return func() {
		open.Dec()
		left()
	}
}

// emitted counts tokens that a choice gets after it had sent.
func (m *metrics) emitted(g *generation, c *choice, n int, now time.Time) {
	g.target.model.Latencies.Tokens(c.sent, n, g.received, c.last, now)
	m.frontend.tokens(g, c, n, now)
}

// finished counts an answer that is complete.
func (m *metrics) finished(g *generation, c *choice, now time.Time) {
	g.target.model.Latencies.Finished(g.received)
	m.frontend.finished(g, c)
	name, own := g.target.model.Name, g.target.model.metrics
	if own == nil {
		return
	}
	seconds := func(h *prometheus.HistogramVec, from, to time.Time) {
		h.WithLabelValues(name).Observe(max(0, to.Sub(from).Seconds()))
	}
	own.success.WithLabelValues(name, c.answer.Finish).Inc()
	own.prompt.WithLabelValues(name).Observe(float64(c.prompt))
	own.answer.WithLabelValues(name).Observe(float64(len(c.answer.Tokens)))
	if at := c.call.AdmittedAt(); !at.IsZero() {
		seconds(own.queued, g.received, at)
		seconds(own.prefill, at, c.first)
		seconds(own.inference, at, now)
	}
	seconds(own.decode, c.first, now)
	if n := len(c.answer.Tokens); n > 1 {
		own.each.WithLabelValues(name).Observe(now.Sub(c.first).Seconds() / float64(n-1))
	}
}

// refused counts an error.
func (m *metrics) refused(status int) { m.refusals.WithLabelValues(strconv.Itoa(status)).Inc() }
