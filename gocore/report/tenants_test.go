package report

import (
	"math"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/workload"
)

// TestByTenant: four requests, of which b has one rejected and one too late.
func TestByTenant(t *testing.T) {
	c := NewCollector(5, 1)
	c.records = []record{
		{arrivalMs: 0, firstAdmitMs: 0, firstTokenMs: 10, lastMs: 30, inputTokens: 100, tokens: 50, outputTokens: 50,
			status: Completed},
		{arrivalMs: 5, firstAdmitMs: 5, firstTokenMs: 35, lastMs: 60, inputTokens: 100, tokens: 50, outputTokens: 50,
			status: Completed},
		{arrivalMs: 6, firstAdmitMs: 6, firstTokenMs: 26, lastMs: 50, inputTokens: 80, tokens: 20, outputTokens: 20,
			status: Completed},
		{arrivalMs: 7, firstAdmitMs: math.NaN(), firstTokenMs: math.NaN(), lastMs: math.NaN(), status: Rejected},
		newRecord(), // has not arrived
	}
	tenants := []string{"b", "b", "a", "b", "never"}
	got := c.ByTenant(func(id engine.RequestID) (string, float64) { return tenants[id], 25 },
		SLA{TTFTMs: 25, ITLMs: math.NaN(), E2EMs: math.NaN()})
	if len(got.Tenants) != 2 {
		t.Fatalf("%+v", got)
	}
	a, b := got.Tenants[0], got.Tenants[1]
	if a.Name != "a" || a.Completed != 1 || *a.MeanTTFTMs != 20 || *a.Goodput != 1 || *a.InTime != 1 ||
		a.Share != 0.25 {
		t.Errorf("a: %+v", a)
	}
	if b.Requests != 3 || b.Completed != 2 || b.Rejected != 1 || *b.MeanTTFTMs != 20 || *b.P50TTFTMs != 10 ||
		*b.P99TTFTMs != 30 ||
		*b.MeanE2EMs != 42.5 || *b.Goodput != 1 || *b.Deadlines != 3 || *b.InTime != 1 || b.Share != 0.75 {
		t.Errorf("b: %+v", b)
	}
	if want := 400.0 * 400 / (2 * (300*300 + 100*100)); got.Jain != want {
		t.Errorf("Jain index %v, want %v", got.Jain, want)
	}
}

// TestTenantColumns: rows have them only if the trace has tenants or deadlines.
func TestTenantColumns(t *testing.T) {
	c := NewCollector(4, 1)
	c.records = []record{
		{arrivalMs: 0, firstTokenMs: 10, status: Completed},
		{arrivalMs: 5, firstTokenMs: 35, status: Completed},
		{arrivalMs: 6, firstTokenMs: math.NaN(), status: Rejected},
		{arrivalMs: 7, firstTokenMs: 8, status: Completed},
	}
	hints := map[int32]workload.RouterHints{0: {Tenant: "a", DeadlineMs: 10}, 1: {DeadlineMs: 25}, 2: {DeadlineMs: 9}}
	rows := c.Rows(&workload.Workload{Hints: hints})
	tenants, _ := rows.Strings("tenant")
	deadlines, _ := rows.Floats("deadline_ms")
	met, _ := rows.Ints("deadline_met")
	if !slices.Equal(tenants, []string{"a", "", "", ""}) || !slices.Equal(met, []int64{1, 0, 0, -1}) {
		t.Errorf("tenants %q, met %v", tenants, met)
	}
	if !slices.Equal(deadlines[:3], []float64{10, 25, 9}) || !math.IsNaN(deadlines[3]) {
		t.Errorf("deadlines %v", deadlines)
	}
	for _, w := range []*workload.Workload{{}, {Hints: map[int32]workload.RouterHints{0: {Priority: 3}}}} {
		if _, found := c.Rows(w).Ints("deadline_met"); found {
			t.Errorf("a column of deadlines without any: %+v", w.Hints)
		}
	}
}
