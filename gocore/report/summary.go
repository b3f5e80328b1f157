package report

import (
	"math"
	"slices"
	"strconv"
)

// SLA bounds the latencies of a good request. A NaN bound is not set.
type SLA struct {
	TTFTMs, ITLMs, E2EMs float64
}

// NoSLA sets no bound.
func NoSLA() SLA { return SLA{TTFTMs: math.NaN(), ITLMs: math.NaN(), E2EMs: math.NaN()} }

// IsSet reports whether any bound is set.
func (s SLA) IsSet() bool {
	return !math.IsNaN(s.TTFTMs) || !math.IsNaN(s.ITLMs) || !math.IsNaN(s.E2EMs)
}

// within reports whether a bound holds; a bound that is not set does.
func within(value, bound float64) bool { return math.IsNaN(bound) || value <= bound }

// met reports whether a request is good. The bound on inter-token latency is on the mean gap over the requested output,
// and holds for requests of one token.
func (s SLA) met(r *record) bool { return s.Met(r.ttftMs(), r.e2eMs(), int(r.outputTokens)) }

// Met does what met does, for latencies of a request of outputTokens tokens.
func (s SLA) Met(ttftMs, e2eMs float64, outputTokens int) bool {
	if outputTokens > 1 && !within((e2eMs-ttftMs)/float64(outputTokens-1), s.ITLMs) {
		return false
	}
	return within(ttftMs, s.TTFTMs) && within(e2eMs, s.E2EMs)
}

// Resources is what the run used, for the report. Aggregated workers count as decode workers.
type Resources struct {
	PrefillWorkerSeconds, DecodeWorkerSeconds float64
	PrefillGPUsPerWorker, DecodeGPUsPerWorker int
	TimingModel                               string // name of the model that said how long passes take
	Scheduler                                 string // whose rules engines follow, with the release; "" for Dynamo's
	HostTier                                  bool   // engines have a tier of host memory
	Storage                                   bool   // and storage behind it
	Faults                                    bool   // workers can be lost
	HostBlockBytes                            int    // size of a block there, 0 if it is not known
	HostLinks                                 int    // links of a worker to host memory: one for each rank
	Ranks                                     bool   // ranks run their passes together
	Groups                                    bool   // caches have several groups
	WallMs                                    float64
	GPUHourPrice                              float64 // price of a GPU for an hour, 0 if it is not known
}

func (u Resources) gpuHours() float64 {
	prefill := float64(u.PrefillWorkerSeconds * float64(u.PrefillGPUsPerWorker))
	decode := float64(u.DecodeWorkerSeconds * float64(u.DecodeGPUsPerWorker))
	return (prefill + decode) / 3600
}

// busy returns the share that busy milliseconds of all workers are of their time, NaN if that is not known.
func (u Resources) busy(ms float64) float64 {
	if u.DecodeWorkerSeconds <= 0 {
		return math.NaN()
	}
	return min(1, ms/1000/u.DecodeWorkerSeconds/float64(max(1, u.HostLinks)))
}

// Value is one entry of a report: a Text if that is not empty, else an Int if IsInt, else a Float, of which NaN stands
// for a number that does not exist.
type Value struct {
	Key   string
	Float float64
	Int   int
	IsInt bool
	Text  string
}

// Summarise computes the report, in the order in which its keys are shown.
//
// Rates divide by the simulated time from 0 to the last token. If no request counts, there are no statistics and no
// ratios. If requests count, but none has what a distribution is over, all its statistics are 0, as in the reference;
// its count tells that from a real 0. What large runs, and those without rows, keep of their passes is then
// used up, so it may be called once.
func (c *Collector) Summarise(used Resources, sla SLA) []Value {
	if c.summed {
		panic("report: Summarise was called again")
	}
	c.summed = c.passing != nil || c.folds()
	if c.passing != nil {
		c.leave()
	}
	c.divideAll()
	of := &sums{totals: c.totals(sla), arrived: c.arrived, rejected: len(c.rejected), durationMs: c.DurationMs(),
		used: used, copied: c.copied, lockstep: c.lockstep.sum, groups: c.groups.sum}
	s := &summary{}
	for _, k := range keys {
		switch {
		case k.goodput && !sla.IsSet() || k.priced && used.GPUHourPrice == 0 || k.ruled && used.Scheduler == "" ||
			k.hosted && !used.HostTier ||
			k.stored && !used.Storage || k.faulty && !used.Faults || k.sized && (!used.HostTier || used.HostBlockBytes == 0) ||
			k.ranked && !used.Ranks || k.grouped && !used.Groups:
		case k.int != nil:
			s.int(k.name, k.int(of))
		case k.float != nil:
			s.float(k.name, k.float(of))
		default:
			s.values = append(s.values, Value{Key: k.name, Text: k.text(of)})
		}
	}
	c.distributions(s, of.requests)
	return s.values
}

// totals are sums over the requests that count, but for finished, which is over all.
type totals struct {
	finished                int
	requests, input, output int
	reused, firstReused     int
	good, goodOutput        int
}

func (c *Collector) totals(sla SLA) totals {
	if c.passing != nil {
		return c.passing.totals
	}
	var t totals
	for i := range c.records {
		t.add(&c.records[i], sla)
	}
	return t
}

// DurationMs returns the time of the last token of any request that counts, 0 if there is none.
func (c *Collector) DurationMs() float64 {
	last := 0.0
	if c.passing != nil {
		last = c.passing.lastMs
	}
	for i := range c.records {
		if r := &c.records[i]; r.counts() {
			last = max(last, r.lastMs)
		}
	}
	return last
}

// Seconds returns the length of a run in seconds, at least a nanosecond, so that rates stay finite.
func Seconds(durationMs float64) float64 { return max(durationMs/1000, 1e-9) }

func (c *Collector) distributions(s *summary, counted int) {
	latencies := c.latencies()
	gaps := c.tokenGaps()
	for _, g := range groups {
		if g.gaps != nil {
			s.repeatedDistribution(g.name, g.gaps(gaps), counted)
		} else {
			s.distribution(g.name, g.once(latencies), counted)
		}
	}
}

// latencies are those of the requests that count, in milliseconds: the times to the first and to the second token, per
// output token, and to the last token.
type latencies struct{ ttft, ttst, tpot, e2e []float64 }

func (c *Collector) latencies() latencies {
	if p := c.passing; p != nil {
		return latencies{existing(p.ttftMs), existing(p.ttstMs), existing(p.tpotMs), existing(p.e2eMs)}
	}
	several := func(r *record) bool { return r.tokens >= 2 }
	every := func(*record) bool { return true }
	return latencies{
		c.perRequest(every, (*record).ttftMs),
		c.perRequest(several, (*record).ttstMs),
		c.perRequest(several, (*record).tpotMs),
		c.perRequest(every, (*record).e2eMs),
	}
}

// perRequest lists a metric of the counted requests that have it.
func (c *Collector) perRequest(has func(*record) bool, metric func(*record) float64) []float64 {
	values := make([]float64, 0, len(c.records))
	for i := range c.records {
		if r := &c.records[i]; r.counts() && has(r) {
			values = append(values, metric(r))
		}
	}
	return values
}

func perSecond(tokens int, wallMs float64) float64 {
	if wallMs <= 0 {
		return 0
	}
	return float64(tokens) / wallMs * 1000
}

// ratio returns NaN where there is no whole.
func ratio(part, whole int) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return float64(part) / float64(whole)
}

// summary builds the list of values.
type summary struct{ values []Value }

func (s *summary) int(key string, v int) {
	s.values = append(s.values, Value{Key: key, Int: v, IsInt: true})
}

func (s *summary) float(key string, v float64) {
	s.values = append(s.values, Value{Key: key, Float: v})
}

// distribution adds the statistics of values, which it sorts, and how many values they are over. counted is the number
// of requests that the report is about.
func (s *summary) distribution(name string, values []float64, counted int) {
	slices.Sort(values)
	s.statistics(name, statistics(values), len(values), counted)
}

// repeatedDistribution does what distribution does, for values that are sorted already.
func (s *summary) repeatedDistribution(name string, sorted []repeated, counted int) {
	s.statistics(name, repeatedStatistics(sorted), int(occurrences(sorted)), counted)
}

func (s *summary) statistics(name string, found [len(statNames)]float64, values, counted int) {
	for i, v := range found {
		if counted == 0 {
			v = math.NaN()
		}
		s.float(statNames[i]+"_"+name, v)
	}
	s.int("count_"+name, values)
}

// AppendJSON appends values as a JSON object, in their order.
func AppendJSON(dst []byte, values []Value) []byte {
	for i, v := range values {
		dst = appendKey(dst, v.Key, i == 0)
		switch {
		case v.Text != "":
			dst = strconv.AppendQuote(dst, v.Text)
		case v.IsInt:
			dst = strconv.AppendInt(dst, int64(v.Int), 10)
		default:
			dst = AppendFloat(dst, v.Float)
		}
	}
	return append(dst, '}')
}
