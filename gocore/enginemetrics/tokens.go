package enginemetrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
)

// TokenCounts are numbers of tokens since the start of a rank.
type TokenCounts struct {
	// LookedUp are the tokens of prompts that were looked up in the prefix cache, at their first admission; Cached are
	// those of them that were found. Both are 0 without prefix caching.
	LookedUp, Cached int
	// Prompt are the tokens of prompts whose computation has ended with a first token, Generated those of answers.
	Prompt, Generated int
	// Drafts are the turns of requests to draft tokens, Accepted the drafts that were accepted, by position.
	Drafts   int
	Accepted engine.Accepted
}

// tokenMetrics are the counters of tokens and the size of the cache, under the names that the engines use.
type tokenMetrics struct {
	sglang                     bool
	prompt, generated          *prometheus.CounterVec
	lookedUp                   *prometheus.CounterVec // nil on SGLang, which looks up all tokens of prompts
	cached                     *prometheus.CounterVec
	cacheInfo                  *prometheus.GaugeVec
	pageSize, pages, maxTokens *prometheus.GaugeVec // nil on others than SGLang
	iteration                  *prometheus.HistogramVec
	drafts, drafted            *prometheus.CounterVec // these and the next two are nil on SGLang
	accepted, acceptedAt       *prometheus.CounterVec
}

var iterationBuckets = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}

// newTokenMetrics registers them; ofHistograms are the labels of histograms.
func newTokenMetrics(r prometheus.Registerer, prefix string, names engine.MetricNames, labels,
	ofHistograms []string) *tokenMetrics {
	m := &tokenMetrics{sglang: names == engine.SGLangMetrics}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help},
			append(labels[:len(labels):len(labels)], more...))
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string, more ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help},
			append(labels[:len(labels):len(labels)], more...))
		r.MustRegister(g)
		return g
	}
	const configHelp = "The size of the KV cache, in its labels; the value is 1."
	m.prompt = counter("prompt_tokens_total", "Tokens of prompts that have been computed or found in the cache.")
	m.generated = counter("generation_tokens_total", "Tokens that have been generated.")
	if m.sglang {
		m.cached = counter("cached_tokens_total", "Tokens of prompts that were found in the cache.", "cache_source")
		m.cacheInfo = gauge("cache_config_info", configHelp, "page_size", "num_pages")
		m.pageSize = gauge("page_size", "Tokens of a page of the KV cache.")
		m.pages = gauge("num_pages", "Pages of the KV cache.")
		m.maxTokens = gauge("max_total_num_tokens", "Tokens that the KV cache holds.")
		return m
	}
	m.lookedUp = counter("prefix_cache_queries_total", "Tokens of prompts that were looked up in the prefix cache.")
	m.cached = counter("prefix_cache_hits_total", "Tokens of prompts that were found in the prefix cache.")
	m.cacheInfo = gauge("cache_config_info", configHelp, "block_size", "num_gpu_blocks", "enable_prefix_caching")
	m.iteration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    prefix + "iteration_tokens_total",
		Help:    "Tokens of a pass: those of prompts that it completed, and those that it generated.",
		Buckets: iterationBuckets,
	}, ofHistograms)
	r.MustRegister(m.iteration)
	m.drafts = counter("spec_decode_num_drafts_total", "Turns of requests to draft tokens.")
	m.drafted = counter("spec_decode_num_draft_tokens_total", "Tokens that were drafted.")
	m.accepted = counter("spec_decode_num_accepted_tokens_total", "Drafted tokens that were accepted.")
	m.acceptedAt = counter("spec_decode_num_accepted_tokens_per_pos_total",
		"Drafted tokens that were accepted, by their position.", "position")
	return m
}

// rank returns the counters of a rank with these labels, and sets the gauges for the size of its cache.
func (m *tokenMetrics) rank(labels, ofHistograms []string, args *engineargs.Args) *tokenCounters {
	with := func(more ...string) []string { return append(labels[:len(labels):len(labels)], more...) }
	c := &tokenCounters{prompt: m.prompt.WithLabelValues(labels...), generated: m.generated.WithLabelValues(labels...)}
	blockSize, blocks := strconv.Itoa(args.BlockSize), strconv.Itoa(args.NumGPUBlocks)
	if m.sglang {
		c.cached = m.cached.WithLabelValues(with("device")...)
		m.cacheInfo.WithLabelValues(with(blockSize, blocks)...).Set(1)
		m.pageSize.WithLabelValues(labels...).Set(float64(args.BlockSize))
		m.pages.WithLabelValues(labels...).Set(float64(args.NumGPUBlocks))
		m.maxTokens.WithLabelValues(labels...).Set(float64(args.BlockSize) * float64(args.NumGPUBlocks))
		return c
	}
	c.lookedUp, c.cached = m.lookedUp.WithLabelValues(labels...), m.cached.WithLabelValues(labels...)
	m.cacheInfo.WithLabelValues(with(blockSize, blocks, pythonBool(args.PrefixCaching))...).Set(1)
	c.iteration = m.iteration.WithLabelValues(ofHistograms...)
	if args.Drafts > 0 { // as vLLM, which shows these only if it decodes speculatively
		c.draftTokens = args.Drafts
		c.drafts, c.drafted, c.accepted = m.drafts.WithLabelValues(labels...), m.drafted.WithLabelValues(labels...),
			m.accepted.WithLabelValues(labels...)
		for position := range args.Drafts {
			c.acceptedAt = append(c.acceptedAt, m.acceptedAt.WithLabelValues(with(strconv.Itoa(position))...))
		}
	}
	return c
}

// pythonBool returns how engines, which are written in Python, show a truth value in a label.
func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// tokenCounters count the tokens of one rank.
type tokenCounters struct {
	prompt, generated, cached prometheus.Counter
	lookedUp                  prometheus.Counter  // nil on SGLang
	iteration                 prometheus.Observer // nil on SGLang
	draftTokens               int                 // of a turn; 0 without speculative decoding, and on SGLang
	drafts, drafted, accepted prometheus.Counter
	acceptedAt                []prometheus.Counter // by position
	counted                   TokenCounts
}

// count brings the counters up to a newer state.
func (c *tokenCounters) count(now TokenCounts) {
	c.prompt.Add(float64(now.Prompt - c.counted.Prompt))
	c.generated.Add(float64(now.Generated - c.counted.Generated))
	c.cached.Add(float64(now.Cached - c.counted.Cached))
	if c.lookedUp != nil {
		c.lookedUp.Add(float64(now.LookedUp - c.counted.LookedUp))
	}
	if n := now.Prompt + now.Generated - c.counted.Prompt - c.counted.Generated; n > 0 && c.iteration != nil {
		c.iteration.Observe(float64(n))
	}
	if c.draftTokens > 0 {
		c.countDrafts(now)
	}
	c.counted = now
}

// countDrafts brings the counters of speculative decoding up to a newer state.
func (c *tokenCounters) countDrafts(now TokenCounts) {
	drafts := now.Drafts - c.counted.Drafts
	c.drafts.Add(float64(drafts))
	c.drafted.Add(float64(drafts * c.draftTokens))
	for position, counter := range c.acceptedAt {
		accepted := float64(now.Accepted[position] - c.counted.Accepted[position])
		counter.Add(accepted)
		c.accepted.Add(accepted)
	}
}
