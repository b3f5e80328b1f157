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
	type latencies struct{ ttft, e2e []float64 }
	places := map[string]int{}
	var found []Tenant
	var times []latencies
	var deadlines bool
	type count struct{ good, due, inTime int }
	var counts []count
	for id := range c.records {
		r := &c.records[id]
		if math.IsNaN(r.arrivalMs) {
			continue
		}
		name, deadlineMs := of(engine.RequestID(id))
		place, known := places[name]
		if !known {
			place = len(found)
			places[name] = place
			found, times, counts = append(found, Tenant{Name: name}), append(times, latencies{}),
				append(counts, count{})
		}
		t, n := &found[place], &counts[place]
		t.Requests++
		if deadlineMs > 0 {
			deadlines = true
			n.due++
			if r.ttftMs() <= deadlineMs {
				n.inTime++
			}
		}
		if r.status == Rejected {
			t.Rejected++
		}
		if r.status != Completed || !r.counts() {
			continue
		}
		t.Completed++
		t.InputTokens += r.inputTokens
		t.OutputTokens += int(r.tokens)
		times[place].ttft, times[place].e2e = append(times[place].ttft, r.ttftMs()), append(times[place].e2e, r.e2eMs())
		if sla.met(r) {
			n.good++
		}
	}
	var sum, squares float64
	for i := range found {
		t := &found[i]
		served := float64(t.InputTokens + t.OutputTokens)
		sum += served
		squares += float64(served * served)
		if len(times[i].ttft) > 0 {
			slices.Sort(times[i].ttft)
			t.MeanTTFTMs, t.MeanE2EMs = meanOf(times[i].ttft), meanOf(times[i].e2e)
			t.P50TTFTMs, t.P99TTFTMs = rank(times[i].ttft, 0.5), rank(times[i].ttft, 0.99)
		}
		if sla.IsSet() {
			t.Goodput = &counts[i].good
		}
		if deadlines {
			t.Deadlines, t.InTime = &counts[i].due, &counts[i].inTime
		}
	}
	result := Tenants{Tenants: found, Jain: 1}
	if sum > 0 {
		for i := range found {
			found[i].Share = float64(found[i].InputTokens+found[i].OutputTokens) / sum
		}
		result.Jain = float64(sum*sum) / float64(float64(len(found))*squares)
	}
	slices.SortFunc(found, func(a, b Tenant) int { return cmp.Compare(a.Name, b.Name) })
	return result
}

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
