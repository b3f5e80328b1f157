package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/handoff"
	"dynosim/gocore/report"
	"dynosim/gocore/scripttest"
	"dynosim/gocore/workload"
)

// TestGolden runs testdata/*.txt: disaggregated runs, from a description to the life of each request; see
// testdata/handoff.txt for how to read them. -rewrite writes the results anew.
func TestGolden(t *testing.T) {
	scripttest.RunOnly(t, "testdata", "disagg",
		func(t *testing.T, d *datadriven.TestData) string { return parseGolden(t, d).run(t) })
}

// golden is one example.
type golden struct {
	cfg   Config
	names []string // of the requests
	keys  []string // of the report, to be shown
}

// nestedKeys are engine arguments that are members of "sglang".
var nestedKeys = []string{"chunked_prefill_size", "overlap_schedule", "num_reserved_decode_tokens"}

// parseGolden reads a command. "prefill." and "decode." stand before engine arguments of one side, all other keys that
// it does not know are arguments of both.
func parseGolden(t *testing.T, d *datadriven.TestData) *golden {
	g := &golden{cfg: Config{MaxSimTimeMs: math.Inf(1)}}
	c := &DisaggConfig{PrefillWorkers: 1, DecodeWorkers: 1}
	var prefill, decode []string
	var nested [2][]string // members of "sglang" of both sides
	for _, a := range d.CmdArgs {
		value := strings.Join(a.Vals, ",")
		number := func() float64 {
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				d.Fatalf(t, "%s: %v", a.Key, err)
			}
			return x
		}
		switch a.Key {
		case "workers": // prefill+decode
			if _, err := fmt.Sscanf(value, "%d+%d", &c.PrefillWorkers, &c.DecodeWorkers); err != nil {
				d.Fatalf(t, "%s: %v", a.Key, err)
			}
		case "bytes_per_token":
			c.Transfer.BytesPerToken = int(number())
		case "bandwidth":
			c.Transfer.BandwidthGBs = number()
		case "ms_per_block":
			c.Transfer.MsPerBlock = number()
		case "transfer":
			c.Transfer.Mode = map[string]handoff.Mode{"full_prompt": handoff.FullPrompt,
				"destination_missing": handoff.DestinationMissing}[value]
		case "concurrency":
			g.cfg.Concurrency = int(number())
		case "cap":
			g.cfg.MaxSimTimeMs = number()
		case "keys":
			g.keys = a.Vals
		default:
			key, onPrefill := strings.CutPrefix(a.Key, "prefill.")
			key, onDecode := strings.CutPrefix(key, "decode.")
			if _, err := strconv.ParseFloat(value, 64); err != nil && value != "true" && value != "false" {
				value = strconv.Quote(value)
			}
			field := fmt.Sprintf("%q: %s", strings.Replace(key, "blocks", "num_gpu_blocks", 1), value)
			sides := []*[]string{&prefill, &decode}
			if slices.Contains(nestedKeys, key) {
				sides = []*[]string{&nested[0], &nested[1]}
			}
			if !onDecode {
				*sides[0] = append(*sides[0], field)
			}
			if !onPrefill {
				*sides[1] = append(*sides[1], field)
			}
		}
	}
	for i, side := range []*[]string{&prefill, &decode} {
		if len(nested[i]) > 0 {
			*side = append(*side, `"sglang": {`+strings.Join(nested[i], ", ")+"}")
		}
	}
	c.Prefill = enginetest.Args(t, "{"+strings.Join(prefill, ", ")+"}")
	c.Decode = enginetest.Args(t, "{"+strings.Join(decode, ", ")+"}")
	g.cfg.Disagg = c
	g.load(t, d, c.Decode)
	return g
}

// load reads the requests: a name, then key=value.
func (g *golden) load(t *testing.T, d *datadriven.TestData, args engineargs.Args) {
	var rows strings.Builder
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		g.names = append(g.names, words[0])
		var fields []string
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "at":
				key = "timestamp"
			case "prompt":
				key = "input_length"
			case "out":
				key = "output_length"
			case "session":
				key, value = "session_id", strconv.Quote(value)
			case "ids":
				key, value = "hash_ids", "["+listed(value)+"]"
			}
			fields = append(fields, fmt.Sprintf("%q: %s", key, value))
		}
		rows.WriteString("{" + strings.Join(fields, ", ") + "}\n")
	}
	w, err := workload.LoadMooncake(strings.NewReader(rows.String()), "t.jsonl",
		workload.TraceSpec{TraceBlockSize: args.BlockSize, EngineBlockSize: args.BlockSize})
	if err == nil {
		err = w.Schedule(g.cfg.Concurrency > 0, 1)
	}
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	g.cfg.Workload = w
}

// listed writes 1..4 as 1,2,3,4.
func listed(ids string) string {
	var from, to int
	if _, err := fmt.Sscanf(ids, "%d..%d", &from, &to); err != nil {
		return ids
	}
	var all []string
	for id := from; id <= to; id++ {
		all = append(all, strconv.Itoa(id))
	}
	return strings.Join(all, ",")
}

// run shows one line per request, and what is not in the table below that.
func (g *golden) run(t *testing.T) string {
	outcome, err := Run(g.cfg)
	if err != nil {
		return err.Error() + "\n"
	}
	rows := outcome.Collector.Rows(g.cfg.Workload)
	columns := []struct{ head, name string }{
		{"P", "prefill_worker_idx"}, {"D", "decode_worker_idx"}, {"arrival", "arrival_time_ms"},
		{"prefill", "prefill_admit_ms"},
		{"held", "source_held_ms"}, {"reserved", "destination_reserved_ms"}, {"activated", "destination_activated_ms"},
		{"decode", "decode_admit_ms"}, {"first", "first_token_ms"}, {"last", "last_token_ms"},
		{"released", "source_released_ms"},
		{"reused", "reused_input_tokens"}, {"again", "decode_reused_input_tokens"}, {"status", "terminal_status"},
	}
	lines, _ := rows.Ints("trace_row")
	table := make([][]string, rows.Len()+1)
	table[0] = []string{""}
	for i := range lines {
		table[i+1] = []string{g.names[lines[i]]}
	}
	for _, c := range columns {
		table[0] = append(table[0], c.head)
		for i, cell := range cells(rows, c.name) {
			table[i+1] = append(table[i+1], cell)
		}
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, line := range table {
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	w.Flush()
	for _, r := range outcome.Collector.Rejected() {
		fmt.Fprintf(&out, "%s: %s\n", g.names[g.cfg.Workload.Turns[r.ID].Row], r.Reason)
	}
	used := report.Resources{
		PrefillWorkerSeconds: outcome.PrefillWorkerSeconds, PrefillGPUsPerWorker: 1,
		DecodeWorkerSeconds: outcome.WorkerSeconds, DecodeGPUsPerWorker: 1, WallMs: 1,
	}
	for _, v := range outcome.Collector.Summarise(used, report.NoSLA()) {
		switch {
		case !slices.Contains(g.keys, v.Key):
		case v.IsInt:
			fmt.Fprintf(&out, "%s %d\n", v.Key, v.Int)
		default:
			fmt.Fprintf(&out, "%s %s\n", v.Key, report.AppendFloat(nil, v.Float))
		}
	}
	return out.String()
}

// cells returns a column as text.
func cells(rows *report.Rows, name string) []string {
	var cells []string
	if floats, ok := rows.Floats(name); ok {
		for _, x := range floats {
			cell := "-"
			if !math.IsNaN(x) {
				cell = strconv.FormatFloat(x, 'f', -1, 64)
			}
			cells = append(cells, cell)
		}
		return cells
	}
	if ints, ok := rows.Ints(name); ok {
		for _, n := range ints {
			cell := "-"
			if n >= 0 {
				cell = strconv.FormatInt(n, 10)
			}
			cells = append(cells, cell)
		}
		return cells
	}
	texts, _ := rows.Strings(name)
	for _, text := range texts {
		cells = append(cells, cmp.Or(text, "-"))
	}
	return cells
}
