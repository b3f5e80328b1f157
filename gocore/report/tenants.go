package report

import (
	"cmp"
	"math"
	"slices"

	"dynosim/gocore/engine"
)

// Tenant is what became of the requests of one tenant.
type Tenant struct {
	Name      string `json:"tenant"` // "" for requests that have none
	Requests  int    `json:"requests"`
	Completed int    `json:"completed_requests"`
	Rejected  int    `json:"rejected_requests"`
	// Tokens that were served, of prompts and outputs of completed requests, and their share of those of all tenants.
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Share        float64 `json:"share"`

	MeanTTFTMs *float64 `json:"mean_ttft_ms"` // null without a completed request
	P50TTFTMs  *float64 `json:"p50_ttft_ms"`
	P99TTFTMs  *float64 `json:"p99_ttft_ms"`
	MeanE2EMs  *float64 `json:"mean_e2e_latency_ms"`

	Goodput *int `json:"goodput_completed_requests,omitempty"` // within all bounds; nil if none was given
	// that have a deadline; nil if none of any tenant has one
	Deadlines *int `json:"deadline_requests,omitempty"`
	InTime    *int `json:"deadline_met_requests,omitempty"` // whose first token was there by then
}

// Tenants is the report of tenants.
type Tenants struct {
	Tenants []Tenant `json:"tenants"` // by name
	// Jain is the Jain index of the tokens served to tenants: 1 if all got as many, 1 divided by their number if one
	// got all.
	Jain float64 `json:"tenant_jain_index"`
}

// ByTenant sums up the requests of each tenant. of says whose a request is and its deadline after arrival, 0 for none.
// The collector must keep all records.
func (c *Collector) ByTenant(of func(engine.RequestID) (tenant string, deadlineMs float64), sla SLA) Tenants {
	places := map[string]int{}
	var tallies []tally
	deadlines := false
	for id := range c.records {
		r := &c.records[id]
		if math.IsNaN(r.arrivalMs) {
			continue
		}
		name, deadlineMs := of(engine.RequestID(id))
		place, known := places[name]
		if !known {
			place = len(tallies)
			places[name] = place
			tallies = append(tallies, tally{Tenant: Tenant{Name: name}})
		}
		tallies[place].count(r, deadlineMs, sla)
		deadlines = deadlines || deadlineMs > 0
	}
	var found []Tenant
	for i := range tallies {
		found = append(found, tallies[i].summary(sla.IsSet(), deadlines))
	}
	jain := divide(found)
	slices.SortFunc(found, func(a, b Tenant) int { return cmp.Compare(a.Name, b.Name) })
	return Tenants{Tenants: found, Jain: jain}
}

// tally is what is counted of a tenant.
type tally struct {
	Tenant
	ttftMs, e2eMs     []float64 // of completed requests
	good, due, inTime int       // requests within all bounds, with a deadline, with a first token by then
}

// count counts a request that has arrived.
func (t *tally) count(r *record, deadlineMs float64, sla SLA) {
	t.Requests++
	if deadlineMs > 0 {
		t.due++
		if r.ttftMs() <= deadlineMs {
			t.inTime++
		}
	}
	if r.status == Rejected {
		t.Rejected++
	}
	if r.status != Completed || !r.counts() {
		return
	}
	t.Completed++
	t.InputTokens += r.inputTokens
	t.OutputTokens += int(r.tokens)
	t.ttftMs, t.e2eMs = append(t.ttftMs, r.ttftMs()), append(t.e2eMs, r.e2eMs())
	if sla.met(r) {
		t.good++
	}
}

// summary returns the figures of the tenant but for its share of all tokens: with goodput if there are bounds, with
// deadlines if any tenant has one.
func (t *tally) summary(goodput, deadlines bool) Tenant {
	found := t.Tenant
	if len(t.ttftMs) > 0 {
		slices.Sort(t.ttftMs)
		found.MeanTTFTMs, found.MeanE2EMs = meanOf(t.ttftMs), meanOf(t.e2eMs)
		found.P50TTFTMs, found.P99TTFTMs = rank(t.ttftMs, 0.5), rank(t.ttftMs, 0.99)
	}
	if goodput {
		found.Goodput = &t.good
	}
	if deadlines {
		found.Deadlines, found.InTime = &t.due, &t.inTime
	}
	return found
}

// divide sets the share of each tenant in the tokens of all, and returns the Jain index.
func divide(tenants []Tenant) (jain float64) {
	var sum, squares float64
	for i := range tenants {
		served := tenants[i].served()
		sum += served
		squares += float64(served * served)
	}
	if sum == 0 {
		return 1
	}
	for i := range tenants {
		tenants[i].Share = tenants[i].served() / sum
	}
	return float64(sum*sum) / float64(float64(len(tenants))*squares)
}

// served returns the tokens that the tenant got.
func (t *Tenant) served() float64 { return float64(t.InputTokens + t.OutputTokens) }

func meanOf(values []float64) *float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(len(values))
	return &mean
}

// rank returns the smallest of sorted values that a share of them does not exceed.
func rank(sorted []float64, share float64) *float64 {
	return &sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
}
