package tracestats

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Text describes the statistics in lines for a terminal.
func (s Stats) Text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(&b, "requests %d, sessions %d, prompt tokens %d, output tokens %d\n", s.Requests, s.Sessions,
		s.TotalInputTokens, s.TotalOutputTokens)
	if s.WaitingRows > 0 {
		fmt.Fprintf(&b, "requests that wait for others: %d\n", s.WaitingRows)
	}
	b.WriteString("\n")
	fmt.Fprintln(w, "\tcount\tmean\tstd\tmin\tp50\tp90\tp99\tmax\t")
	for _, line := range []struct {
		name    string
		summary Summary
	}{
		{"input tokens", s.InputTokens},
		{"output tokens", s.OutputTokens},
		{"turns per session", s.TurnsPerSession},
		{"delay ms", s.DelayMs},
		{"gap between sessions ms", s.Arrivals.GapMs},
	} {
		line.summary.write(w, line.name)
	}
	w.Flush()
	b.WriteString("\n")
	if s.Arrivals.Timed > 1 {
		fmt.Fprintf(&b, "sessions start over %s s, %s a second, coefficient of variation of the gaps %s\n",
			short(s.Arrivals.SpanMs/1000), short(s.Arrivals.RatePerSecond), short(s.Arrivals.GapCV))
	}
	fmt.Fprintf(&b, "blocks of %d tokens: %d in prompts, %d of them new; the largest request needs %d\n",
		s.BlockSize, s.Prefix.Blocks, s.Prefix.NewBlocks, s.LargestRequestBlocks)
	fmt.Fprintf(&b, "best possible reuse: %s of all prompt tokens, %s within sessions\n",
		short(s.Prefix.BestReuseRatio), short(s.Prefix.WithinSessions))
	for _, problem := range s.Problems {
		fmt.Fprintf(&b, "note: %s\n", problem)
	}
	return b.String()
}

func (s Summary) write(w *tabwriter.Writer, name string) {
	if s.Count == 0 {
		return
	}
	fmt.Fprintf(w, "%s\t%d", name, s.Count)
	for _, x := range []float64{s.Mean, s.Std, s.Min, s.P50, s.P90, s.P99, s.Max} {
		fmt.Fprintf(w, "\t%s", short(x))
	}
	fmt.Fprintln(w, "\t")
}

// short writes a number with four digits, or as an integer if it is large, unless it has more digits than it is known
// to.
func short(x float64) string {
	if size := math.Abs(x); size >= 1000 && size < 1e15 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}
