// Package truth replays cases for which it is known what an engine's own scheduler did: recorded ones, and those that
// tests/truth draws. It gives the times of every request and the shape of every pass, in the form of the drivers of the
// engines (tests/truth/vllm_scheduler.py and sglang_scheduler.py).
package truth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/replay"
	"dynosim/gocore/workload"
)

// Case is a workload of one engine and, if it is recorded, what the engine did.
type Case struct {
	ID             string            `json:"id"`
	Scheduler      string            `json:"scheduler"` // the engine argument, if the case is for one release only
	Rows           []json.RawMessage `json:"rows"`      // of a Mooncake trace
	TraceBlockSize int               `json:"trace_block_size"`
	Engine         map[string]any    `json:"engine"`  // engine arguments
	VLLM           map[string]any    `json:"vllm"`    // engine arguments that only vLLM has
	SGLang         map[string]any    `json:"sglang"`  // settings that only SGLang has, by the names of its driver
	HiCache        map[string]any    `json:"hicache"` // the engine argument host_cache, as the driver calls it
	Preemptions    int               `json:"preemptions"`
	Requests       []Request         `json:"requests"`
	Passes         []Pass            `json:"passes"` // the first ones
}

// Request is what became of a row, in milliseconds and tokens.
type Request struct {
	Row    int     `json:"row"`
	Admit  float64 `json:"admit"`
	First  float64 `json:"first"`
	Last   float64 `json:"last"`
	Tokens int     `json:"tokens"`
	Reused int     `json:"reused"`
	Rank   int     `json:"rank"` // the data-parallel rank
}

// Pass is start, end, requests that compute prompt tokens, the sum of their prompt positions at the end, and at the
// start, requests that get a token; then, of vLLM, blocks in use, tokens computed, requests preempted; of SGLang, the
// lengths of the sequences that get a token, tokens in use, requests retracted.
type Pass [9]float64

// Result is what our engine does with a case.
type Result struct {
	ID          string    `json:"id"`
	Preemptions int       `json:"preemptions"`
	NumPasses   int       `json:"num_passes"`
	Requests    []Request `json:"requests"`
	Passes      []Pass    `json:"passes"`
}

// settingNames are the nested engine arguments that say what settings of SGLang's driver do.
var settingNames = map[string]string{"overlap": "overlap_schedule", "mixed_chunk": "enable_mixed_chunk",
	"ignore_eos": "ignore_eos"}

// Args returns the engine arguments of a case, with more that take precedence. The drivers do not overlap passes unless
// a case asks for it; a stock server does, and so do we by default.
func (c *Case) Args(more map[string]any) (engineargs.Args, error) {
	all := map[string]any{}
	for _, part := range []map[string]any{c.Engine, c.VLLM, more} {
		maps.Copy(all, part)
	}
	if all["engine_type"] == "sglang" {
		nested := map[string]any{"overlap_schedule": false}
		if given, ok := c.Engine["sglang"].(map[string]any); ok {
			maps.Copy(nested, given)
		}
		for name, value := range c.SGLang {
			if name == "swa" {
				window := map[string]any{"type": "sliding_window"}
				maps.Copy(window, value.(map[string]any))
				all["kv_cache_groups"] = []any{map[string]any{"type": "full"}, window}
				continue
			}
			nested[settingNames[name]] = value
		}
		all["sglang"] = nested
		if c.HiCache != nil {
			all["host_cache"] = c.HiCache
		}
	} else if _, given := all["async_scheduling"]; !given {
		all["async_scheduling"] = false
	}
	text, err := json.Marshal(all)
	if err != nil {
		return engineargs.Args{}, err
	}
	args, _, err := engineargs.Parse(string(text))
	return args, err
}

// Run replays a case on one worker.
func Run(c *Case, args engineargs.Args) (Result, error) { return runOn(c, args, 1) }

// runOn replays a case on workers that get the rows in turn. Passes are those of all of them.
func runOn(c *Case, args engineargs.Args, workers int) (Result, error) {
	w, err := workload.LoadMooncake(bytes.NewReader(bytes.Join(raw(c.Rows), []byte("\n"))), c.ID, workload.TraceSpec{
		TraceBlockSize: c.TraceBlockSize, EngineBlockSize: args.BlockSize, NamePartialBlocks: args.ComparesTokens(),
	})
	if err != nil {
		return Result{}, err
	}
	if err := w.Schedule(false, 1); err != nil {
		return Result{}, err
	}
	result := Result{ID: c.ID}
	add := result.addVLLM
	if args.EngineType == engineargs.SGLang {
		add = func(s engine.Shape) { result.addSGLang(s, args.BlockSize) }
	}
	outcome, err := replay.Run(replay.Config{
		Args: args, Workers: workers, Workload: w, MaxSimTimeMs: math.Inf(1),
		Setup: func(engine.Role, int) engine.Setup { return engine.Setup{Shapes: add} },
	})
	if err != nil {
		return Result{}, err
	}
	rows := outcome.Collector.Rows(w)
	times := map[string][]float64{}
	for _, name := range []string{"first_admit_ms", "first_token_ms", "last_token_ms"} {
		times[name], _ = rows.Floats(name)
	}
	counts := map[string][]int64{}
	for _, name := range []string{"trace_row", "output_length", "reused_input_tokens"} {
		counts[name], _ = rows.Ints(name)
	}
	ranks, ranked := rows.Ints("dp_rank")
	result.Requests = make([]Request, rows.Len())
	for i := range result.Requests {
		result.Requests[i] = Request{
			Row:    int(counts["trace_row"][i]),
			Admit:  times["first_admit_ms"][i],
			First:  times["first_token_ms"][i],
			Last:   times["last_token_ms"][i],
			Tokens: int(counts["output_length"][i]),
			Reused: int(counts["reused_input_tokens"][i]),
		}
		if ranked {
			result.Requests[i].Rank = int(ranks[i])
		}
		if math.IsNaN(result.Requests[i].Last) {
			return Result{}, fmt.Errorf("row %d is rejected", result.Requests[i].Row)
		}
	}
	return result, nil
}

func raw(rows []json.RawMessage) [][]byte {
	lines := make([][]byte, len(rows))
	for i, row := range rows {
		lines[i] = row
	}
	return lines
}

// addVLLM notes a pass, unless nothing happened in it.
func (r *Result) addVLLM(s engine.Shape) {
	if s.ComputedTokens > 0 || s.PreemptedRequests > 0 {
		r.add(s, s.InUse, s.ComputedTokens)
	}
}

func (r *Result) addSGLang(s engine.Shape, blockSize int) { r.add(s, s.ContextSum, s.InUse*blockSize) }

func (r *Result) add(s engine.Shape, sixth, seventh int) {
	r.NumPasses++
	r.Preemptions += s.PreemptedRequests
	r.Passes = append(r.Passes, Pass{
		s.StartMs, s.EndMs, float64(s.PrefillRequests), float64(s.ISLSum), float64(s.PrefixSum),
		float64(s.DecodeRequests), float64(sixth), float64(seventh), float64(s.PreemptedRequests),
	})
}

// Difference describes the first pass or, if there is none, the first request in which a result differs from what is
// recorded of the case; "" if nothing does. Times agree to 1e-9 of their value.
func (c *Case) Difference(r Result) string {
	for i, want := range c.Passes {
		if i >= len(r.Passes) {
			return fmt.Sprintf("pass %d: want %v, got none", i+1, want)
		}
		for k := range want {
			if !near(want[k], r.Passes[i][k]) {
				return fmt.Sprintf("pass %d:\nwant %v\ngot  %v", i+1, want, r.Passes[i])
			}
		}
	}
	byRow := map[int]Request{}
	for _, got := range r.Requests {
		byRow[got.Row] = got
	}
	for _, want := range c.Requests {
		got, ok := byRow[want.Row]
		if c.Preemptions > 0 {
			got.Reused = want.Reused // ours is the largest of all admissions, the engine's the first
		}
		if !ok || !near(want.Admit, got.Admit) || !near(want.First, got.First) || !near(want.Last, got.Last) ||
			want.Tokens != got.Tokens || want.Reused != got.Reused || want.Rank != got.Rank {
			return fmt.Sprintf("row %d:\nwant %+v\ngot  %+v", want.Row, want, got)
		}
	}
	if r.Preemptions != c.Preemptions {
		return fmt.Sprintf("preemptions: want %d, got %d", c.Preemptions, r.Preemptions)
	}
	return ""
}

func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b))
}
