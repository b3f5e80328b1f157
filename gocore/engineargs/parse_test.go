package engineargs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/aic"
	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
)

// defaults spells out what Default must return.
var defaults = Args{
	EngineType: VLLM, BlockSize: 64, NumGPUBlocks: 16384, MaxNumSeqs: 256, MaxNumBatchedTokens: 8192,
	PrefixCaching: true, ChunkedPrefill: true, SpeedupRatio: 1, DecodeSpeedupRatio: 1,
	Preemption: LIFO, Eviction: Lineage, Watermark: 0, TimingModel: "polynomial", GPUsPerWorker: 1,
	DraftSeed: 42,
	SGLang: SGLangArgs{
		Policy: FCFS, MaxPrefillTokens: 16384, ChunkedPrefillSize: 8192, ClipMaxNewTokens: 4096, Conservativeness: 1,
		ReferenceQuirks: true, Overlap: true,
		RecvInterval: 1, Reserved: 512,
	},
	Knobs: Knobs{PrefillScale: 1, DecodeScale: 1, KVPoolScale: 1},
	VLLM:  VLLMArgs{Async: true, ReserveFullISL: true, PrefillInterval: 1, MaxActiveSeqs: 256},
	Ranks: 1,
}

// with returns the defaults after one change.
func with(change func(*Args)) Args {
	args := defaults
	change(&args)
	return args
}

func TestAccepted(t *testing.T) {
	tests := []struct {
		in   string
		want Args
	}{
		{`{}`, defaults},
		{` {"engine_type": "VLLM"} `, defaults},
		{`{"num_gpu_blocks": null}`, defaults},
		{`{"num_gpu_blocks": 1}`, with(func(a *Args) { a.NumGPUBlocks = 1 })},
		{`{"num_gpu_blocks_override": 16}`, with(func(a *Args) { a.NumGPUBlocks = 16 })},
		{`{"num_gpu_blocks_override": 16, "num_gpu_blocks": 16}`, with(func(a *Args) { a.NumGPUBlocks = 16 })},
		{`{"num_gpu_blocks_override": null, "num_gpu_blocks": 5}`, with(func(a *Args) { a.NumGPUBlocks = 5 })},
		{`{"num_gpu_blocks_override": 5, "num_gpu_blocks": null}`, with(func(a *Args) { a.NumGPUBlocks = 5 })},
		{`{"block_size": 0}`, defaults},
		{`{"block_size": 2}`, with(func(a *Args) { a.BlockSize = 2 })},
		{`{"block_size": 1024}`, with(func(a *Args) { a.BlockSize = 1024 })},
		{`{"max_num_seqs": null}`, with(func(a *Args) {
			a.MaxNumSeqs, a.VLLM.MaxActiveSeqs = math.MaxInt,
				math.MaxInt
		})},
		{`{"max_num_batched_tokens": null}`, with(func(a *Args) { a.MaxNumBatchedTokens = math.MaxInt })},
		{`{"max_num_seqs": 1, "max_num_batched_tokens": 2}`,
			with(func(a *Args) { a.MaxNumSeqs, a.MaxNumBatchedTokens, a.VLLM.MaxActiveSeqs = 1, 2, 1 })},
		{`{"enable_prefix_caching": false}`, with(func(a *Args) { a.PrefixCaching = false })},
		{`{"enable_chunked_prefill": false}`, with(func(a *Args) { a.ChunkedPrefill = false })},
		{`{"speedup_ratio": 0, "decode_speedup_ratio": 2.5}`,
			with(func(a *Args) { a.SpeedupRatio, a.DecodeSpeedupRatio = 0, 2.5 })},
		{`{"preemption_mode": "FIFO"}`, with(func(a *Args) { a.Preemption = FIFO })},
		{`{"eviction_backend": "lru"}`, with(func(a *Args) { a.Eviction = LRU })},
		{`{"eviction_backend": "Multi_LRU"}`, with(func(a *Args) { a.Eviction = MultiLRU })},
		{`{"scheduler": "SGLang-0.5", "engine_type": "sglang", "sglang": {"overlap_schedule": false, "ignore_eos": true}}`,
			with(func(a *Args) {
				a.Scheduler, a.EngineType, a.BlockSize, a.SGLang.Overlap, a.SGLang.IgnoreEOS = SGLangOwn, SGLang, 1, false,
					true
			})},
		{`{"scheduler": "vllm", "pass_time": "fused"}`,
			with(func(a *Args) { a.Scheduler, a.VLLM.Fused, a.VLLM.Release = VLLMOwn, true, VLLM033 })},
		{`{"scheduler": "VLLM", "async_scheduling": false}`,
			with(func(a *Args) { a.Scheduler, a.VLLM.Async, a.VLLM.Release = VLLMOwn, false, VLLM033 })},
		{`{"scheduler": "vllm-0.33", "prefill_schedule_interval": 4, "max_num_active_seqs": 9}`, with(func(a *Args) {
			a.Scheduler, a.VLLM.PrefillInterval, a.VLLM.MaxActiveSeqs, a.VLLM.Release = VLLMOwn, 4, 9, VLLM033
		})},
		{`{"scheduler": "vllm-0.33", "block_size": 544, "kv_cache_groups": [{"type": "full"}, {"type": "linear"}, ` +
			`{"type": "linear"}]}`,
			with(func(a *Args) {
				a.Scheduler, a.BlockSize, a.VLLM.Release = VLLMOwn, 544, VLLM033
				a.VLLM.Groups, a.SGLang.ChunkedPrefillSize = Groups{Beside: 2, Linear: true}, 8160
			})},
		{`{"scheduler": "vllm-0.28", "kv_cache_groups": [{"type": "full"}, {"type": "sliding_window", "window": 9}]}`,
			with(func(a *Args) {
				a.Scheduler, a.VLLM.Release = VLLMOwn, VLLM028
				a.VLLM.Groups = Groups{Beside: 1, Window: 9, Retention: RetainAll}
			})},
		{`{"engine_type": "sglang", "scheduler": "sglang", "kv_cache_groups": [{"type": "full"}, ` +
			`{"type": "sliding_window", "window": 9, "num_blocks": 8}]}`,
			with(func(a *Args) {
				a.Scheduler, a.EngineType, a.BlockSize, a.SGLang.Window = SGLangOwn, SGLang, 1,
					WindowArgs{Blocks: 8, Tokens: 9}
			})},
		{`{"scheduler": "vllm-0.28", "scheduler_reserve_full_isl": false, "long_prefill_token_threshold": 8}`,
			with(func(a *Args) {
				a.Scheduler, a.VLLM = VLLMOwn, VLLMArgs{
					Async: true, LongPrefillTokenThreshold: 8, PrefillInterval: 1, MaxActiveSeqs: 256, Release: VLLM028,
				}
			})},
		{`{"request_token_overhead_us": 2.5, "engine_version": "0.19.0"}`, with(func(a *Args) {
			a.Knobs.RequestTokenOverheadUs, a.EngineVersion = 2.5, "0.19.0"
		})},
		{`{"step_overhead_us": 800, "seq_overhead_us": 12.5, "request_overhead_us": 3e4, "prefill_scale": 1.25, ` +
			`"decode_scale": 0.9}`, with(func(a *Args) {
			a.Knobs = Knobs{800, 12.5, 3e4, 0, 1.25, 0.9, 1}
		})},
		{`{"scheduler": "sglang", "engine_type": "sglang", "sglang": {"scheduler_recv_interval": 30}}`,
			with(func(a *Args) {
				a.Scheduler, a.EngineType, a.BlockSize, a.SGLang.RecvInterval = SGLangOwn, SGLang, 1, 30
			})},
		{`{"scheduler": "vllm", "dp_size": 4, "dp_routing": "round_robin", "aic_tp_size": 2}`, with(func(a *Args) {
			a.Scheduler, a.VLLM.Release, a.Ranks, a.VLLM.RoundRobin, a.GPUsPerWorker = VLLMOwn, VLLM033, 4, true, 8
		})},
		{`{"scheduler": "sglang", "engine_type": "sglang", "dp_size": 4, "sglang": {"chunked_prefill_size": 4096}}`,
			with(func(a *Args) {
				a.Scheduler, a.EngineType, a.BlockSize, a.Ranks, a.GPUsPerWorker = SGLangOwn, SGLang, 1, 4, 4
				a.SGLang.ChunkedPrefillSize = 4096
			})},
		{`{"scheduler": "vllm-0.28", "dp_size": 4, "aic_backend": "vllm", "aic_model_path": "m", "num_gpu_blocks": 16384}`,
			with(func(a *Args) {
				a.Scheduler, a.VLLM.Release, a.Ranks, a.GPUsPerWorker, a.TimingModel = VLLMOwn, VLLM028, 4, 4, "aic"
				a.AIC = aic.Config{Backend: "vllm", System: "h200_sxm", Model: "m", TP: 1, AttentionDP: 4}
			})},
		{`{"watermark": 0.01}`, with(func(a *Args) { a.Watermark = 0.01 })},
		{`{"aic_tp_size": 4, "aic_attention_dp_size": 2}`, with(func(a *Args) { a.GPUsPerWorker = 8 })},
		{`{"aic_tp_size": 0}`, with(func(a *Args) { a.GPUsPerWorker = 0 })},
		{`{"aic_tp_size": 2147483647, "aic_attention_dp_size": 2147483647}`,
			with(func(a *Args) { a.GPUsPerWorker = math.MaxInt32 * math.MaxInt32 })},
		{`{"engine_type": "Sglang"}`, with(func(a *Args) { a.EngineType, a.BlockSize = SGLang, 1 })},
		{`{"engine_type": "sglang", "sglang": {"page_size": 16, "schedule_policy": "lpm", "max_prefill_tokens": 1,
			"chunked_prefill_size": 32,
			"clip_max_new_tokens": 2, "schedule_conservativeness": 1.5, "reference_quirks": false}}`, with(func(a *Args) {
			a.EngineType, a.BlockSize, a.SGLang = SGLang, 16,
				SGLangArgs{LPM, 1, 32, 2, 1.5, false, true, false, false, 1, 512, WindowArgs{}}
		})},
		{`{"engine_type": "sglang", "scheduler": "sglang", "host_cache": {"num_blocks": 9, "write_policy": "write_back",
			"load_back_threshold": 0,
			"load_ms_per_block": 0.5, "store_ms_per_block": 2, "latency_ms": 0.1}}`, with(func(a *Args) {
			a.EngineType, a.BlockSize, a.Scheduler, a.HostCache = SGLang, 1, SGLangOwn, HostCacheArgs{
				Blocks: 9, WritePolicy: 2, ChunkBlocks: 1, StoreThreshold: 1, PromptOnly: true, LoadMsPerBlock: 0.5,
				StoreMsPerBlock: 2, LatencyMs: 0.1,
			}
		})},
		{`{"engine_type": "sglang", "sglang": {"schedule_policy": "fcfs"}}`,
			with(func(a *Args) { a.EngineType, a.BlockSize = SGLang, 1 })},
		{`{"router_queue_policy": "wspt"}`, with(func(a *Args) { a.RouterQueuePolicy = "wspt" })},
		{`{"worker_type": "decode"}`, with(func(a *Args) { a.Role = engine.Decode })},
		{`{"is_decode": true, "is_prefill": false}`, with(func(a *Args) { a.Role = engine.Decode })},
		{`{"is_prefill": true, "worker_type": null, "kv_bytes_per_token": 1000000, "kv_transfer_bandwidth": 0.5,
			"kv_transfer_timing_mode": "Destination_Missing"}`, with(func(a *Args) {
			a.Role, a.Transfer = engine.Prefill, TransferArgs{BytesPerToken: 1_000_000, BandwidthGBs: 0.5,
				DestinationMissing: true, BytesGiven: true, SpeedGiven: true}
		})},
		{`{"timing_model": "polynomial"}`, defaults},
		{`{"planner_profile_data": "a.npz", "timing_model": "interpolated"}`,
			with(func(a *Args) { a.TimingModel, a.Profile = "interpolated", "a.npz" })},
		{`{"planner_profile_data": "a.npz"}`,
			with(func(a *Args) { a.TimingModel, a.Profile = "interpolated", "a.npz" })},
		{`{"aic_nextn": 2, "aic_nextn_accept_rates": "0.5", "aic_mtp_seed": 18446744073709551615}`, with(func(a *Args) {
			a.Drafts, a.AcceptRates, a.DraftSeed = 2, "0.5", math.MaxUint64
		})},
		{`{"aic_nextn": 1, "engine_type": "sglang"}`,
			with(func(a *Args) { a.EngineType, a.BlockSize, a.Drafts = SGLang, 1, 1 })},
		{`{"aic_backend": "vllm", "aic_model_path": "m"}`, with(func(a *Args) {
			a.TimingModel, a.AIC = "aic",
				aic.Config{Backend: "vllm", System: "h200_sxm", Model: "m", TP: 1, AttentionDP: 1}
			a.NumGPUBlocks, a.Capacity = 0, aic.Capacity{BlockSize: 64, MaxTokens: 8192, Fraction: 0.9}
		})},
		{`{"aic_backend": "sglang", "engine_type": "sglang", "aic_model_path": "m", "mem_fraction_static": 0.5, ` +
			`"max_num_batched_tokens": null}`,
			with(func(a *Args) {
				a.TimingModel, a.AIC = "aic",
					aic.Config{Backend: "sglang", System: "h200_sxm", Model: "m", TP: 1, AttentionDP: 1}
				a.EngineType, a.BlockSize, a.MaxNumBatchedTokens = SGLang, 1, math.MaxInt
				a.NumGPUBlocks, a.Capacity = 0, aic.Capacity{BlockSize: 1, MaxTokens: 8192, Fraction: 0.5}
			})},
		{`{"aic_backend": "vllm", "aic_system": "b200", "aic_backend_version": " 1.2 ", "aic_tp_size": 4,
			"aic_model_path": "m", "aic_moe_tp_size": 2,
			"aic_moe_ep_size": 4, "aic_attention_dp_size": 2, "aic_nextn": 2, "aic_gemm_dtype": "int4",
			"aic_moe_dtype": " fp8 ", "aic_fmha_dtype": "AUTO",
			"aic_kv_cache_dtype": "none", "aic_comm_dtype": "", "num_gpu_blocks_override": 7}`, with(func(a *Args) {
			a.TimingModel, a.AIC = "aic", aic.Config{Backend: "vllm", System: "b200", Version: "1.2", Model: "m", TP: 4,
				AttentionDP: 2, MoETP: 2, MoEEP: 4,
				Drafts: 2, Types: aic.DataTypes{GEMM: "int4_wo", MoE: "fp8"}}
			a.NumGPUBlocks, a.GPUsPerWorker, a.Drafts = 7, 8, 2
		})},
		{`{"dp_size": 1, "worker_type": "aggregated"}`, defaults},
		{`{"worker_type": null}`, defaults},
		{`{"is_prefill": false, "is_decode": false}`, defaults},
		{`{"worker_type": null, "is_prefill": false}`, defaults},
		{`{"has_perf_model": true}`, defaults},
		{`{"has_perf_model": {"a": [null]}}`, defaults},
		// Null is as good as nothing.
		{`{"planner_profile_data": null, "aic_backend": null, "aic_nextn": null, "aic_mtp_seed": 42, ` +
			`"mem_fraction_static": null}`, defaults},
		{`{"startup_time": null, "enable_local_indexer": false, "handoff_session_timeout_ms": 300000, "reasoning": null,
			"kv_transfer_timing_mode": "Full_Prompt", "sglang": null, "trtllm": null, "enable_g4_storage": false}`, defaults},
		{`{"num_g2_blocks": 0, "num_g3_blocks": 0, "offload_batch_size": 0}`, defaults},
	}
	for _, test := range tests {
		got, warnings, err := Parse(test.in)
		if err != nil || got != test.want || warnings != nil {
			t.Errorf("%s:\ngot  %+v, warnings %q, error %v\nwant %+v", test.in, got, warnings, err, test.want)
		}
	}
	if Default() != defaults {
		t.Errorf("Default() is %+v", Default())
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct{ in, want string }{
		{`{"bootstrap_port": 0}`, "engine argument bootstrap_port has no effect on offline replay"},
		{`{"zmq_replay_port": 65535, "zmq_kv_events_port": 1, "startup_time": 2.5}`,
			"engine arguments startup_time, zmq_kv_events_port, zmq_replay_port have no effect on offline replay"},
		{`{"trtllm": {"capacity_scheduler_policy": "guaranteed_no_evict"}}`,
			"engine argument trtllm has no effect with engine_type vllm"},
		{`{"trtllm": {}}`, "engine argument trtllm has no effect with engine_type vllm"},
		{`{"reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 4294967295, "thinking_ratio": 0.5}}`,
			"engine argument reasoning has no effect on offline replay"},
		{`{"enable_local_indexer": true, "handoff_session_timeout_ms": 1, "response_replay_trace_path": "x"}`,
			"engine arguments enable_local_indexer, handoff_session_timeout_ms, response_replay_trace_path have no " +
				"effect on offline replay"},
		{`{"num_g2_blocks": 1, "num_g3_blocks": 2, "offload_batch_size": 3, "enable_g4_storage": true, ` +
			`"bandwidth_g1_to_g2_gbps": 1}`,
			"engine arguments num_g2_blocks, num_g3_blocks, offload_batch_size, bandwidth_g1_to_g2_gbps, " +
				"enable_g4_storage have no effect on offline replay"},
	}
	for _, test := range tests {
		got, warnings, err := Parse(test.in)
		if err != nil || got != defaults || !slices.Equal(warnings, []string{test.want}) {
			t.Errorf("%s:\ngot  %q, error %v\nwant %q", test.in, warnings, err, test.want)
		}
	}
}

// TestWarningsOfEngine are about fields that only other engines look at, and about a rounded default.
func TestWarningsOfEngine(t *testing.T) {
	for _, test := range []struct {
		in   string
		want []string
	}{
		{`{"aic_model_path": "m", "aic_gemm_dtype": "fp8", "mem_fraction_static": 0.5}`, []string{
			"engine arguments aic_model_path, aic_gemm_dtype, mem_fraction_static have no effect without aic_backend"}},
		{`{"aic_backend": "vllm", "aic_model_path": "m", "planner_profile_data": "a.npz", "mem_fraction_static": 0.5, ` +
			`"gpu_memory_utilization": 0.5}`, []string{
			"engine argument planner_profile_data has no effect with aic_backend",
			"engine argument mem_fraction_static has no effect with aic_backend vllm"}},
		{`{"aic_backend": "vllm", "aic_model_path": "m", "num_gpu_blocks": 5, "gpu_memory_utilization": 0.5}`, []string{
			"engine argument gpu_memory_utilization has no effect with num_gpu_blocks"}},
		{`{"aic_backend": "sglang", "aic_model_path": "m"}`, []string{
			"aic_backend is sglang while engine_type is vllm: durations are those of another engine"}},
		{`{"kv_pool_scale": 0.9}`, []string{"engine argument kv_pool_scale has no effect without aic_backend"}},
		{`{"aic_backend": "vllm", "aic_model_path": "m", "num_gpu_blocks": 5, "kv_pool_scale": 0.9}`, []string{
			"engine argument kv_pool_scale has no effect with num_gpu_blocks"}},
		{`{"worker_type": "decode", "request_overhead_us": 20000}`, []string{"engine argument request_overhead_us has no " +
			"effect on decode workers"}},
		{`{"engine_type": "sglang", "sglang": {"scheduler_recv_interval": 30}}`, []string{
			"engine argument sglang.scheduler_recv_interval has no effect with scheduler dynamo"}},
		{`{"sglang": {"clip_max_new_tokens": 16}}`, []string{"engine argument sglang has no effect with " +
			"engine_type vllm"}},
		{`{"engine_type": "sglang", "preemption_mode": "fifo"}`,
			[]string{"engine argument preemption_mode has no effect with " +
				"engine_type sglang"}},
		{`{"engine_type": "sglang", "enable_prefix_caching": false, "enable_chunked_prefill": false, "watermark": 0.5, ` +
			`"eviction_backend": "lru"}`, []string{
			"engine arguments enable_prefix_caching, enable_chunked_prefill, watermark, eviction_backend have no " +
				"effect with engine_type sglang"}},
		{`{"kv_bytes_per_token": 0, "kv_transfer_bandwidth": 64, "kv_transfer_timing_mode": "destination_missing"}`, []string{
			"engine arguments kv_bytes_per_token, kv_transfer_bandwidth, kv_transfer_timing_mode have no effect on " +
				"aggregated workers"}},
		{`{"worker_type": "decode", "kv_transfer_bandwidth": 64}`, []string{"engine argument kv_transfer_bandwidth has no " +
			"effect on decode workers"}},
		{`{"engine_type": "sglang", "block_size": 3, "startup_time": 1}`, []string{"engine argument startup_time has no " +
			"effect on offline replay",
			"sglang.chunked_prefill_size is 8190, as the default of 8192 is not a multiple of block_size 3"}},
		{`{"engine_type": "sglang", "block_size": 10000}`,
			[]string{"sglang.chunked_prefill_size is 10000, as the default of 8192 is not a multiple of block_size 10000"}},
		{`{"engine_type": "sglang", "block_size": 3, "sglang": {"chunked_prefill_size": 8190}}`, nil},
		{`{"engine_type": "sglang", "enable_prefix_caching": true, "max_num_batched_tokens": 5}`, nil},
		{`{"engine_type": "sglang", "sglang": {"overlap_schedule": true, "ignore_eos": false, "enable_mixed_chunk": true}}`,
			[]string{
				"engine argument sglang.overlap_schedule has no effect with scheduler dynamo",
				"engine argument sglang.ignore_eos has no effect with scheduler dynamo",
				"engine argument sglang.enable_mixed_chunk has no effect with scheduler dynamo"}},
		{`{"engine_type": "sglang", "scheduler": "sglang", "sglang": {"reference_quirks": false}}`, []string{
			"engine argument sglang.reference_quirks has no effect with scheduler sglang"}},
		{`{"engine_type": "sglang", "scheduler": "sglang-0.5", "sglang": {"overlap_schedule": false, ` +
			`"enable_mixed_chunk": true}}`, nil},
		{`{"engine_type": "sglang", "host_cache": {"num_blocks": 5}}`,
			[]string{"engine argument host_cache has no effect with scheduler dynamo"}},
		{`{"scheduler": "vllm-0.28", "block_size": 1}`, nil},
	} {
		if _, warnings, err := Parse(test.in); err != nil || !slices.Equal(warnings, test.want) {
			t.Errorf("%s:\ngot  %q, error %v\nwant %q", test.in, warnings, err, test.want)
		}
	}
}

func TestRefused(t *testing.T) {
	tests := []struct{ in, want string }{
		// Form.
		{`[]`, `got [], want a JSON object`},
		{`null`, `got null, want a JSON object`},
		{` `, `line 1 column 2: unexpected end of text`},
		{`{"block_size": 16} true`, `line 1 column 20: unexpected text after the object`},
		{`{"block_size":16,"block_size":32}`, `block_size: got a duplicate key, want the key once`},
		{`{"blok_size": 16}`, `unknown field "blok_size", did you mean "block_size"?`},
		{`{"num_gpu_blocks_overide": 16}`,
			`unknown field "num_gpu_blocks_overide", did you mean "num_gpu_blocks_override"?`},
		{`{"engine_type": "tensorrt"}`, `engine_type: got "tensorrt", want one of vllm, sglang, trtllm`},
		{`{"engine_type": " vllm"}`, `engine_type: got " vllm", want one of vllm, sglang, trtllm`},
		{`{"engine_type": null}`, `engine_type: got null, want one of vllm, sglang, trtllm`},
		{`{"num_gpu_blocks": 1073741825}`, `num_gpu_blocks: got 1073741825, want an integer from 1 to 1073741824`},
		{`{"num_gpu_blocks": 100000000, "eviction_backend": "multi_lru"}`,
			`num_gpu_blocks: got 100000000, want at most 67108864 with eviction_backend multi_lru`},
		{`{"num_gpu_blocks": 0}`, `num_gpu_blocks: got 0, want an integer from 1 to 1073741824`},
		{`{"num_gpu_blocks": -1}`, `num_gpu_blocks: got -1, want an integer from 1 to 1073741824`},
		{`{"num_gpu_blocks": 16.0}`, `num_gpu_blocks: got 16.0, want an integer from 1 to 1073741824`},
		{`{"num_gpu_blocks": "16"}`, `num_gpu_blocks: got "16", want an integer from 1 to 1073741824`},
		{`{"block_size": null}`, `block_size: got null, want an integer >= 0`},
		{`{"max_num_seqs": 0}`, `max_num_seqs: got 0, want an integer >= 1`},
		{`{"max_num_batched_tokens": 0}`, `max_num_batched_tokens: got 0, want an integer >= 1`},
		{`{"enable_prefix_caching": 1}`, `enable_prefix_caching: got 1, want true or false`},
		{`{"enable_chunked_prefill": null}`, `enable_chunked_prefill: got null, want true or false`},
		{`{"speedup_ratio": -0.1}`, `speedup_ratio: got -0.1, want a finite number >= 0`},
		{`{"speedup_ratio": null}`, `speedup_ratio: got null, want a finite number >= 0`},
		{`{"speedup_ratio": "nan"}`, `speedup_ratio: got "nan", want a finite number >= 0`},
		{`{"speedup_ratio": 1e400}`, `speedup_ratio: got 1e400, want a finite number >= 0`},
		{`{"is_prefill": null}`, `is_prefill: got null, want true or false`},
		{`{"bootstrap_port": 70000}`, `bootstrap_port: got 70000, want an integer from 0 to 65535`},
		{`{"preemption_mode": "x"}`, `preemption_mode: got "x", want one of lifo, fifo`},
		{`{"eviction_backend": "arc"}`, `eviction_backend: got "arc", want one of lineage, lru, multi_lru`},
		{`{"router_queue_policy": "zz"}`, `router_queue_policy: got "zz", want one of fcfs, lcfs, wspt`},
		{`{"kv_cache_groups": [{"type": "full"}]}`,
			`kv_cache_groups: got groups with scheduler dynamo, want scheduler "vllm", "vllm-0.33", "vllm-0.28", ` +
				`"sglang" or "sglang-0.5" with them`},
		{`{"engine_type": "sglang", "scheduler": "sglang", "kv_cache_groups": [{"type": "full"}, {"type": "linear"}]}`,
			`kv_cache_groups[1].type: got linear, want sliding_window: with scheduler sglang one of full attention and one ` +
				`with a sliding window are simulated`},
		{`{"engine_type": "sglang", "scheduler": "sglang", "kv_cache_groups": [{"type": "full"}, ` +
			`{"type": "sliding_window", "window": 9}]}`,
			`kv_cache_groups[1].num_blocks: got nothing, want the blocks of the window layers' own pool`},
		{`{"engine_type": "sglang", "scheduler": "sglang", "kv_cache_groups": [{"type": "full", "num_blocks": 9}]}`,
			`kv_cache_groups[0].num_blocks: got 9, want it left out with type full`},
		{`{"engine_type": "sglang", "scheduler": "sglang", "sglang": {"enable_mixed_chunk": true},
			"kv_cache_groups": [{"type": "full"}, {"type": "sliding_window", "window": 9, "num_blocks": 8}]}`,
			`kv_cache_groups: got 2 groups, want one with sglang.enable_mixed_chunk, whose runs with windows are not recorded`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "sliding_window", ` +
			`"window": 9, "num_blocks": 8}]}`,
			`kv_cache_groups[1].num_blocks: got 8, want it left out: with vLLM all groups share the pool of num_gpu_blocks`},
		{`{"scheduler": "vllm", "kv_cache_groups": []}`, `kv_cache_groups: got 0 groups, want 1 to 64`},
		{`{"scheduler": "vllm", "kv_cache_groups": {}}`, `kv_cache_groups: got {}, want a list of objects`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "ful"}]}`,
			`kv_cache_groups[0].type: got "ful", want one of full, sliding_window, linear`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "sliding_window"}]}`,
			`kv_cache_groups[1].window: got nothing, want the tokens that the window sees`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "sliding_window", "window": 1}]}`,
			`kv_cache_groups[1].window: got 1, want an integer from 2 to 1073741824`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "linear", "window": 9}]}`,
			`kv_cache_groups[1].window: got 9, want it left out with type linear`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "linear"}]}`,
			`kv_cache_groups[0].type: got linear, want full: models without a layer of full attention are not simulated`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "linear"}, {"type": "sliding_window", ` +
			`"window": 9}]}`,
			`kv_cache_groups[2].type: got sliding_window beside linear, want all groups after the first of one type`},
		{`{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "sliding_window", "window": 8}, ` +
			`{"type": "sliding_window", "window": 9}]}`,
			`kv_cache_groups[2].window: got 9, want 8, as the window before: windows of two sizes are not simulated`},
		{`{"scheduler": "vllm-0.28", "prefix_cache_retention_interval": 64}`,
			`prefix_cache_retention_interval: got 64, want it left out with scheduler vllm-0.28, which keeps all blocks`},
		{`{"scheduler": "vllm", "prefix_cache_retention_interval": 65}`,
			`prefix_cache_retention_interval: got 65, want 0 or a multiple of block_size, 64`},
		{`{"scheduler": "vllm-9"}`, `scheduler: got "vllm-9", want one of dynamo, vllm, vllm-0.33, ` +
			`vllm-0.28, sglang, sglang-0.5`},
		{`{"scheduler": "sglang"}`, `scheduler: got "sglang", want engine_type sglang with it, ` +
			`or dynamo with engine_type vllm`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "worker_type": "prefill", "dp_size": 2}`,
			`dp_size: got 2, want 1 on prefill workers with scheduler sglang, whose hand-offs are not proven otherwise`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "worker_type": "prefill", "host_cache": {"num_blocks": 9}}`,
			`host_cache: got a tier, want it left out on prefill workers with scheduler sglang, whose ` +
				`hand-offs are not proven otherwise`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "worker_type": "decode", "sglang": {"enable_mixed_chunk": true}}`,
			`sglang.enable_mixed_chunk: got true, want false on decode workers with scheduler sglang, whose hand-offs ` +
				`are not proven otherwise`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "worker_type": "decode", ` +
			`"sglang": {"scheduler_recv_interval": 2}}`,
			`sglang.scheduler_recv_interval: got 2, want 1 on decode workers with scheduler sglang, whose hand-offs ` +
				`are not proven otherwise`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "dp_size": 4, "block_size": 16, ` +
			`"sglang": {"chunked_prefill_size": 48}}`,
			`sglang.chunked_prefill_size: got 48, want at least dp_size times block_size, 64: the ranks share it`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "dp_size": 4, "sglang": {"scheduler_recv_interval": 3}}`,
			`dp_size: got 4, want 1 with sglang.scheduler_recv_interval`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "dp_size": 4, ` +
			`"host_cache": {"num_blocks": 9, "storage_blocks": 9}}`,
			`dp_size: got 4, want 1 with host_cache.shared or storage`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "dp_size": 4, "kv_cache_groups": [{"type": "full"}, ` +
			`{"type": "sliding_window", "window": 8, "num_blocks": 99}]}`,
			`dp_size: got 4, want 1 with kv_cache_groups`},
		{`{"scheduler": "sglang-0.5", "engine_type": "sglang", "aic_nextn": 2}`,
			`aic_nextn: got 2, want it left out with scheduler sglang-0.5`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "host_cache": {}}`,
			`host_cache.num_blocks: got nothing, want an integer from 1 to 1073741824, or num_host_blocks or ` +
				`host_cache_gb beside host_cache`},
		{`{"scheduler": "sglang", "engine_type": "sglang", "host_cache": {"num_blocks": 1, "write_policy": "write_trough"}}`,
			`host_cache.write_policy: got "write_trough", want one of write_through, write_through_selective, write_back`},
		{`{"scheduler": "vllm", "engine_type": "sglang"}`,
			`scheduler: got "vllm", want engine_type vllm with it, or dynamo with engine_type sglang`},
		{`{"scheduler": "vllm", "engine_type": "trtllm"}`,
			`scheduler: got "vllm", want engine_type vllm with it, or dynamo with engine_type trtllm`},
		{`{"scheduler": "vllm", "pass_time": "max"}`, `pass_time: got "max", want one of separate, fused`},
		{`{"scheduler": "vllm", "dp_size": 2, "aic_attention_dp_size": 4}`,
			`aic_attention_dp_size: got 4, want 2, as dp_size, or it left out`},
		{`{"scheduler": "vllm", "worker_type": "prefill", "prefill_schedule_interval": 3}`,
			`prefill_schedule_interval: got 3, want 1 on prefill workers with scheduler vllm, ` +
				`whose hand-offs are not proven otherwise`},
		{`{"scheduler": "vllm", "worker_type": "prefill", "kv_cache_groups": [{"type": "full"}, {"type": "linear"}]}`,
			`kv_cache_groups: got 2 groups, want one on prefill workers with scheduler vllm, ` +
				`whose hand-offs are not proven otherwise`},
		{`{"scheduler": "vllm", "worker_type": "prefill", "kv_transfer_ms_per_block": 0.5, "kv_transfer_bandwidth": 64}`,
			`kv_transfer_ms_per_block: got 0.5, want it left out with kv_transfer_bandwidth, which says the same`},
		{`{"worker_type": "prefill", "kv_bytes_per_token": 1000000, "kv_transfer_bandwidth": 1e-300}`,
			`kv_transfer_bandwidth: got 1e-300, want 0, or at least 1e-06, so that a token moves in ` +
				`a million milliseconds at most`},
		{`{"scheduler": "vllm", "worker_type": "prefill", "kv_transfer_ms_per_block": 1e7}`,
			`kv_transfer_ms_per_block: got 1e7, want a finite number from 0 to 1e+06`},
		{`{"scheduler": "vllm", "aic_nextn": 2}`, `aic_nextn: got 2, want it left out with scheduler vllm`},
		{`{"scheduler": "vllm", "preemption_mode": "fifo"}`,
			`preemption_mode: got "fifo", want it left out with scheduler vllm`},
		{`{"scheduler": "vllm", "eviction_backend": "lru"}`,
			`eviction_backend: got "lru", want it left out with scheduler vllm`},
		{`{"scheduler": "vllm", "max_num_batched_tokens": 100}`,
			`max_num_batched_tokens: got 100, want at least max_num_seqs, 256, as vLLM wants it`},
		{`{"step_overhead_us": -1, "seq_overhead_us": 1e10}`,
			"step_overhead_us: got -1, want a finite number from 0 to 1e+09; seq_overhead_us: got 1e10, want a " +
				"finite number from 0 to 1e+09"},
		{`{"decode_scale": 0}`, `decode_scale: got 0, want a finite number > 0 and <= 1000`},
		{`{"engine_type": "sglang", "sglang": {"scheduler_recv_interval": 0}}`,
			`sglang.scheduler_recv_interval: got 0, want an integer >= 1`},
		{`{"watermark": 1}`, `watermark: got 1, want a finite number >= 0 and < 1`},
		{`{"watermark": -0.5}`, `watermark: got -0.5, want a finite number >= 0 and < 1`},
		{`{"gpu_memory_utilization": 1.5}`, `gpu_memory_utilization: got 1.5, want a finite number from 0 to 1`},
		{`{"aic_nextn": 6}`, `aic_nextn: got 6, want an integer from 1 to 5`},
		{`{"reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 2}}`,
			`reasoning.thinking_ratio: got nothing, want a finite number from 0 to 1`},
		{`{"reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 2, "thinking_ratio": 1.5}}`,
			`reasoning.thinking_ratio: got 1.5, want a finite number from 0 to 1`},
		{`{"reasoning": {"zzz": 1}}`,
			`unknown field "reasoning.zzz", want one of start_thinking_token_id, end_thinking_token_id, thinking_ratio`},
		{`{"sglang": {"pagesize": 1}}`, `unknown field "sglang.pagesize", did you mean "sglang.page_size"?`},
		{`{"sglang": {"page_size": 0}}`, `sglang.page_size: got 0, want an integer >= 1`},
		{`{"engine_type": "sglang", "sglang": {"schedule_conservativeness": -0.5}}`,
			`sglang.schedule_conservativeness: got -0.5, want a finite number >= 0`},
		{`{"engine_type": "sglang", "sglang": {"schedule_policy": "LPM"}}`,
			`sglang.schedule_policy: got "LPM", want one of fifo, fcfs, lpm`},
		{`{"engine_type": "sglang", "max_num_seqs": 0}`, `max_num_seqs: got 0, want an integer >= 1`},
		{`{"engine_type": "sglang", "sglang": {"page_size": 1048577}}`,
			`block_size: got 1048577, want at most 1048576`},
		// Block sizes of vLLM and TensorRT-LLM, in one line with the other ranges.
		{`{"block_size": 1}`, `block_size: got 1, want a power of two from 2 to 1024`},
		{`{"block_size": 3, "scheduler": "vllm"}`, `block_size: got 3, want a power of two from 1 to 1024`},
		{`{"block_size": 24}`, `block_size: got 24, want a power of two from 2 to 1024`},
		{`{"block_size": 2048}`, `block_size: got 2048, want a power of two from 2 to 1024`},
		{`{"block_size": -1}`, `block_size: got -1, want an integer >= 0`},
		{`{"block_size": 9223372036854775808}`,
			`block_size: got 9223372036854775808, want an integer from 0 to 9223372036854775807`},
		{`{"block_size": 10, "engine_type": "trtllm"}`, `block_size: got 10, want a power of two from 2 to 1024`},
		{`{"speedup_ratio": -0.1, "dp_size": 0, "block_size": 3}`,
			`speedup_ratio: got -0.1, want a finite number >= 0; ` +
				`dp_size: got 0, want an integer from 1 to 4294967295; block_size: got 3, want a power of two from 2 to 1024`},
		{`{"aic_nextn": 2, "aic_nextn_accept_rates": "0.5,1.5"}`,
			`aic_nextn_accept_rates: entry 1: got "1.5", want a number from 0 to 1`},
		{`{"planner_profile_data": ""}`, `planner_profile_data: got "", want a string that is not empty`},
		// Worker type and its aliases.
		{`{"worker_type": "agg"}`, `worker_type: got "agg", want one of aggregated, prefill, decode`},
		{`{"worker_type": "Prefill"}`, `worker_type: got "Prefill", want one of aggregated, prefill, decode`},
		{`{"worker_type": "decode", "is_prefill": true, "is_decode": true}`,
			`is_prefill: got true together with worker_type, want worker_type alone`},
		{`{"worker_type": "aggregated", "is_decode": false}`,
			`is_decode: got false together with worker_type, want worker_type alone`},
		{`{"is_prefill": true, "is_decode": true}`,
			`is_decode: got true together with is_prefill, want at most one of them true`},
		// Contradictions, the first one only, and none beside a range error.
		{`{"timing_model": "aic"}`, `aic_backend: got nothing, want it given, as timing_model is aic`},
		{`{"timing_model": "interpolated"}`,
			`planner_profile_data: got nothing, want it given, as timing_model is interpolated`},
		{`{"timing_model": "polynomial", "planner_profile_data": "a.npz"}`,
			`timing_model: got "polynomial", want interpolated, as planner_profile_data is given`},
		{`{"num_g3_blocks": 5, "enable_g4_storage": true}`, `num_g3_blocks: got 5, want num_g2_blocks set as well`},
		{`{"enable_g4_storage": true, "num_g2_blocks": 0}`,
			`enable_g4_storage: got true, want num_g2_blocks set as well`},
		{`{"dp_size": 0, "enable_g4_storage": true}`, `dp_size: got 0, want an integer from 1 to 4294967295`},
		{`{"scheduler": "vllm", "block_size": 0}`,
			`block_size: got 0, want an integer >= 1 with scheduler vllm, or it left out for that of the engine`},
		{`{"scheduler": "vllm", "speedup_ratio": 0}`,
			`speedup_ratio: got 0, want a finite number > 0 with scheduler vllm`},
		{`{"scheduler": "vllm-0.28", "decode_speedup_ratio": 0.0}`,
			`decode_speedup_ratio: got 0.0, want a finite number > 0 with scheduler vllm-0.28`},
		{`{"engine_type": "sglang", "scheduler": "sglang", "block_size": 0}`,
			`block_size: got 0, want an integer >= 1 with scheduler sglang, or it left out for that of the engine`},
		{`{"aic_nextn": 2, "decode_speedup_ratio": 2}`, `decode_speedup_ratio: got 2, want 1 together with aic_nextn`},
		{`{"aic_nextn_accept_rates": "1"}`, `aic_nextn_accept_rates: got "1", want aic_nextn set as well`},
		{`{"trtllm": {"capacity_scheduler_policy": "max_utilization"}}`,
			`trtllm.capacity_scheduler_policy: got "max_utilization", want "guaranteed_no_evict"`},
		{`{"engine_type": "sglang", "block_size": 8, "sglang": {"page_size": 16}}`,
			`sglang.page_size: got 16, want the same as block_size, 8`},
		{`{"engine_type": "sglang", "block_size": 4, "sglang": {"chunked_prefill_size": 6}}`,
			`sglang.chunked_prefill_size: got 6, want a multiple of block_size, 4`},
		{`{"engine_type": "sglang", "sglang": {"page_size": 16, "chunked_prefill_size": 24}}`,
			`sglang.chunked_prefill_size: got 24, want a multiple of block_size, 16`},
		{`{"num_gpu_blocks": 4, "num_gpu_blocks_override": 5}`,
			`num_gpu_blocks_override: got 5, want the same as num_gpu_blocks, 4, or only one of the two`},
		{`{"dp_size": 2}`, `dp_size: got 2, want 1 in offline replay, or scheduler vllm or sglang with it`},
		{`{"aic_backend": "", "aic_model_path": ""}`,
			`aic_backend: got "", want a string that is not empty; aic_model_path: got "", want a string that is not empty`},
		{`{"aic_backend": "vllm"}`, `aic_model_path: got nothing, want the name of a model or a folder with its ` +
			`config.json, as aic_backend is given`},
		{`{"aic_backend": "vllm", "aic_model_path": "m", "aic_tp_size": 0}`,
			`aic_tp_size: got 0, want an integer >= 1`},
		{`{"aic_backend": "vllm", "aic_model_path": "m", "aic_moe_ep_size": 0}`,
			`aic_moe_ep_size: got 0, want an integer >= 1`},
		{`{"aic_backend": "tgi", "aic_model_path": "m"}`,
			`num_gpu_blocks: got nothing, want it given: it cannot be estimated for aic_backend "tgi"`},
	}
	for _, test := range tests {
		if err := refusal(t, test.in); err.Error() != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.in, err, test.want)
		}
	}
}

// TestUnknownListsAccepted also pins that names far from any field get no far-fetched suggestion.
func TestUnknownListsAccepted(t *testing.T) {
	for _, name := range []string{"model_path", "context_window", "kv_dtype", "x"} {
		var unknown *strictjson.UnknownFieldError
		if err := refusal(t, `{"`+name+`": 1}`); !errors.As(err, &unknown) || unknown.Nearest != "" ||
			len(unknown.Accepted) != len(table) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestTRTLLM: the policy follows from the engine type, and what only preemption has a use for is named and left out.
func TestTRTLLM(t *testing.T) {
	const text = `{"engine_type": "TRTLLM", "num_gpu_blocks": 4,
		"trtllm": {"capacity_scheduler_policy": "guaranteed_no_evict"},
		"watermark": 0.5, "preemption_mode": "fifo"}`
	got, warnings, err := Parse(text)
	want := Default()
	want.EngineType, want.BlockSize, want.NumGPUBlocks, want.Admission, want.Preemption = TRTLLM, 32, 4,
		GuaranteedNoEvict, FIFO
	if err != nil || got != want {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	if line := "engine arguments preemption_mode, watermark have no effect with engine_type trtllm"; len(warnings) != 1 ||
		warnings[0] != line {
		t.Errorf("got warnings %q", warnings)
	}
	live, warnings, err := ParseLive(text)
	if live.Admission != GuaranteedNoEvict || len(warnings) != 1 || err != nil {
		t.Errorf("live: got %+v, warnings %q, error %v", live, warnings, err)
	}
	for _, role := range []string{"prefill", "decode"} {
		line := "worker_type: got " + role + ", want aggregated with engine_type trtllm, which has no hand-offs"
		if err := refusal(t, `{"engine_type": "trtllm", "is_`+role+`": true}`); err.Error() != line {
			t.Errorf("got %v", err)
		}
	}
}

// TestOutput: only where room for whole outputs is guaranteed does an output end with the pool. Prompts that fill it
// alone are none of its business.
func TestOutput(t *testing.T) {
	vllm, trtllm := Args{BlockSize: 16, NumGPUBlocks: 2},
		Args{BlockSize: 16, NumGPUBlocks: 2, Admission: GuaranteedNoEvict}
	for _, c := range []struct{ prompt, asked, want int }{{20, 40, 12}, {20, 12, 12}, {20, 3, 3}, {31, 5, 1},
		{32, 5, 5}, {33, 5, 5}} {
		if got := trtllm.Output(c.prompt, c.asked); got != c.want {
			t.Errorf("prompt %d, asked for %d: got %d, want %d", c.prompt, c.asked, got, c.want)
		}
		if got := vllm.Output(c.prompt, c.asked); got != c.asked {
			t.Errorf("vllm: prompt %d, asked for %d: got %d", c.prompt, c.asked, got)
		}
	}
}

// TestEveryFieldIsTreated sets each field alone to a value other than its default: what is neither applied
// nor silent must be refused or named in the warning.
func TestEveryFieldIsTreated(t *testing.T) {
	const reasoning = `{"start_thinking_token_id": 1, "end_thinking_token_id": 2, "thinking_ratio": 0}`
	objects := map[string]string{"reasoning": reasoning, "sglang": `{}`, "trtllm": `{}`,
		"host_cache": `{"num_blocks": 1}`}
	for _, f := range table {
		value := "1"
		switch typ := f.Type.(type) {
		case strictjson.Bool:
			value = "true"
		case strictjson.Number:
			value = "0.5"
		case strictjson.Text:
			value = `"x"`
		case strictjson.Enum:
			value = `"` + typ.Choices[1] + `"`
		case strictjson.Nested:
			value = objects[f.Name]
		}
		companions := ""
		switch f.Name {
		case "num_g3_blocks", "enable_g4_storage":
			companions = `, "num_g2_blocks": 1`
		case "aic_nextn_accept_rates":
			companions = `, "aic_nextn": 1`
		}
		_, warnings, err := Parse(`{"` + f.Name + `": ` + value + companions + `}`)
		elsewhere := f.engines != nil && !slices.Contains(f.engines, VLLM)
		if f.use == liveOnly || f.use == startUp || f.use == plannedOnly || f.use == offload || f.aic || elsewhere {
			if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], f.Name) {
				t.Errorf("%s: want a warning, got %q and error %v", f.Name, warnings, err)
			}
		}
	}
}

func refusal(t *testing.T, text string) error {
	t.Helper()
	args, warnings, err := Parse(text)
	if err == nil {
		t.Fatalf("%s: accepted", text)
	}
	if args != (Args{}) || warnings != nil {
		t.Errorf("%s: results beside the error", text)
	}
	return err
}

func TestWithPool(t *testing.T) {
	args, _, err := Parse(`{"aic_backend": "vllm", "aic_model_path": "m", "eviction_backend": "multi_lru"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := args.WithPool(100); err != nil || got.NumGPUBlocks != 100 || got.Capacity != (aic.Capacity{}) {
		t.Errorf("got %+v, error %v", got, err)
	}
	for _, blocks := range []int{0, maxSketch + 1} {
		want := fmt.Sprintf("num_gpu_blocks: got an estimate of %d, want it given, from 1 to 67108864", blocks)
		if _, err := args.WithPool(blocks); err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestParseLive(t *testing.T) {
	args, warnings, err := ParseLive(`{"dp_size": 2, "startup_time": 1.5, "zmq_kv_events_port": 20080, "bootstrap_port": 1,
		"reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 2, "thinking_ratio": 0.5}}`)
	if err != nil || len(warnings) != 1 ||
		!strings.Contains(warnings[0], "bootstrap_port has no effect on aggregated workers") {
		t.Errorf("got %v, %v", warnings, err)
	}
	want := LiveArgs{Ranks: 2, EventsPort: 20080, Reasoning: args.Live.Reasoning, Bootstrap: true, BootstrapPort: 1,
		HandoffTimeoutMs: 300_000}
	if args.Live != want || *args.Live.Reasoning != (Reasoning{StartToken: 1, EndToken: 2, Ratio: 0.5}) {
		t.Errorf("got %+v", args.Live)
	}
	var notBuilt *strictjson.NotBuiltError
	groups := `{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "linear"}]}`
	for name, parse := range map[string]func(string) (Args, []string, error){"a live worker": ParseLive,
		"a server": ParseServed} {
		if args, _, err := parse(groups); err != nil || args.VLLM.Groups.Beside != 1 {
			t.Errorf("groups of %s: %+v, %v", name, args.VLLM.Groups, err)
		}
	}
	if _, _, err := ParseLive(`{"dp_size": 1025}`); err == nil ||
		err.Error() != "dp_size: got 1025, want at most 1024 on live workers" {
		t.Errorf("1,025 ranks: %v", err)
	}
	if _, _, err := ParseLive(`{"num_g2_blocks": 5}`); !errors.As(err, &notBuilt) {
		t.Errorf("got %v", err)
	}
}

func TestParseLiveRoles(t *testing.T) {
	for text, want := range map[string]struct {
		role    engine.Role
		port    int
		timeout uint64
		vain    string
	}{
		`{"worker_type": "prefill", "bootstrap_port": 9000}`:            {engine.Prefill, 9000, 300_000, ""},
		`{"worker_type": "decode", "handoff_session_timeout_ms": 1000}`: {engine.Decode, 0, 1000, ""},
		`{"worker_type": "decode", "bootstrap_port": 9000}`: {engine.Decode, 9000, 300_000,
			"bootstrap_port has no effect on decode workers"},
		`{"handoff_session_timeout_ms": 18446744073709551615, "is_decode": false}`: {engine.Aggregated, 0, 1<<64 - 1,
			"handoff_session_timeout_ms has no effect on aggregated workers"},
	} {
		args, warnings, err := ParseLive(text)
		if err != nil || args.Role != want.role || args.Live.BootstrapPort != want.port ||
			args.Live.HandoffTimeoutMs != want.timeout {
			t.Errorf("%s: got %+v, %v", text, args.Live, err)
		}
		if got := strings.Join(warnings, "; "); got != strings.TrimSuffix("engine argument "+want.vain,
			"engine argument ") {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func TestSharingRanks(t *testing.T) {
	for text, want := range map[string]int{
		`{"aic_backend": "vllm", "aic_model_path": "m", "aic_attention_dp_size": 8}`:                      8,
		`{"aic_backend": "vllm", "aic_model_path": "m", "scheduler": "vllm", "aic_attention_dp_size": 8}`: 8,
		`{"aic_backend": "vllm", "aic_model_path": "m", "scheduler": "vllm", "dp_size": 8}`:               1,
	} {
		args, _, err := Parse(text)
		if err != nil || args.SharingRanks() != want || args.Host().Ranks != want {
			t.Errorf("%s: got %d, %v, want %d", text, args.SharingRanks(), err, want)
		}
	}
	args, _, err := ParseLive(`{"aic_backend": "vllm", "aic_model_path": "m", "dp_size": 8}`)
	if err != nil || args.SharingRanks() != 1 {
		t.Errorf("live: got %d, %v, want 1", args.SharingRanks(), err)
	}
}
