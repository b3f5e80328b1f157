package truth

import (
	"fmt"

	"dynosim/gocore/engine"
)

// SGLangHandoffCase is a workload of SGLang's prefill and decode workers and, if it is recorded, what they did.
type SGLangHandoffCase struct {
	poolsCase
	SGLang   map[string]any `json:"sglang"` // settings of both, by the names of the driver
	Reserved int            `json:"reserved_decode_tokens"`
	SGLangHandoffResult
}

// SGLangHandoffResult is what becomes of such a case.
type SGLangHandoffResult struct {
	Preemptions   int                    `json:"preemptions"` // retractions
	PrefillPasses int                    `json:"num_prefill_passes"`
	DecodePasses  int                    `json:"num_decode_passes"`
	Requests      []SGLangHandoffRequest `json:"requests"`
	Passes        []HandoffPass          `json:"passes"` // of all workers
}

// SGLangHandoffRequest is what became of a row, in milliseconds and tokens.
type SGLangHandoffRequest struct {
	Row           int     `json:"row"`
	PrefillWorker int     `json:"prefill_worker"`
	DecodeWorker  int     `json:"decode_worker"`
	Allocated     float64 `json:"allocated"`
	PrefillAdmit  float64 `json:"prefill_admit"`
	PrefillReused int     `json:"prefill_reused"`
	PrefillEnd    float64 `json:"prefill_end"`
	TransferEnd   float64 `json:"transfer_end"`
	Released      float64 `json:"released"`
	First         float64 `json:"first"`
	Last          float64 `json:"last"`
	Tokens        int     `json:"tokens"`
}

// Run replays a case by the rules of a scheduler. As in the driver, batches do not overlap unless a case asks for it.
func (c *SGLangHandoffCase) Run(scheduler string) (SGLangHandoffResult, error) {
	var result SGLangHandoffResult
	prefill, decode, err := c.pools(func(_ engine.Role, side map[string]any) {
		nested := map[string]any{"overlap_schedule": false, "num_reserved_decode_tokens": c.Reserved}
		given, _ := side["sglang"].(map[string]any)
		for name, value := range given {
			nested[name] = value
		}
		for name, value := range c.SGLang {
			if setting, known := settingNames[name]; known {
				nested[setting] = value
			}
		}
		side["sglang"], side["scheduler"] = nested, scheduler
	})
	if err != nil {
		return result, err
	}
	rows, err := c.rows(prefill, decode, func(role engine.Role, worker int, s engine.Shape) {
		result.add(role, worker, s, prefill.BlockSize)
	})
	if err != nil {
		return result, err
	}
	times := func(name string) []float64 { values, _ := rows.Floats(name); return values }
	counts := func(name string) []int64 { values, _ := rows.Ints(name); return values }
	row, tokens, reused := counts("trace_row"), counts("output_length"), counts("reused_input_tokens")
	prefillWorker, decodeWorker := counts("prefill_worker_idx"), counts("decode_worker_idx")
	allocated, admit, held := times("destination_reserved_ms"), times("prefill_admit_ms"), times("source_held_ms")
	come, released := times("destination_activated_ms"), times("source_released_ms")
	first, last := times("first_token_ms"), times("last_token_ms")
	status, _ := rows.Strings("terminal_status")
	for i := range rows.Len() {
		if status[i] != "completed" {
			return result, fmt.Errorf("row %d is rejected", row[i])
		}
		result.Requests = append(result.Requests, SGLangHandoffRequest{
			Row: int(row[i]), PrefillWorker: int(prefillWorker[i]), DecodeWorker: int(decodeWorker[i]),
			Allocated: allocated[i], PrefillAdmit: admit[i], PrefillReused: int(reused[i]), PrefillEnd: held[i],
			TransferEnd: come[i], Released: released[i], First: first[i], Last: last[i], Tokens: int(tokens[i]),
		})
	}
	return result, nil
}

// add notes a pass.
func (r *SGLangHandoffResult) add(role engine.Role, worker int, s engine.Shape, blockSize int) {
	var one Result
	one.addSGLang(s, blockSize)
	name := "d"
	if role == engine.Prefill {
		name = "p"
		r.PrefillPasses++
	} else {
		r.DecodePasses++
		r.Preemptions += s.PreemptedRequests
	}
	r.Passes = append(r.Passes, HandoffPass{fmt.Sprint(name, worker), one.Passes[0]})
}

// Difference describes the first pass of a worker or, if there is none, the first request in which a result differs
// from what is recorded of the case; "" if nothing does.
func (c *SGLangHandoffCase) Difference(r SGLangHandoffResult) string {
	ours := map[string][]Pass{}
	for _, got := range r.Passes {
		ours[got.Worker] = append(ours[got.Worker], got.Pass)
	}
	seen := map[string]int{}
	for _, want := range c.Passes {
		n, list := seen[want.Worker], ours[want.Worker]
		seen[want.Worker]++
		if n >= len(list) {
			return fmt.Sprintf("pass %d of %s: want %v, got none", n+1, want.Worker, want.Pass)
		}
		for k := range want.Pass {
			if !near(want.Pass[k], list[n][k]) {
				return fmt.Sprintf("pass %d of %s:\nwant %v\ngot  %v", n+1, want.Worker, want.Pass, list[n])
			}
		}
	}
	byRow := map[int]SGLangHandoffRequest{}
	for _, got := range r.Requests {
		byRow[got.Row] = got
	}
	for _, want := range c.Requests {
		if got := byRow[want.Row]; !want.same(got) {
			return fmt.Sprintf("row %d:\nwant %+v\ngot  %+v", want.Row, want, got)
		}
	}
	totals := func(r *SGLangHandoffResult) [3]int { return [3]int{r.Preemptions, r.PrefillPasses, r.DecodePasses} }
	if want, got := totals(&c.SGLangHandoffResult), totals(&r); want != got {
		return fmt.Sprintf("retractions, and passes of prefill and decode workers: want %v, got %v", want, got)
	}
	return ""
}

// same reports whether two records agree, times to 1e-9 of their value.
func (q SGLangHandoffRequest) same(other SGLangHandoffRequest) bool {
	times := func(q *SGLangHandoffRequest) []*float64 {
		return []*float64{&q.Allocated, &q.PrefillAdmit, &q.PrefillEnd, &q.TransferEnd, &q.Released, &q.First, &q.Last}
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
