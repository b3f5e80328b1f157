package openai

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/enginemetrics"
)

// metrics are those of requests, beside those of engines that package enginemetrics has.
type metrics struct {
	registry *prometheus.Registry
	lengths  []float64                  // buckets, up to the longest sequence of a model
	engines  map[string]*requestMetrics // by prefix
	frontend *frontendMetrics
	refusals *prometheus.CounterVec
	open     *prometheus.GaugeVec
	arrival  *prometheus.HistogramVec
}

// requestMetrics have the names of an engine's own server.
type requestMetrics struct {
	success                            *prometheus.CounterVec
	prompt, answer, choices, most      *prometheus.HistogramVec
	longest                            *prometheus.HistogramVec
	queued, prefill, decode, inference *prometheus.HistogramVec
	each                               *prometheus.HistogramVec
	more                               []string // values of labels beside model_name
}

// Buckets, in tokens, requests and seconds.
var (
	arrivalBuckets = []float64{.0001, .0002, .0005, .001, .002, .003, .005, .0075, .01, .02, .05, .1, .2, .5, 1, 10,
		60}
	choiceBuckets   = []float64{1, 2, 5, 10, 20}
	durationBuckets = []float64{.001, .01, .05, .1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240,
		480, 960, 1920, 7680}
	gapBuckets = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
)

// lengthBuckets returns 1, 2, 5, 10 and so on up to the longest length.
func lengthBuckets(longest int) (buckets []float64) {
	for ten := 1; ; ten *= 10 {
		for _, digit := range []int{1, 2, 5} {
			if digit*ten > longest && len(buckets) > 0 {
				return buckets
			}
			buckets = append(buckets, float64(digit*ten))
		}
	}
}

// newMetrics registers metrics for models whose longest sequence has the given number of tokens.
func newMetrics(r *prometheus.Registry, models *served, longest int) *metrics {
	m := &metrics{registry: r, lengths: lengthBuckets(longest), engines: map[string]*requestMetrics{},
		frontend: newFrontendMetrics(r)}
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynosim_http_errors_total",
		Help: "Requests that got an error instead of an answer."}, []string{"status"})
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dynosim_requests_in_flight",
		Help: "Requests that are being answered."}, []string{"model_name"})
	m.arrival = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "dynosim_arrival_delay_seconds",
		Help:    "From the header of a request to its arrival at the engines: its body is read and tokenized in between.",
		Buckets: arrivalBuckets,
	}, []string{"model_name"})
	r.MustRegister(m.refusals, m.open, m.arrival, adapterMetrics{models})
	return m
}

// show makes the metrics of one more model. Those with the names of an engine are shown by the process that runs it.
func (m *metrics) show(model *Model) {
	m.open.WithLabelValues(model.Name)
	m.arrival.WithLabelValues(model.Name)
	m.frontend.show(model.Name)
	if model.elsewhere() {
		return
	}
	model.metrics = m.engines[model.prefix()]
	if model.metrics == nil {
		model.metrics = newRequestMetrics(m.registry, model, m.lengths)
		m.engines[model.prefix()] = model.metrics
	}
}

// prefix begins the names of the metrics of a model's engine.
func (m *Model) prefix() string { return m.Args.EngineType.String() + ":" }

func newRequestMetrics(r *prometheus.Registry, model *Model, lengths []float64) *requestMetrics {
	prefix, labels := model.prefix(), []string{"model_name"}
	var more []string
	if enginemetrics.NamesEngine(model.Args) {
		labels, more = append(labels, "engine"), []string{"0"} // engines of a server are workers without ranks
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets},
			labels)
		r.MustRegister(h)
		return h
	}
	m := &requestMetrics{
		more: more,
		success: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "request_success_total",
			Help: "Answers that are complete."}, append(labels[:len(labels):len(labels)], "finished_reason")),
		prompt: histogram("request_prompt_tokens", "Tokens of prompts.", lengths),
		answer: histogram("request_generation_tokens", "Tokens of answers.", lengths),
		longest: histogram("request_max_num_generation_tokens", "Tokens of the longest answer to a request.",
			lengths),
		choices: histogram("request_params_n", "Answers that a request asks for.", choiceBuckets),
		most:    histogram("request_params_max_tokens", "Tokens that a request asks for.", lengths),
		queued: histogram("request_queue_time_seconds",
			"From the arrival of a request to the beginning of its first pass.", durationBuckets),
		prefill: histogram("request_prefill_time_seconds", "From the beginning of the first pass to the first token.",
			durationBuckets),
		decode: histogram("request_decode_time_seconds", "From the first token to the last one.", durationBuckets),
		inference: histogram("request_inference_time_seconds",
			"From the beginning of the first pass to the last token.", durationBuckets),
		each: histogram("request_time_per_output_token_seconds", "Mean gap between the tokens of an answer.",
			gapBuckets),
	}
	r.MustRegister(m.success)
	return m
}

// of returns the values of the labels of a model's histograms.
func (m *requestMetrics) of(model *Model) []string { return append([]string{model.Name}, m.more...) }

// longest returns the number of tokens of the longest answer, and whether all answers are complete.
func (g *generation) longest() (tokens int, all bool) {
	for _, c := range g.choices {
		if !c.over {
			return 0, false
		}
		tokens = max(tokens, len(c.answer.Tokens))
	}
	return tokens, true
}

// enter counts a request until the function that it returns is called.
func (m *metrics) enter(g *generation) (leave func()) {
	model := g.target.model
	if own := model.metrics; own != nil {
		labels := own.of(model)
		own.choices.WithLabelValues(labels...).Observe(float64(len(g.choices)))
		if g.most != nil {
			own.most.WithLabelValues(labels...).Observe(float64(*g.most))
		}
	}
	m.arrival.WithLabelValues(model.Name).Observe(time.Since(g.received).Seconds())
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
	own := g.target.model.metrics
	if own == nil {
		return
	}
	labels := own.of(g.target.model)
	seconds := func(h *prometheus.HistogramVec, from, to time.Time) {
		h.WithLabelValues(labels...).Observe(max(0, to.Sub(from).Seconds()))
	}
	own.success.WithLabelValues(append(labels[:len(labels):len(labels)], c.answer.Finish)...).Inc()
	own.prompt.WithLabelValues(labels...).Observe(float64(c.prompt))
	own.answer.WithLabelValues(labels...).Observe(float64(len(c.answer.Tokens)))
	if longest, all := g.longest(); all {
		own.longest.WithLabelValues(labels...).Observe(float64(longest))
	}
	if at := c.call.AdmittedAt(); !at.IsZero() {
		seconds(own.queued, g.received, at)
		seconds(own.prefill, at, c.first)
		seconds(own.inference, at, now)
	}
	seconds(own.decode, c.first, now)
	if n := len(c.answer.Tokens); n > 1 {
		own.each.WithLabelValues(labels...).Observe(now.Sub(c.first).Seconds() / float64(n-1))
	}
}

// refused counts an error.
func (m *metrics) refused(status int) { m.refusals.WithLabelValues(strconv.Itoa(status)).Inc() }
