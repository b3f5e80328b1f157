package truth

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/handoff"
	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/workload"
)

// HandoffCase is a workload of prefill and decode workers and, if it is recorded, what their engines did.
type HandoffCase struct {
	poolsCase
	VLLM map[string]any `json:"vllm"` // engine arguments of both
	HandoffResult
}

// poolsCase is a workload of prefill and decode workers.
type poolsCase struct {
	ID             string            `json:"id"`
	Scheduler      string            `json:"scheduler"` // the release that was recorded, "" if all do the same
	Rows           []json.RawMessage `json:"rows"`      // of a Mooncake trace
	TraceBlockSize int               `json:"trace_block_size"`
	Prefill        map[string]any    `json:"prefill_engine"` // engine arguments
	Decode         map[string]any    `json:"decode_engine"`
	PrefillWorkers int               `json:"num_prefill_workers"`
	DecodeWorkers  int               `json:"num_decode_workers"` // both chosen in turn
	MsPerBlock     float64           `json:"kv_transfer_ms_per_block"`
	Lanes          string            `json:"kv_transfer_lanes"`
}

// HandoffResult is what becomes of such a case.
type HandoffResult struct {
	Preemptions   int              `json:"preemptions"`
	PrefillPasses int              `json:"num_prefill_passes"`
	DecodePasses  int              `json:"num_decode_passes"`
	PrefillPeak   int              `json:"prefill_peak"` // most blocks taken on one worker
	DecodePeak    int              `json:"decode_peak"`
	Requests      []HandoffRequest `json:"requests"`
	Passes        []HandoffPass    `json:"passes"` // the first ones of all workers, by start
}

// HandoffRequest is what became of a row, in milliseconds and tokens: on the prefill worker, in between, and on the
// decode worker.
type HandoffRequest struct {
	Row           int     `json:"row"`
	PrefillWorker int     `json:"prefill_worker"`
	PrefillAdmit  float64 `json:"prefill_admit"`
	PrefillReused int     `json:"prefill_reused"`
	PrefillEnd    float64 `json:"prefill_end"`
	DecodeWorker  int     `json:"decode_worker"`
	LoadAt        float64 `json:"load_at"`
	TransferEnd   float64 `json:"transfer_end"`
	Released      float64 `json:"released"`
	Reused        int     `json:"reused"`
	PrefillRank   int     `json:"prefill_rank"` // 0 without dp_size
	Rank          int     `json:"rank"`
	Admit         float64 `json:"admit"`
	First         float64 `json:"first"`
	Last          float64 `json:"last"`
	Tokens        int     `json:"tokens"`
}

// HandoffPass is the name of a worker, p0 or d0, say, and what Pass has of vLLM.
type HandoffPass struct {
	Worker string
	Pass
}

// UnmarshalJSON reads an array.
func (p *HandoffPass) UnmarshalJSON(text []byte) error {
	columns := []any{&p.Worker}
	for i := range p.Pass {
		columns = append(columns, &p.Pass[i])
	}
	return json.Unmarshal(text, &columns)
}

// MarshalJSON writes one.
func (p HandoffPass) MarshalJSON() ([]byte, error) {
	columns := []any{p.Worker}
	for _, value := range p.Pass {
		columns = append(columns, value)
	}
	return json.Marshal(columns)
}

// pools parses the engine arguments of both sides, to which more are added.
func (c *poolsCase) pools(more func(role engine.Role, side map[string]any)) (prefill, decode engineargs.Args,
	err error) {
	parse := func(role engine.Role, side map[string]any) engineargs.Args {
		all := map[string]any{"worker_type": role.String()}
		maps.Copy(all, side)
		more(role, all)
		text, failed := json.Marshal(all)
		if failed != nil {
			err = failed
		}
		args, _, failed := engineargs.Parse(string(text))
		if failed != nil {
			err = failed
		}
		return args
	}
	return parse(engine.Prefill, c.Prefill), parse(engine.Decode, c.Decode), err
}

// rows replays a case and returns its rows. It calls add with the shape of each pass.
func (c *poolsCase) rows(prefill, decode engineargs.Args,
	add func(role engine.Role, worker int, s engine.Shape)) (*report.Rows, error) {
	w, err := workload.LoadMooncake(bytes.NewReader(bytes.Join(raw(c.Rows), []byte("\n"))), c.ID, workload.TraceSpec{
		TraceBlockSize: c.TraceBlockSize, EngineBlockSize: prefill.BlockSize,
		NamePartialBlocks: prefill.ComparesTokens(),
	})
	if err != nil {
		return nil, err
	}
	if err := w.Schedule(false, 1); err != nil {
		return nil, err
	}
	outcome, err := replay.Run(replay.Config{
		Workload: w, MaxSimTimeMs: math.Inf(1),
		Disagg: &replay.DisaggConfig{
			Prefill: prefill, Decode: decode, PrefillWorkers: c.PrefillWorkers, DecodeWorkers: c.DecodeWorkers,
			Transfer: handoff.Transfer{MsPerBlock: c.MsPerBlock, Unlimited: c.Lanes == "unlimited"},
		},
		Setup: func(role engine.Role, worker int) engine.Setup {
			return engine.Setup{Shapes: func(s engine.Shape) { add(role, worker, s) }}
		},
	})
	if err != nil {
		return nil, err
	}
	return outcome.Collector.Rows(w), nil
}

// Run replays a case by the rules of a scheduler.
func (c *HandoffCase) Run(scheduler string) (HandoffResult, error) {
	prefill, decode, err := c.pools(func(_ engine.Role, side map[string]any) {
		if _, given := side["scheduler"]; !given {
			side["scheduler"] = scheduler
		}
		maps.Copy(side, c.VLLM)
	})
	if err != nil {
		return HandoffResult{}, err
	}
	var result HandoffResult
	rows, err := c.rows(prefill, decode, result.add)
	if err != nil {
		return HandoffResult{}, err
	}
	byWorker := prefill.VLLM.Async // passes that are composed ahead are reported in another order than the driver has
	slices.SortStableFunc(result.Passes, func(a, b HandoffPass) int { return compareStarts(a, b, byWorker) })
	times := func(name string) []float64 { values, _ := rows.Floats(name); return values }
	counts := func(name string) []int64 { values, _ := rows.Ints(name); return values }
	row, tokens := counts("trace_row"), counts("output_length")
	prefillWorker, decodeWorker := counts("prefill_worker_idx"), counts("decode_worker_idx")
	prefillReused, reused := counts("reused_input_tokens"), counts("decode_reused_input_tokens")
	prefillAdmit, held, reserved := times("prefill_admit_ms"), times("source_held_ms"), times("destination_reserved_ms")
	activated, released, admit := times("destination_activated_ms"), times("source_released_ms"),
		times("decode_admit_ms")
	first, last := times("first_token_ms"), times("last_token_ms")
	ranks, ranked := rows.Ints("dp_rank")
	prefillRanks, _ := rows.Ints("prefill_dp_rank")
	for i := range rows.Len() {
		result.Requests = append(result.Requests, HandoffRequest{
			Row: int(row[i]), PrefillWorker: int(prefillWorker[i]), PrefillAdmit: prefillAdmit[i],
			PrefillReused: int(prefillReused[i]),
			PrefillEnd:    held[i], DecodeWorker: int(decodeWorker[i]), LoadAt: reserved[i], TransferEnd: activated[i],
			Released: released[i], Reused: int(reused[i]), Admit: admit[i], First: first[i], Last: last[i],
			Tokens: int(tokens[i]),
		})
		if ranked {
			result.Requests[i].Rank, result.Requests[i].PrefillRank = int(ranks[i]), int(prefillRanks[i])
		}
	}
	return result, nil
}

func compareStarts(a, b HandoffPass, byWorker bool) int {
	if order := cmp.Compare(a.Pass[0], b.Pass[0]); order != 0 || !byWorker {
		return order
	}
	return cmp.Or(cmp.Compare(b.Worker[:1], a.Worker[:1]), cmp.Compare(len(a.Worker), len(b.Worker)),
		cmp.Compare(a.Worker, b.Worker))
}

// add notes a pass, unless nothing happened in it.
func (r *HandoffResult) add(role engine.Role, worker int, s engine.Shape) {
	var one Result
	one.addVLLM(s)
	if len(one.Passes) == 0 {
		return
	}
	name, passes, peak := "d", &r.DecodePasses, &r.DecodePeak
	if role == engine.Prefill {
		name, passes, peak = "p", &r.PrefillPasses, &r.PrefillPeak
	} else {
		r.Preemptions += s.PreemptedRequests
	}
	*passes++
	*peak = max(*peak, s.InUse)
	r.Passes = append(r.Passes, HandoffPass{fmt.Sprint(name, worker), one.Passes[0]})
}

// Difference describes the first pass or, if there is none, the first request in which a result differs from what is
// recorded of the case; "" if nothing does.
func (c *HandoffCase) Difference(r HandoffResult) string {
	for i, want := range c.Passes {
		if i >= len(r.Passes) {
			return fmt.Sprintf("pass %d: want %v, got none", i+1, want)
		}
		got := r.Passes[i]
		if want.Worker != got.Worker || !slices.EqualFunc(want.Pass[:], got.Pass[:], near) {
			return fmt.Sprintf("pass %d:\nwant %v\ngot  %v", i+1, want, got)
		}
	}
	byRow := map[int]HandoffRequest{}
	for _, got := range r.Requests {
		byRow[got.Row] = got
	}
	for _, want := range c.Requests {
		got := byRow[want.Row]
		if c.Preemptions > 0 { // ours is the largest of all admissions, the engine's the first
			got.PrefillReused, got.Reused = want.PrefillReused, want.Reused
		}
		if !want.same(got) {
			return fmt.Sprintf("row %d:\nwant %+v\ngot  %+v", want.Row, want, got)
		}
	}
	totals := func(r *HandoffResult) [5]int {
		return [5]int{r.Preemptions, r.PrefillPasses, r.DecodePasses, r.PrefillPeak, r.DecodePeak}
	}
	if want, got := totals(&c.HandoffResult), totals(&r); want != got {
		return fmt.Sprintf("preemptions, passes and most blocks of prefill and decode workers: want %v, got %v", want,
			got)
	}
	return ""
}

// same reports whether two records agree, times to 1e-9 of their value.
func (q HandoffRequest) same(other HandoffRequest) bool {
	times := func(q *HandoffRequest) []*float64 {
		return []*float64{&q.PrefillAdmit, &q.PrefillEnd, &q.LoadAt, &q.TransferEnd, &q.Released, &q.Admit, &q.First,
			&q.Last}
	}
	mine, theirs := times(&q), times(&other)
	for i := range mine {
		if !near(*mine[i], *theirs[i]) {
			return false
		}
		*theirs[i] = *mine[i]
	}
	return q == other
}
