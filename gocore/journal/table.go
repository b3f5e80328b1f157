package journal

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
)

// Table is the series as columns. For each window it has a row for the whole cluster, and then one for each worker.
type Table struct {
	StepMs float64
	Rows   int
	EndMs  float64 // of the last window, which may be shorter than the others
	Kind
	figures []figure
	columns []column
}

// Kind is what runs have further columns for.
type Kind struct {
	Faulty bool // something may go wrong
	Ranked bool // ranks run their passes together
	Hosted bool // there is a tier of host memory
	// Grouped tells that caches have several groups.
	Grouped bool
}

type column struct {
	name   string
	floats []float64
	ints   []int64
	texts  []string
}

// percents are the percentiles of latencies, and percentNames what columns call them.
var (
	percents     = []float64{50, 90, 99}
	percentNames = []string{"p50", "p90", "p99"}
)

// FloatColumns, IntColumns and TextColumns return the names of columns, in the order in which they are shown: texts,
// whole numbers, then the others, of which some kinds of runs have more.
func FloatColumns(k Kind) []string {
	names := []string{"start_ms"}
	for _, f := range figures(k) {
		names = append(names, f.name)
	}
	for _, latency := range []string{"ttft_", "itl_"} {
		for _, p := range percentNames {
			names = append(names, latency+p+"_ms")
		}
	}
	return names
}

// IntColumns: see FloatColumns.
func IntColumns() []string { return []string{"worker", "preemptions"} }

// TextColumns: see FloatColumns.
func TextColumns() []string { return []string{"pool"} }

// place is what a row is about: a worker, or the cluster.
type place struct {
	pool   string
	number int // -1 for the cluster
	window
	routerMs float64 // requests that wait in front of all workers; NaN for a worker
	workers  int     // 1 for a worker
	links    int     // links of each of them to host memory
	blocks   int
	others   int     // blocks of the pool from which the groups beside full attention take theirs
	ms       float64 // length of the window
	emits    bool
	goods    bool // there is a service level
}

func (p *place) perSecond(n int64) float64 { return float64(n) / (p.ms / 1000) }

// figure is a column that is a figure of a row. NaN stands for none.
type figure struct {
	name string
	of   func(p *place) float64
}

// figures returns those of a run.
func figures(k Kind) []figure {
	all := slices.Clone(usual)
	if k.Ranked {
		all = append(all, ofRanks...)
	}
	if k.Hosted {
		all = append(all, ofHosts...)
	}
	if k.Grouped {
		all = append(all, ofGroups...)
	}
	if k.Faulty {
		all = append(all, ofFaults...)
	}
	return all
}

// ofRanks are those that only runs with ranks have.
var ofRanks = []figure{
	{"rank_wait", func(p *place) float64 { return p.rankWaitMs / p.rankMs }},
}

// ofHosts are those that only runs with a tier of host memory have.
var ofHosts = []figure{
	{"host_hit_rate", func(p *place) float64 { return float64(p.hostFound) / float64(p.promptTokens) }},
	{"host_store_busy", func(p *place) float64 { return p.storeMs / p.ms / float64(p.workers*p.links) }},
	{"host_load_busy", func(p *place) float64 { return p.loadMs / p.ms / float64(p.workers*p.links) }},
	{"host_stored_blocks_per_s", func(p *place) float64 { return p.storedBlocks / (p.ms / 1000) }},
	{"host_loaded_blocks_per_s", func(p *place) float64 { return p.loadedBlocks / (p.ms / 1000) }},
}

// ofGroups are those that only runs with several groups in a cache have.
var ofGroups = []figure{
	{"kv_use_full_attention", func(p *place) float64 { return p.fullBlocksMs / p.ms / float64(p.blocks) }},
	{"kv_use_other_groups", func(p *place) float64 { return p.otherBlocksMs / p.ms / float64(p.others) }},
	{"kv_wait_full_attention", func(p *place) float64 { return p.waitFullMs / p.ms / float64(p.workers) }},
	{"kv_wait_other_groups", func(p *place) float64 { return p.waitOthersMs / p.ms / float64(p.workers) }},
}

// ofFaults are those that only runs with faults have.
var ofFaults = []figure{
	{"workers_working", func(p *place) float64 { return p.worksMs / p.ms }},
	{"failures_per_s", func(p *place) float64 { return p.ifCluster(p.perSecond(p.failures)) }},
	{"migrations_per_s", func(p *place) float64 { return p.ifCluster(p.perSecond(p.migrations)) }},
	{"retries_per_s", func(p *place) float64 { return p.ifCluster(p.perSecond(p.retries)) }},
	{"recomputed_tokens_per_s", func(p *place) float64 { return p.perSecond(p.recomputedTokens) }},
	{"lost_tokens_per_s", func(p *place) float64 { return p.ifEmits(p.perSecond(p.lostTokens)) }},
}

// usual are those that all runs have.
var usual = []figure{
	{"waiting", func(p *place) float64 { return p.waitingMs / p.ms }},
	{"router_waiting", func(p *place) float64 { return p.routerMs / p.ms }},
	{"running", func(p *place) float64 { return p.runningMs / p.ms }},
	{"busy", func(p *place) float64 { return p.busyMs / p.ms / float64(p.workers) }},
	{"kv_use", func(p *place) float64 { return p.blocksMs / p.ms / float64(p.blocks) }},
	{"hit_rate", func(p *place) float64 { return float64(p.reusedTokens) / float64(p.promptTokens) }},
	{"prompt_tokens_per_s", func(p *place) float64 { return p.perSecond(p.promptTokens) }},
	{"output_tokens_per_s", func(p *place) float64 { return p.ifEmits(p.perSecond(p.tokens)) }},
	{"arrivals_per_s", func(p *place) float64 { return p.ifCluster(p.perSecond(p.arrivals)) }},
	{"completions_per_s", func(p *place) float64 { return p.ifCluster(p.perSecond(p.completions)) }},
	{"goodput_per_s", func(p *place) float64 {
		if !p.goods {
			return math.NaN()
		}
		return p.ifCluster(p.perSecond(p.good))
	}},
}

func (p *place) ifCluster(x float64) float64 {
	if p.number >= 0 {
		return math.NaN()
	}
	return x
}

func (p *place) ifEmits(x float64) float64 {
	if !p.emits {
		return math.NaN()
	}
	return x
}

var poolNames = map[engine.Role]string{engine.Aggregated: "agg", engine.Prefill: "prefill", engine.Decode: "decode"}

// Table returns the series of a journal that is closed, nil if it has none.
func (j *Journal) Table() *Table {
	if j == nil || !j.cfg.Series {
		return nil
	}
	workers, totals := j.all(), j.sumOfTotals()
	stepMs := totals.stepMs
	for _, w := range workers {
		stepMs = max(stepMs, w.series.stepMs)
	}
	totals.widenTo(stepMs)
	for _, w := range workers {
		w.series.widenTo(stepMs)
	}
	j.keepLast(append(seriesOf(workers), totals), stepMs)
	t := newTable(stepMs, Kind{Faulty: j.attempts != nil, Ranked: j.cfg.Ranked, Hosted: j.cfg.Hosted,
		Grouped: j.cfg.Grouped})
	t.EndMs = j.nowMs
	for i := 0; ; i++ {
		lengthMs := min(stepMs, j.nowMs-float64(float64(i)*stepMs))
		if lengthMs <= 0 {
			return t
		}
		places := []place{{pool: "cluster", number: -1, ms: lengthMs, emits: true, goods: j.cfg.Good != nil}}
		for _, w := range workers {
			p := place{
				pool: poolNames[w.role], number: w.number, window: w.series.window(i), workers: 1, blocks: w.blocks,
				links: max(1, j.cfg.HostLinks), others: w.otherBlocks(), ms: lengthMs,
				routerMs: math.NaN(), emits: w.role != engine.Prefill,
			}
			places = append(places, p)
		}
		places[0].sum(places[1:], totals.window(i))
		for k := range places {
			t.add(float64(float64(i)*stepMs), &places[k])
		}
	}
}

// keepLast has the last window hold what happened at its very end, as no other one follows.
func (j *Journal) keepLast(all []*series, stepMs float64) {
	for _, s := range all {
		if n := int(j.nowMs / stepMs); n > 0 && n < len(s.windows) && float64(float64(n)*stepMs) == j.nowMs {
			s.windows[n-1].add(&s.windows[n])
		}
	}
}

func seriesOf(workers []*worker) []*series {
	var all []*series
	for _, w := range workers {
		all = append(all, w.series)
	}
	return all
}

// sum makes the row of a cluster from those of its workers and what happens in front of them.
func (p *place) sum(workers []place, front window) {
	p.window, p.routerMs, p.links = front, front.waitingMs, 1
	p.ttftMs, p.itl = nil, histogram{}
	for i := range workers {
		p.window.add(&workers[i].window)
		p.workers++
		p.links = workers[i].links
		p.blocks += workers[i].blocks
		p.others += workers[i].others
	}
	p.worksMs = front.worksMs // those that were never heard of included
}

// window returns a window by number, which may lie behind the last one.
func (s *series) window(i int) window {
	if i < len(s.windows) {
		return s.windows[i]
	}
	return window{}
}

func (s *series) widenTo(stepMs float64) {
	for s.stepMs < stepMs {
		s.widen()
	}
}

// sumOfTotals joins what parts have counted in front of the workers.
func (j *Journal) sumOfTotals() *series {
	stepMs := 0.0
	for _, part := range j.withParts() {
		stepMs = max(stepMs, part.totals.stepMs)
	}
	sum := &series{stepMs: stepMs, most: j.totals.most}
	for _, part := range j.withParts() {
		part.totals.widenTo(stepMs)
		for i := range part.totals.windows {
			sum.at(float64((float64(i) + 0.5) * stepMs)).add(&part.totals.windows[i])
		}
	}
	return sum
}

func newTable(stepMs float64, k Kind) *Table {
	t := &Table{StepMs: stepMs, Kind: k, figures: figures(k)}
	for _, name := range FloatColumns(k) {
		t.columns = append(t.columns, column{name: name, floats: []float64{}})
	}
	for _, name := range IntColumns() {
		t.columns = append(t.columns, column{name: name, ints: []int64{}})
	}
	for _, name := range TextColumns() {
		t.columns = append(t.columns, column{name: name, texts: []string{}})
	}
	return t
}

// add appends a row.
func (t *Table) add(startMs float64, p *place) {
	floats := []float64{startMs}
	for _, f := range t.figures {
		floats = append(floats, f.of(p))
	}
	floats = append(floats, exactPercentiles(p.ttftMs, percents)...)
	floats = append(floats, p.itl.percentiles(percents)...)
	for i, x := range floats {
		if math.IsInf(x, 0) { // no blocks
			x = math.NaN()
		}
		t.columns[i].floats = append(t.columns[i].floats, x)
	}
	rest := t.columns[len(floats):]
	rest[0].ints = append(rest[0].ints, int64(p.number))
	rest[1].ints = append(rest[1].ints, p.preemptions)
	rest[2].texts = append(rest[2].texts, p.pool)
	t.Rows++
}

// Floats returns a column of numbers, NaN for none; false if there is no such column.
func (t *Table) Floats(name string) ([]float64, bool) {
	c := t.find(name)
	return c.floats, c.floats != nil
}

// Ints returns a column of whole numbers, -1 for none; false if there is no such column.
func (t *Table) Ints(name string) ([]int64, bool) {
	c := t.find(name)
	return c.ints, c.ints != nil
}

// Strings returns a column of texts; false if there is no such column.
func (t *Table) Strings(name string) ([]string, bool) {
	c := t.find(name)
	return c.texts, c.texts != nil
}

func (t *Table) find(name string) column {
	if t != nil {
		for _, c := range t.columns {
			if c.name == name {
				return c
			}
		}
	}
	return column{}
}
