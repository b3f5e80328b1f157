package engineargs

import (
	"encoding/json"
	"maps"
	"math"
	"math/bits"
	"strings"
	"testing"

	"dynosim/gocore/engine"
)

// FuzzParse looks for panics, for Args that break their promises, for error texts of more than one line,
// and for Args that do not survive being written down and read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"block_size":16} true`, `{"block_size":16,"block_size":32}`, `{"blok_size":1}`,
		`{"num_gpu_blocks":18446744073709551616}`, `{"max_num_seqs":null,"max_num_batched_tokens":1}`,
		`{"watermark":0.5,"eviction_backend":"LRU","preemption_mode":"fifo"}`, `{"speedup_ratio":1e-400}`,
		`{"aic_tp_size":2147483647,"aic_attention_dp_size":2147483647}`, `{"is_prefill":true,"is_decode":true}`,
		`{"engine_type":"sglang","sglang":{"page_size":16,"chunked_prefill_size":24}}`,
		`{"has_perf_model":[{"a":1,"a":2}]}`,
		`{"reasoning":{"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":0.5}}`,
		`{"aic_backend":"vllm","aic_model_path":"m","aic_moe_ep_size":4,"aic_nextn":3,"aic_comm_dtype":"int4"}`,
		`{"aic_backend":"sglang","aic_model_path":"m","mem_fraction_static":0.5,"planner_profile_data":"a"}`,
		`{"trtllm":{"capacity_scheduler_policy":"\ud83d\ude00\n"}}`, `{"num_g3_blocks":1}`,
		`{"aic_nextn":2,"aic_nextn_accept_rates":"0.5,1e-1","aic_mtp_seed":7}`, `{"planner_profile_data":"a\u0000b"}`,
		"{\"a\u2028b\":1}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args, warnings, err := Parse(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		// Nowhere, on this engine, on this worker, three about AIC, another backend, a rounded chunk.
		if len(warnings) > 8 {
			t.Errorf("too many warnings: %q", warnings)
		}
		checkArgs(t, args)
		checkFilled(t, text, args)
		// a product of two counts, which no single count may hold
		if args.AIC.Backend == "" && args.GPUsPerWorker > math.MaxInt32 {
			args.GPUsPerWorker = 1
		}
		again, _, err := Parse(write(t, args))
		if err != nil || again != args {
			t.Errorf("got %+v, read again %+v, error %v", args, again, err)
		}
	})
}

// checkFilled: with its defaults spelled out, an object describes the same engine.
func checkFilled(t *testing.T, text string, args Args) {
	filled, err := Filled(text)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(filled)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := Parse(string(whole)); err != nil || again != args {
		t.Errorf("got %+v, filled in %s, read again %+v, error %v", args, whole, again, err)
	}
}

func checkArgs(t *testing.T, a Args) {
	pooled := a.EngineType != SGLang
	power := a.BlockSize >= 2 && a.BlockSize <= 1024 && bits.OnesCount(uint(a.BlockSize)) == 1
	page := a.BlockSize >= 1 && a.BlockSize <= maxPage && a.SGLang.ChunkedPrefillSize%a.BlockSize == 0
	switch {
	case pooled && !power || !pooled && !page,
		a.EngineType == TRTLLM && (a.Role != engine.Aggregated || a.Watermark != 0) ||
			(a.EngineType == TRTLLM) != (a.Admission == GuaranteedNoEvict),
		a.SGLang.MaxPrefillTokens < 1 || a.SGLang.ChunkedPrefillSize < 1 || a.SGLang.ClipMaxNewTokens < 1,
		!finite(a.SGLang.Conservativeness) || a.Transfer.BytesPerToken < 0 || !finite(a.Transfer.BandwidthGBs),
		a.NumGPUBlocks < 1 && a.Capacity.BlockSize != a.BlockSize || a.MaxNumSeqs < 1 || a.MaxNumBatchedTokens < 1 ||
			a.GPUsPerWorker < 0,
		!finite(a.SpeedupRatio) || !finite(a.DecodeSpeedupRatio),
		!finite(a.Watermark) || a.Watermark >= 1,
		a.Preemption > FIFO || a.Eviction > MultiLRU:
		t.Errorf("accepted %+v", a)
	}
}

// finite also wants a number that is not negative.
func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// write spells out every member.
func write(t *testing.T, a Args) string {
	unlimited := func(n int) any {
		if n == math.MaxInt {
			return nil
		}
		return n
	}
	object := map[string]any{
		"engine_type": a.EngineType.String(), "block_size": a.BlockSize, "num_gpu_blocks": a.NumGPUBlocks,
		"max_num_seqs": unlimited(a.MaxNumSeqs), "max_num_batched_tokens": unlimited(a.MaxNumBatchedTokens),
		"enable_prefix_caching": a.PrefixCaching, "enable_chunked_prefill": a.ChunkedPrefill,
		"speedup_ratio": a.SpeedupRatio, "decode_speedup_ratio": a.DecodeSpeedupRatio,
		"preemption_mode": a.Preemption.String(), "eviction_backend": a.Eviction.String(), "watermark": a.Watermark,
		"aic_tp_size": a.GPUsPerWorker, "worker_type": a.Role.String(),
		"sglang": map[string]any{
			"max_prefill_tokens": a.SGLang.MaxPrefillTokens, "clip_max_new_tokens": a.SGLang.ClipMaxNewTokens,
			"schedule_conservativeness": a.SGLang.Conservativeness,
			"schedule_policy":           [...]string{FCFS: "fcfs", LPM: "lpm"}[a.SGLang.Policy],
			"reference_quirks":          a.SGLang.ReferenceQuirks, "chunked_prefill_size": a.SGLang.ChunkedPrefillSize,
		},
	}
	if a.RouterQueuePolicy != "" {
		object["router_queue_policy"] = a.RouterQueuePolicy
	}
	if a.Transfer.BytesGiven {
		object["kv_bytes_per_token"] = a.Transfer.BytesPerToken
	}
	if a.Transfer.SpeedGiven {
		object["kv_transfer_bandwidth"] = a.Transfer.BandwidthGBs
	}
	if a.Transfer.DestinationMissing {
		object["kv_transfer_timing_mode"] = destinationMissing
	}
	if a.Drafts > 0 {
		object["aic_nextn"], object["aic_nextn_accept_rates"] = a.Drafts, a.AcceptRates
	}
	object["aic_mtp_seed"] = a.DraftSeed
	if a.Profile != "" {
		object["planner_profile_data"] = a.Profile
	}
	if a.AIC.Backend != "" {
		writeAIC(object, a)
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeAIC(object map[string]any, a Args) {
	c := a.AIC
	maps.Copy(object, map[string]any{
		"aic_backend": c.Backend, "aic_system": c.System, "aic_model_path": c.Model, "aic_backend_version": c.Version,
		"aic_tp_size": c.TP, "aic_attention_dp_size": c.AttentionDP,
		"aic_gemm_dtype": c.Types.GEMM, "aic_moe_dtype": c.Types.MoE, "aic_fmha_dtype": c.Types.FMHA,
		"aic_kv_cache_dtype": c.Types.KVCache, "aic_comm_dtype": c.Types.Comm,
	})
	if c.MoETP > 0 {
		object["aic_moe_tp_size"] = c.MoETP
	}
	if c.MoEEP > 0 {
		object["aic_moe_ep_size"] = c.MoEEP
	}
	if memory, known := c.Memory(); known && a.NumGPUBlocks == 0 {
		delete(object, "num_gpu_blocks")
		object[memory.Field] = a.Capacity.Fraction
	}
}
