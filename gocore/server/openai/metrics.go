package openai

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of requests, beside those of engines that package enginemetrics has.
type metrics struct {
	success  *prometheus.CounterVec
	prompt   *prometheus.HistogramVec
	answer   *prometheus.HistogramVec
	queued   *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	open     *prometheus.GaugeVec
}

var lengthBuckets = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}

func newMetrics(r *prometheus.Registry, models []*Model) *metrics {
	m := &metrics{
		success:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:request_success_total", Help: "Requests that have finished."}, []string{"model_name", "finished_reason"}),
		prompt:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:request_prompt_tokens", Help: "Tokens of prompts.", Buckets: lengthBuckets}, []string{"model_name"}),
		answer:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:request_generation_tokens", Help: "Tokens of answers.", Buckets: lengthBuckets}, []string{"model_name"}),
		queued:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:request_queue_time_seconds", Help: "From the arrival of a request to the beginning of its first pass.", Buckets: []float64{.001, .005, .01, .05, .1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960}}, []string{"model_name"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynosim_http_errors_total", Help: "Requests that got an error instead of an answer, by status."}, []string{"status"}),
		open:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dynosim_requests_in_flight", Help: "Requests that are being answered."}, []string{"model_name"}),
	}
	r.MustRegister(m.success, m.prompt, m.answer, m.queued, m.refusals, m.open, adapterMetrics{models})
	return m
}

// enter counts a request until the function that it returns is called.
func (m *metrics) enter(g *generation) (leave func()) {
	open := m.open.WithLabelValues(g.target.model.Name)
	open.Inc()
	return open.Dec
}

// finished counts an answer that is complete.
func (m *metrics) finished(g *generation, c *choice) {
	name := g.target.model.Name
	m.success.WithLabelValues(name, c.answer.Finish).Inc()
	m.prompt.WithLabelValues(name).Observe(float64(c.prompt))
	m.answer.WithLabelValues(name).Observe(float64(len(c.answer.Tokens)))
	if at := c.call.AdmittedAt(); !at.IsZero() {
		m.queued.WithLabelValues(name).Observe(max(0, at.Sub(g.received).Seconds()))
	}
	g.target.model.Latencies.Finished(g.received)
}

// refused counts an error.
func (m *metrics) refused(status int) { m.refusals.WithLabelValues(strconv.Itoa(status)).Inc() }

// adapterMetrics show which adapters have requests, as gateways read it.
type adapterMetrics struct{ models []*Model }

var adapterInfo = prometheus.NewDesc("vllm:lora_requests_info",
	"The adapters of requests that run and that wait, in its labels; the value is the time.",
	[]string{"max_lora", "running_lora_adapters", "waiting_lora_adapters"}, nil)

// Describe implements [prometheus.Collector].
func (adapterMetrics) Describe(to chan<- *prometheus.Desc) { to <- adapterInfo }

// Collect implements [prometheus.Collector].
func (a adapterMetrics) Collect(to chan<- prometheus.Metric) {
	var running, waiting []string
	most := 0
	for _, m := range a.models {
		for _, adapter := range m.loaded() {
			most++
			w, r := adapter.load()
			if r > 0 {
				running = append(running, adapter.name)
			}
			if w > 0 {
				waiting = append(waiting, adapter.name)
			}
		}
	}
	to <- prometheus.MustNewConstMetric(adapterInfo, prometheus.GaugeValue, float64(time.Now().UnixNano())/1e9,
		strconv.Itoa(most), strings.Join(running, ","), strings.Join(waiting, ","))
}
