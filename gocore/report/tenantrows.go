package report

import "math"

// tenantColumns are the further keys of rows of traces with tenants or deadlines.
var tenantColumns = []column{
	{name: "tenant", doc: "Who has sent it: `tenant` of the trace.",
		text: func(rows *Rows, turn int32, _ *record) string { return rows.w.Hints[turn].Tenant }},
	{name: "deadline_ms", doc: "How long after its arrival its first token should be there: `deadline_ms` of the trace.",
		float: func(rows *Rows, turn int32, _ *record) float64 {
			if ms := rows.w.Hints[turn].DeadlineMs; ms > 0 {
				return ms
			}
			return math.NaN()
		}},
	{name: "deadline_met", doc: "Whether it was there by then: 1, or 0, also of a request without a first token.",
		int: func(rows *Rows, turn int32, r *record) int {
			ms := rows.w.Hints[turn].DeadlineMs
			switch {
			case ms <= 0:
				return -1
			case r.ttftMs() <= ms:
				return 1
			}
			return 0
		}},
}
