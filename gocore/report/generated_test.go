package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite

const pageHead = `# Keys of the report and columns of its rows

<!-- Code generated from gocore/report/keys.go, distribution.go and rows.go by go generate ./gocore/report. ` +
	`DO NOT EDIT. -->

[The report and its rows](../report.md) says which requests a number is about. Times are in simulated milliseconds ` +
	`from the first arrival on.

## Keys

`

// TestGeneratedPage keeps docs/reference/report.md.
func TestGeneratedPage(t *testing.T) {
	var out strings.Builder
	out.WriteString(pageHead + "| key | unit | meaning |\n|---|---|---|\n")
	for _, k := range keys {
		doc := k.doc
		if k.goodput {
			doc += " The key is there only if a bound was given."
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", k.name, k.unit, doc)
	}
	out.WriteString("| `attribution` |  | Where latencies come from, see [why](../why.md#where-the-numbers-are). " +
		"The key is there only with `--explain`. |\n")
	out.WriteString("| `tenants`, `tenant_jain_index` |  | What each tenant of the trace got, " +
		"see [tenants](../routers.md#tenants-priorities-and-deadlines). The keys are there only if the trace has tenants. " +
		"|\n")
	fmt.Fprintf(&out,
		"| `provenance` |  | What was run, see [where a report comes from](../report.md#where-a-report-comes-from). |\n"+
			"\n## Statistics\n\nEach group has the keys `%s_GROUP`, and `count_GROUP`, the number of values they are over. "+
			"Percentiles are\n"+
			"nearest ranks, not interpolated; `std` is that of the population.\n\n| group | unit | over |\n|---|---|---|\n",
		strings.Join(statNames[:], "_GROUP`, `"))
	for _, g := range groups {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", g.name, g.unit, g.doc)
	}
	writeColumns(&out, "the rows", "A value that a request does not have is null in the file. "+
		"In Python it is NaN for a time, -1 for a count or an index, and\n"+
		"`\"\"` for a text.", columns)
	writeColumns(&out, "runs with data-parallel ranks", "With several [ranks](../ranks.md) per worker rows have this "+
		"column, too.", slices.Concat(rankColumns, prefillRankColumns))
	writeColumns(&out, "traces with tenants or deadlines", "If any row of the trace has a [tenant or a "+
		"deadline](../routers.md#tenants-priorities-and-deadlines), rows have these columns, too.", tenantColumns)
	writeColumns(&out, "explained runs", "With `--explain` or `attribution=True` rows have these columns, "+
		"too. The parts of a latency are never negative and add up to it.\n"+
		"[Why latencies are what they are](../why.md) defines them.", partColumns)
	writeColumns(&out, "runs with faults", "With [faults](../faults.md), client time-outs or hedging rows "+
		"have these columns, too.", trialColumns)
	for _, c := range partColumnsWithLost {
		if !slices.ContainsFunc(partColumns, func(other column) bool { return other.name == c.name }) {
			fmt.Fprintf(&out, "| `%s` | Explained runs only. %s |\n", c.name, c.doc)
		}
	}
	fieldtable.Keep(t, "../../docs/reference/report.md", out.String())
}

// writeColumns writes the section about some of the columns.
func writeColumns(out *strings.Builder, of, text string, columns []column) {
	fmt.Fprintf(out, "\n## Columns of %s\n\n%s\n\n| column | meaning |\n|---|---|\n", of, text)
	for _, c := range columns {
		fmt.Fprintf(out, "| `%s` | %s |\n", c.name, c.doc)
	}
}
