package report

import (
	"math"
	"slices"
	"strconv"
)

// partDocs says what the parts are; docs/reference/report.md is generated from it.
var partDocs = [numParts]string{
	RouterWait:   "until a router has chosen a worker for it",
	WorkerWait:   "on a worker, until the first pass that it takes part in",
	OwnPrompt:    "computing its own prompt",
	OtherPrompts: "others' prompts in the passes in which it computes its own",
	Preempted:    "after it has lost its KV, until it takes part in a pass again",
	Recompute:    "computing tokens again that it had computed before",
	KVWait:       "two pools: for room on the decode worker, and for that worker to take over the KV",
	KVTransfer:   "while its KV moves: between two pools, or back from host memory before it is admitted",
	Decode:       "the decode part of the passes that it takes part in",
	DecodeSlowed: "others' prompts in passes while it decodes",
	Host:         "host time: `step_overhead_us`, `seq_overhead_us`, `request_overhead_us`",
	LostTime: "until the attempt began that brought its first token, or its last one; and what passes took " +
		"longer because of faults",
}

// partColumns are the keys that rows have besides if latencies were divided.
var partColumns = makePartColumns(PartNames())

// partColumnsWithLost are those of runs with faults.
var partColumnsWithLost = makePartColumns(partNames[:])

func makePartColumns(names []string) (all []column) {
	for _, l := range dividedLatencies {
		for part, name := range names {
			all = append(all, column{
				name: l.prefix + "_" + name + "_ms",
				doc:  "Part of `" + l.name + "`: " + partDocs[part] + ".",
				float: func(rows *Rows, turn int32, r *record) float64 {
					q := &rows.c.attribution.requests[turn]
					if !r.counts() || math.IsNaN(l.whole(q)) {
						return math.NaN()
					}
					return l.of(q)[part]
				},
			})
		}
	}
	return all
}

// dividedLatency is a latency that is divided among parts.
type dividedLatency struct {
	name, prefix string // of the report's group, of columns
	whole        func(*spent) float64
	of           func(*spent) *shares
}

var dividedLatencies = []dividedLatency{
	{"ttft_ms", "ttft", func(q *spent) float64 { return q.ttftMs }, func(q *spent) *shares { return &q.first }},
	{"e2e_latency_ms", "e2e", func(q *spent) float64 { return q.e2eMs }, func(q *spent) *shares { return &q.parts }},
}

// Explanation is where the latencies of a run come from.
type Explanation struct {
	Requests  int // that count
	Latencies []Explained
	names     []string // of parts
}

// Explained is where one kind of latency comes from.
type Explained struct {
	Name string // the report's group
	// Split divides statistics of the latency: its parts add up to the statistic.
	Split []Split
	// Parts are the statistics of each part by itself, in the order of PartNames; time lost to faults comes last.
	Parts [][]Value
}

// Split is a statistic of a latency and its parts, in the order of PartNames.
type Split struct {
	Statistic string
	WholeMs   float64
	PartsMs   [numParts]float64
}

// nearRank is how far from a percentile's rank requests are that say where it comes from, relative to all requests.
const nearRank = 0.005

// Explain says where the latencies come from, nil if they were not divided. It must be called after Summarise.
func (c *Collector) Explain() *Explanation {
	if c.attribution == nil {
		return nil
	}
	var counted []*spent
	for i := range c.attribution.requests {
		if q := &c.attribution.requests[i]; !math.IsNaN(q.ttftMs) {
			counted = append(counted, q)
		}
	}
	e := &Explanation{Requests: len(counted), names: c.attribution.names()}
	for _, l := range dividedLatencies {
		e.Latencies = append(e.Latencies,
			Explained{Name: l.name, Split: l.splits(counted), Parts: l.statistics(counted, e.names)})
	}
	return e
}

// statistics returns those of each part by itself.
func (l dividedLatency) statistics(requests []*spent, names []string) (all [][]Value) {
	values := make([]float64, len(requests))
	for part := range names {
		for i, q := range requests {
			values[i] = l.of(q)[part]
		}
		s := &summary{}
		for i, v := range unsortedStatistics(values) {
			s.float(statNames[i], v)
		}
		all = append(all, s.values)
	}
	return all
}

// splits divides the mean and the percentiles of a latency. A percentile is the latency of one request; where it comes
// from is the mean of all requests near that one, as a single one may be an exception.
func (l dividedLatency) splits(requests []*spent) []Split {
	n := len(requests)
	if n == 0 {
		return nil
	}
	sorted := make([]float64, n)
	for i, q := range requests {
		sorted[i] = l.whole(q)
	}
	slices.Sort(sorted)
	found := statistics(sorted)
	bands := []band{{Split: Split{Statistic: statNames[0], WholeMs: found[0]}, fromMs: sorted[0], toMs: sorted[n-1]}}
	near := int(math.Round(float64(n) * nearRank))
	for i, percent := range percents {
		rank := int(rankOf(percent, int64(n)))
		bands = append(bands, band{
			Split:  Split{Statistic: statNames[3+i], WholeMs: found[3+i]},
			fromMs: sorted[max(0, rank-near)], toMs: sorted[min(n-1, rank+near)],
		})
	}
	all := make([]Split, len(bands))
	for i := 1; i < len(bands); i++ { // the mean is that of all
		bands[i].leaveOut(l, requests)
	}
	for _, q := range requests {
		for i := range bands {
			bands[i].add(l.whole(q), l.of(q))
		}
	}
	for i := range bands {
		all[i] = bands[i].split()
	}
	return all
}

// band is a statistic, and the requests that say where it comes from: those whose latencies lie between two.
type band struct {
	Split
	fromMs, toMs float64
	sumMs        float64
	noLost       bool // requests with time lost to faults do not say where the statistic comes from
}

func (b *band) has(wholeMs float64) bool { return wholeMs >= b.fromMs && wholeMs <= b.toMs }

// leaveOut leaves requests with time lost to faults out of a band in which they are the smaller part: a single crash
// hit one of a few requests near the median, and says nothing about it.
func (b *band) leaveOut(l dividedLatency, requests []*spent) {
	hit, clean := 0, 0
	for _, q := range requests {
		switch {
		case !b.has(l.whole(q)):
		case l.of(q)[LostTime] > 0:
			hit++
		default:
			clean++
		}
	}
	b.noLost = hit < clean
}

func (b *band) add(wholeMs float64, parts *shares) {
	if !b.has(wholeMs) || b.noLost && parts[LostTime] > 0 {
		return
	}
	b.sumMs += wholeMs
	for part, ms := range parts {
		b.PartsMs[part] += ms
	}
}

// split divides the statistic in the proportion in which the latencies of the requests are divided.
func (b *band) split() Split {
	if b.sumMs == 0 {
		return b.Split
	}
	parts := shares(b.PartsMs)
	for part := range parts {
		parts[part] *= b.WholeMs / b.sumMs
	}
	parts.fit(b.WholeMs)
	b.PartsMs = parts
	return b.Split
}

// AppendJSON appends the explanation as a JSON object:
//
//	{"requests": 400, "ttft_ms": {"split": {"mean": {"total": 10.5, "router_wait": 0.0, ...}, "median": ...},
//	 "parts": {"router_wait": {"mean": 0.0, ...}, ...}}, "e2e_latency_ms": ...}
func (e *Explanation) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"requests":`...), int64(e.Requests), 10)
	for _, l := range e.Latencies {
		dst = append(dst, `,"`+l.Name+`":{"split":{`...)
		for i, s := range l.Split {
			values := []Value{{Key: "total", Float: s.WholeMs}}
			for part, name := range e.names {
				values = append(values, Value{Key: name, Float: s.PartsMs[part]})
			}
			dst = appendMember(dst, i, s.Statistic, values)
		}
		dst = append(dst, `},"parts":{`...)
		for part, values := range l.Parts {
			dst = appendMember(dst, part, e.names[part], values)
		}
		dst = append(dst, `}}`...)
	}
	return append(dst, '}')
}

// appendMember appends the member of an object with this number.
func appendMember(dst []byte, number int, name string, values []Value) []byte {
	if number > 0 {
		dst = append(dst, ',')
	}
	return AppendJSON(append(dst, `"`+name+`":`...), values)
}
