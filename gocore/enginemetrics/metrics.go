// Package enginemetrics has the metrics of simulated engines under the names that the engines themselves use, for live
// workers and for the OpenAI-compatible server.
package enginemetrics

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/worker"
)

// Metrics are those of all engines of a process that have the same arguments.
type Metrics struct {
	sglang               bool
	running, waiting     *prometheus.GaugeVec
	usage, oldUsage      *prometheus.GaugeVec
	requests             *prometheus.CounterVec
	preemptions          *prometheus.CounterVec
	hitRate              *prometheus.GaugeVec
	tokens               *tokenMetrics
	perWorker            bool // histograms
	firstToken, gap, e2e *prometheus.HistogramVec
	oldGap               *prometheus.HistogramVec // nil on SGLang
	delay                prometheus.Histogram
}

var (
	firstTokenBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
		160, 640, 2560}
	gapBuckets = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBuckets = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
		7680}
)

// NamesEngine reports whether the engine's own metrics have the label engine, the number of its rank.
func NamesEngine(args engineargs.Args) bool {
	return worker.Traits(args).Metrics != engine.SGLangMetrics
}

// New registers the metrics. Histograms are those of each worker if perWorker is set, else those of each model.
func New(r prometheus.Registerer, args engineargs.Args, perWorker bool) *Metrics {
	names := worker.Traits(args).Metrics
	m := &Metrics{sglang: names == engine.SGLangMetrics, perWorker: perWorker}
	prefix, labels := args.EngineType.String()+":", []string{"model_name", "worker_id", "engine"}
	if m.sglang {
		labels = []string{"model_name", "worker_id", "dp_rank", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank"}
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets},
			m.ofHistograms(labels))
		r.MustRegister(h)
		return h
	}
	if m.sglang {
		m.running = gauge("num_running_reqs", "Requests that run.")
		m.waiting = gauge("num_queue_reqs", "Requests that wait.")
		m.usage = gauge("token_usage", "Fraction of the KV cache in use.")
		m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sglang:num_requests_total",
			Help: "Requests that have finished."}, labels)
		m.hitRate = gauge("cache_hit_rate", "Fraction of prompt tokens found in the cache.")
		r.MustRegister(m.requests)
	} else {
		m.preemptions = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "num_preemptions_total",
			Help: "Running requests that had to give their blocks back."}, labels)
		r.MustRegister(m.preemptions)
		m.running = gauge("num_requests_running", "Requests that run.")
		m.waiting = gauge("num_requests_waiting", "Requests that wait.")
		m.usage = gauge("kv_cache_usage_perc", "Fraction of the KV cache in use.")
		m.oldUsage = gauge("gpu_cache_usage_perc", "The same by its older name.")
		m.oldGap = histogram("time_per_output_token_seconds", "Between two tokens of a request, by its older name.",
			gapBuckets)
	}
	m.tokens = newTokenMetrics(r, prefix, names, labels, m.ofHistograms(labels))
	m.firstToken = histogram("time_to_first_token_seconds", "From the arrival of a request to its first token.",
		firstTokenBuckets)
	m.gap = histogram("inter_token_latency_seconds", "Between two tokens of a request.", gapBuckets)
	m.e2e = histogram("e2e_request_latency_seconds", "From the arrival of a request to its last token.", e2eBuckets)
	m.delay = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "dynosim_token_delay_seconds", Help: "From the simulated time of a token to the moment it has been sent.",
		Buckets: []float64{.0001, .0002, .0003, .0005, .0007, .001, .0015, .002, .003, .005, .01, .02, .05, .1, .2, .5,
			1},
	})
	m.delay = registered(r, m.delay)
	return m
}

// registered returns a histogram that all engines of a process share, whatever their type: the one that is registered
// already, if any.
func registered(r prometheus.Registerer, h prometheus.Histogram) prometheus.Histogram {
	var already prometheus.AlreadyRegisteredError
	switch err := r.Register(h); {
	case err == nil:
		return h
	case errors.As(err, &already):
		return already.ExistingCollector.(prometheus.Histogram)
	default:
		panic(err)
	}
}

// values returns the labels of one rank.
func (m *Metrics) values(model, workerID string, dpRank int) []string {
	rank := strconv.Itoa(dpRank)
	if m.sglang {
		return []string{model, workerID, rank, "sglang", "0", "0", "0"}
	}
	return []string{model, workerID, rank}
}

// ofHistograms selects from the labels of a rank, or their values, those that its histograms have.
func (m *Metrics) ofHistograms(labels []string) []string {
	switch {
	case m.perWorker:
		return labels
	case m.sglang:
		return append(labels[:1:1], labels[3:]...) // without worker_id and dp_rank
	default:
		return []string{labels[0], labels[2]} // without worker_id
	}
}

// Rank returns what follows the load of one rank, and what measures its requests.
func (m *Metrics) Rank(model, workerID string, dpRank int, args *engineargs.Args) (*LoadMetrics, *RequestMetrics) {
	v := m.values(model, workerID, dpRank)
	load := &LoadMetrics{
		blocks:  float64(args.NumGPUBlocks),
		tokens:  m.tokens.rank(v, m.ofHistograms(v), args),
		running: m.running.WithLabelValues(v...), waiting: m.waiting.WithLabelValues(v...),
		usage: []prometheus.Gauge{m.usage.WithLabelValues(v...)},
	}
	h := m.ofHistograms(v)
	requests := &RequestMetrics{
		firstToken: m.firstToken.WithLabelValues(h...), gaps: []prometheus.Observer{m.gap.WithLabelValues(h...)},
		e2e:   m.e2e.WithLabelValues(h...),
		delay: m.delay,
	}
	if m.sglang {
		requests.done = m.requests.WithLabelValues(v...)
		load.hitRate = m.hitRate.WithLabelValues(v...)
	} else {
		load.usage = append(load.usage, m.oldUsage.WithLabelValues(v...))
		load.preemptions = m.preemptions.WithLabelValues(v...)
		requests.gaps = append(requests.gaps, m.oldGap.WithLabelValues(h...))
	}
	return load, requests
}

// Load is the load of an engine.
type Load struct {
	Waiting, Running int // requests
	UsedBlocks       int // of the cache
	Preemptions      int // so far
	// CacheHitRate is the fraction of prompt tokens, of all requests so far, that were found in the cache.
	CacheHitRate float64
	Tokens       TokenCounts
}

// LoadMetrics show how busy an engine is.
type LoadMetrics struct {
	blocks           float64
	running, waiting prometheus.Gauge
	usage            []prometheus.Gauge
	preemptions      prometheus.Counter // nil on SGLang; stays 0 on TensorRT-LLM
	preempted        int                // counted
	hitRate          prometheus.Gauge   // nil on vLLM
	tokens           *tokenCounters
}

// LoadChanged shows the load after a pass, or after requests were cancelled. It must not be called from two goroutines
// at once.
func (m *LoadMetrics) LoadChanged(l Load) {
	m.running.Set(float64(l.Running))
	m.waiting.Set(float64(l.Waiting))
	if m.preemptions != nil {
		m.preemptions.Add(float64(l.Preemptions - m.preempted))
		m.preempted = l.Preemptions
	}
	if m.hitRate != nil {
		m.hitRate.Set(l.CacheHitRate)
	}
	m.tokens.count(l.Tokens)
	for _, g := range m.usage {
		g.Set(float64(l.UsedBlocks) / m.blocks)
	}
}

// RequestMetrics measure the times of the tokens of requests. A nil one does nothing.
type RequestMetrics struct {
	firstToken, e2e prometheus.Observer
	gaps            []prometheus.Observer // of each name
	delay           prometheus.Observer   // between the simulation and the socket
	done            prometheus.Counter    // nil on vLLM
}

// Tokens counts n tokens that are sent together after sent others.
func (m *RequestMetrics) Tokens(sent, n int, received, last, now time.Time) {
	if m == nil {
		return
	}
	if sent == 0 {
		m.firstToken.Observe(now.Sub(received).Seconds())
		sent, n, last = 1, n-1, now
	}
	if n > 0 {
		each := now.Sub(last).Seconds() / float64(n)
		for _, gap := range m.gaps {
			for range n {
				gap.Observe(each)
			}
		}
	}
}

// Sent records how long after their simulated time tokens were sent.
func (m *RequestMetrics) Sent(lateMs float64) {
	if m != nil {
		m.delay.Observe(lateMs / 1000)
	}
}

// Finished counts a request whose answer is complete.
func (m *RequestMetrics) Finished(received time.Time) {
	if m == nil {
		return
	}
	m.e2e.Observe(time.Since(received).Seconds())
	if m.done != nil {
		m.done.Inc()
	}
}
