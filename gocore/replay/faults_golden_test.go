package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/faults"
	"dynosim/gocore/handoff"
	"dynosim/gocore/router"
	"dynosim/gocore/scripttest"
)

// TestFaultGoldens runs testdata/faults/*.txt: runs with faults, from a description to what becomes of each request.
// phases.txt says how to read them. -rewrite writes the results anew.
func TestFaultGoldens(t *testing.T) {
	scripttest.Run(t, "testdata/faults", faultGolden)
}

// faultGolden runs one example.
func faultGolden(t *testing.T, d *datadriven.TestData) string {
	f := &FaultConfig{ClientTimeoutMs: math.Inf(1), HedgeAfterMs: math.Inf(1)}
	engineArgs := []string{`"block_size": 64`}
	workers, twoPools, kv, bandwidth := [2]int{2, 1}, d.Cmd == "disagg", "", 0.0
	for _, a := range d.CmdArgs {
		value := strings.Join(a.Vals, ",")
		number, _ := strconv.ParseFloat(value, 64)
		switch a.Key {
		case "workers":
			if n, err := fmt.Sscanf(value, "%d+%d", &workers[0], &workers[1]); n == 0 ||
				err != nil && !twoPools && n != 1 {
				d.Fatalf(t, "workers: %v", err)
			}
		case "kv":
			kv = fmt.Sprintf(`{"router_queue_threshold":%s}`, value)
		case "bandwidth":
			bandwidth = number
		case "migration":
			f.MigrationLimit = int(number)
		case "detection":
			f.DetectionMs = number
		case "avoid":
			f.AvoidMs = number
		case "retry_refused":
			f.RetryRefusedMs = number
		case "rules":
			f.Rules = map[string]RouterRules{"1.3": Rules13, "1.6": Rules16}[value]
		case "timeout":
			f.ClientTimeoutMs = number
		case "retries":
			f.ClientRetries = int(number)
		case "backoff":
			f.ClientBackoffMs = number
		case "hedge":
			f.HedgeAfterMs = number
		default:
			engineArgs = append(engineArgs,
				fmt.Sprintf("%q: %s", strings.Replace(a.Key, "blocks", "num_gpu_blocks", 1), value))
		}
	}
	args := enginetest.Args(t, "{"+strings.Join(engineArgs, ", ")+"}")
	var rows, script strings.Builder
	for line := range strings.Lines(d.Input) {
		if strings.HasPrefix(line, "{") {
			script.WriteString(line)
		} else {
			rows.WriteString(line)
		}
	}
	g := &golden{cfg: Config{MaxSimTimeMs: math.Inf(1), Args: args, Workers: workers[0], Faults: f}}
	g.load(t, &datadriven.TestData{Pos: d.Pos, Cmd: d.Cmd, Input: rows.String()}, args)
	var err error
	if f.Script, err = faults.Parse(script.String(),
		faults.Layout{TwoPools: twoPools, Prefill: workers[0], Decode: workers[twoPoolsIndex(twoPools)]}); err != nil {
		d.Fatalf(t, "%v", err)
	}
	var factory router.Factory
	if kv != "" {
		parsed, _, err := router.ParseConfig(kv)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if twoPools {
			parsed = parsed.PrefillStage()
		}
		factory = kvMode.Factory(&router.Options{Config: parsed, BlockSize: args.BlockSize,
			MaxNumBatchedTokens: args.MaxNumBatchedTokens, Rand: rand.New(rand.NewPCG(1, 1))})
	}
	if twoPools {
		g.cfg.Disagg = &DisaggConfig{Prefill: args, Decode: args, PrefillWorkers: workers[0], DecodeWorkers: workers[1],
			PrefillRouter: factory,
			Transfer:      handoff.Transfer{BytesPerToken: 1_000_000, BandwidthGBs: bandwidth}}
	} else {
		g.cfg.Router = factory
	}
	return g.faults(t)
}

func twoPoolsIndex(twoPools bool) int {
	if twoPools {
		return 1
	}
	return 0
}

// faults runs the example and shows faults and requests.
func (g *golden) faults(t *testing.T) string {
	outcome := mustRun(t, g.cfg)
	var b strings.Builder
	for _, e := range outcome.Faults {
		fmt.Fprintf(&b, "%v %s %s %v until %v: lost %d, refused %d, migrated %d, retried %d, failed %d\n",
			e.AtMs, e.Kind, e.Pool, e.Workers, e.UntilMs, e.Hit, e.Refused, e.Migrated, e.Retried, e.Failed)
	}
	rows := outcome.Collector.Rows(g.cfg.Workload)
	status, _ := rows.Strings("state")
	why, _ := rows.Strings("failure_reason")
	first, _ := rows.Floats("first_token_ms")
	last, _ := rows.Floats("last_token_ms")
	worker, _ := rows.Ints("decode_worker_idx")
	for i, name := range g.names {
		trials := outcome.Collector.AllTrials()[i]
		fmt.Fprintf(&b, "%s: %s", name, status[i])
		if why[i] != "" {
			fmt.Fprintf(&b, ", %s", why[i])
		} else {
			fmt.Fprintf(&b, " on %d, tokens from %.3f to %.3f", worker[i], first[i], last[i])
		}
		fmt.Fprintf(&b, "; attempts %d", trials.Attempts)
		if trials.RecomputedTokens+trials.LostTokens > 0 {
			fmt.Fprintf(&b, ", computed again %d, lost %d tokens", trials.RecomputedTokens, trials.LostTokens)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
