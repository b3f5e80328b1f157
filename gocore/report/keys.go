package report

import "dynosim/gocore/engine"

// sums is what the keys of a report are computed from.
type sums struct {
	totals
	arrived, rejected int
	durationMs        float64
	used              Resources
	copied            engine.Copied
	lockstep          engine.Lockstep
	groups            engine.GroupUse
}

// processed returns the number of tokens that the run processed.
func (s *sums) processed() int { return s.input + s.output }

// perDuration divides by the simulated time.
func (s *sums) perDuration(n int) float64 { return float64(n) / Seconds(s.durationMs) }

// key is one key of a report. Exactly one of the three functions is set.
type key struct {
	name, unit, doc string // docs/reference/report.md is generated from these
	goodput         bool   // only there if bounds were given
	priced          bool   // only there if a price was given
	ruled           bool   // only there if engines follow other rules than Dynamo's
	hosted          bool   // only there if engines have a tier of host memory
	sized           bool   // only there if so, and the size of its blocks is known
	stored          bool   // only there if there is storage behind that
	faulty          bool   // only there if workers can be lost
	ranked          bool   // only there if ranks run their passes together
	grouped         bool   // only there if caches have several groups
	int             func(*sums) int
	float           func(*sums) float64
	text            func(*sums) string
}

// keys are those of every report, in the order in which they are shown; statistics follow.
var keys = []key{
	{name: "num_requests", unit: "requests", doc: "Requests that arrived.",
		int: func(s *sums) int { return s.arrived }},
	{name: "completed_requests", unit: "requests",
		doc: "Requests that were admitted and emitted a token, and were not rejected. They need not have finished.",
		int: func(s *sums) int { return s.requests }},
	{name: "rejected_requests", unit: "requests", doc: "Requests that can never run, those that failed included.",
		int: func(s *sums) int { return s.rejected }},
	{name: "finished_requests", unit: "requests", doc: "Requests that emitted all their output.",
		int: func(s *sums) int { return s.finished }},
	{name: "total_input_tokens", unit: "tokens", doc: "Tokens of the prompts of completed requests.",
		int: func(s *sums) int { return s.input }},
	{name: "total_output_tokens", unit: "tokens", doc: "Tokens that completed requests **asked for**, emitted or not.",
		int: func(s *sums) int { return s.output }},
	{name: "duration_ms", unit: "ms", doc: "From 0 to the last token of a completed request.",
		float: func(s *sums) float64 { return s.durationMs }},
	{name: "wall_time_ms", unit: "real ms", doc: "How long the simulation took.",
		float: func(s *sums) float64 { return s.used.WallMs }},
	{name: "request_throughput_rps", unit: "1/s", doc: "Completed requests, divided by the duration.",
		float: func(s *sums) float64 { return s.perDuration(s.requests) }},
	{name: "input_throughput_tok_s", unit: "tokens/s", doc: "Input tokens, divided by the duration.",
		float: func(s *sums) float64 { return s.perDuration(s.input) }},
	{name: "output_throughput_tok_s", unit: "tokens/s", doc: "Output tokens, divided by the duration.",
		float: func(s *sums) float64 { return s.perDuration(s.output) }},
	{name: "total_throughput_tok_s", unit: "tokens/s", doc: "Input and output tokens, divided by the duration.",
		float: func(s *sums) float64 { return s.perDuration(s.processed()) }},
	{name: "prefill_worker_seconds", unit: "s", doc: "Simulated time of all prefill workers; 0 in real time.",
		float: func(s *sums) float64 { return s.used.PrefillWorkerSeconds }},
	{name: "decode_worker_seconds", unit: "s",
		doc:   "Simulated time of all decode workers, or of the workers of a single pool; 0 in real time.",
		float: func(s *sums) float64 { return s.used.DecodeWorkerSeconds }},
	{name: "prefill_gpus_per_worker", unit: "GPUs",
		doc: "Tensor times attention data parallelism of a prefill worker; 0 in real time.",
		int: func(s *sums) int { return s.used.PrefillGPUsPerWorker }},
	{name: "decode_gpus_per_worker", unit: "GPUs", doc: "The same of a decode worker, or of a worker of a single pool.",
		int: func(s *sums) int { return s.used.DecodeGPUsPerWorker }},
	{name: "gpu_hours", unit: "h", doc: "Worker seconds times GPUs per worker.",
		float: func(s *sums) float64 { return s.used.gpuHours() }},
	{name: "gpu_cost", unit: "as the price", doc: "GPU hours times `--gpu-hour-price`; only with it.", priced: true,
		float: func(s *sums) float64 { return float64(s.used.gpuHours() * s.used.GPUHourPrice) }},
	{name: "timing_model", doc: "Where durations come from, see [timing](../timing.md).",
		text: func(s *sums) string { return s.used.TimingModel }},
	{name: "scheduler", doc: "Whose rules the engine schedules by, with the release; only if they are not those of " +
		"Dynamo's mocker.", ruled: true,
		text: func(s *sums) string { return s.used.Scheduler }},
	{name: "goodput_completed_requests", unit: "requests",
		doc:     "Completed requests within every bound given with `--sla-ttft-ms`, `--sla-tpot-ms` and `--sla-e2e-ms`.",
		goodput: true,
		int:     func(s *sums) int { return s.good }},
	{name: "goodput_request_throughput_rps", unit: "1/s", doc: "These requests, divided by the duration.",
		goodput: true,
		float:   func(s *sums) float64 { return s.perDuration(s.good) }},
	{name: "goodput_output_throughput_tok_s", unit: "tokens/s", doc: "Their output tokens, divided by the duration.",
		goodput: true,
		float:   func(s *sums) float64 { return s.perDuration(s.goodOutput) }},
	{name: "processed_tokens", unit: "tokens", doc: "Input and output tokens of completed requests.",
		int: func(s *sums) int { return s.processed() }},
	{name: "processed_tokens_per_s", unit: "tokens/real s",
		doc:   "These tokens, divided by the time that the simulation took.",
		float: func(s *sums) float64 { return perSecond(s.processed(), s.used.WallMs) }},
	{name: "processed_output_tokens_per_s", unit: "tokens/real s",
		doc:   "Output tokens, divided by the time that the simulation took.",
		float: func(s *sums) float64 { return perSecond(s.output, s.used.WallMs) }},
	{name: "prefix_cache_reused_ratio", unit: "0 to 1",
		doc:   "Part of the prompt tokens that was found in a cache, at the admission of each request that found most.",
		float: func(s *sums) float64 { return ratio(s.reused, s.input) }},
	{name: "first_admission_prefix_cache_reused_ratio", unit: "0 to 1",
		doc:   "The same at the first admission of each request.",
		float: func(s *sums) float64 { return ratio(s.firstReused, s.input) }},
	{name: "host_stored_blocks", unit: "blocks",
		doc:    "KV blocks copied to the host, see [tiers](../tiers.md); only with `host_cache`, like the next ones.",
		hosted: true,
		int:    func(s *sums) int { return s.copied.Stored }},
	{name: "host_loaded_blocks", unit: "blocks", doc: "KV blocks copied back from the host.", hosted: true,
		int: func(s *sums) int { return s.copied.Loaded }},
	{name: "host_evicted_blocks", unit: "blocks", doc: "KV blocks that left the host to make room.", hosted: true,
		int: func(s *sums) int { return s.copied.Evicted }},
	{name: "host_lost_blocks", unit: "blocks",
		doc: "KV blocks that were on the host of a worker that was lost, or on their way from it to a store that workers " +
			"share; only with faults.", hosted: true, faulty: true,
		int: func(s *sums) int { return s.copied.Lost }},
	{name: "host_store_ms", unit: "ms", doc: "How long copies to the host took, over all workers.", hosted: true,
		float: func(s *sums) float64 { return s.copied.StoreMs }},
	{name: "host_load_ms", unit: "ms", doc: "How long copies from the host took.", hosted: true,
		float: func(s *sums) float64 { return s.copied.LoadMs }},
	{name: "host_held_ms", unit: "ms", doc: "How long schedulers stood still for a copy to the host.", hosted: true,
		float: func(s *sums) float64 { return s.copied.HeldMs }},
	{name: "host_missed_blocks", unit: "blocks",
		doc: "KV blocks that were computed although the host had them: too few to be loaded, or without room for " +
			"them on the GPU.", hosted: true,
		int: func(s *sums) int { return s.copied.Missed }},
	{name: "host_reused_ratio", unit: "0 to 1",
		doc: "Part of the prompt tokens that was found on the host at the first admission of each request; the rest " +
			"of `first_admission_prefix_cache_reused_ratio` was on the GPU.", hosted: true,
		float: func(s *sums) float64 { return ratio(s.copied.Found, s.input) }},
	{name: "host_store_busy_ratio", unit: "0 to 1",
		doc: "Part of the time of the workers in which copies to the host ran, with those that are still to run when " +
			"the last request ends, and 1 if they take longer; null in real time.", hosted: true,
		float: func(s *sums) float64 { return s.used.busy(s.copied.StoreMs) }},
	{name: "host_load_busy_ratio", unit: "0 to 1", doc: "The same of copies from the host.", hosted: true,
		float: func(s *sums) float64 { return s.used.busy(s.copied.LoadMs) }},
	{name: "host_stored_bytes", unit: "bytes",
		doc: "Bytes copied to the host; only if those of a token are known (`kv_bytes_per_token`, or AIC), " +
			"like the next one.", sized: true,
		int: func(s *sums) int { return s.copied.Stored * s.used.HostBlockBytes }},
	{name: "host_loaded_bytes", unit: "bytes", doc: "Bytes copied back from the host.", sized: true,
		int: func(s *sums) int { return s.copied.Loaded * s.used.HostBlockBytes }},
	{name: "storage_written_blocks", unit: "blocks",
		doc: "KV blocks written to [storage behind the host](../tiers.md#storage-behind-the-host); only with it, " +
			"like the next ones.", stored: true,
		int: func(s *sums) int { return s.copied.Storage.Stored }},
	{name: "storage_read_blocks", unit: "blocks", doc: "KV blocks read from there to the host.", stored: true,
		int: func(s *sums) int { return s.copied.Storage.Loaded }},
	{name: "storage_evicted_blocks", unit: "blocks", doc: "KV blocks that left the storage to make room.", stored: true,
		int: func(s *sums) int { return s.copied.Storage.Evicted }},
	{name: "storage_lost_blocks", unit: "blocks",
		doc: "KV blocks that were on their way there from a worker that was lost; only with faults.", stored: true,
		faulty: true,
		int:    func(s *sums) int { return s.copied.Storage.Lost }},
	{name: "storage_write_ms", unit: "ms", doc: "How long writes took that have ended, over all workers.", stored: true,
		float: func(s *sums) float64 { return s.copied.Storage.StoreMs }},
	{name: "storage_read_ms", unit: "ms", doc: "How long reads took.", stored: true,
		float: func(s *sums) float64 { return s.copied.Storage.LoadMs }},
	{name: "storage_write_busy_ratio", unit: "0 to 1", doc: "Part of the time of the workers in which writes ran.",
		stored: true,
		float:  func(s *sums) float64 { return s.used.busy(s.copied.Storage.StoreMs) }},
	{name: "storage_read_busy_ratio", unit: "0 to 1", doc: "The same of reads.", stored: true,
		float: func(s *sums) float64 { return s.used.busy(s.copied.Storage.LoadMs) }},
	{name: "storage_written_bytes", unit: "bytes",
		doc: "Bytes written; only if those of a token are known, like the next one.", stored: true, sized: true,
		int: func(s *sums) int { return s.copied.Storage.Stored * s.used.HostBlockBytes }},
	{name: "storage_read_bytes", unit: "bytes", doc: "Bytes read.", stored: true, sized: true,
		int: func(s *sums) int { return s.copied.Storage.Loaded * s.used.HostBlockBytes }},
	{name: "rank_pass_ms", unit: "ms", doc: "Time of data-parallel ranks in common passes, summed over ranks; only " +
		"with `dp_size` above 1 by vLLM's own rules, see [ranks](../ranks.md).", ranked: true,
		float: func(s *sums) float64 { return s.lockstep.PassMs }},
	{name: "rank_wait_ms", unit: "ms", doc: "How much of it ranks waited for the slowest.", ranked: true,
		float: func(s *sums) float64 { return s.lockstep.WaitMs }},
	{name: "rank_wait_share", unit: "0 to 1", doc: "The one divided by the other.", ranked: true,
		float: func(s *sums) float64 { return s.lockstep.WaitShare() }},
	{name: "kv_wait_full_attention_ms", unit: "ms",
		doc: "Time of passes in which the first request in line had no room as its blocks of full attention alone " +
			"were too many, summed over workers; only with several `kv_cache_groups`, see [hybrid " +
			"caches](../hybrid.md#what-requests-wait-for).", grouped: true,
		float: func(s *sums) float64 { return s.groups.WaitFullMs }},
	{name: "kv_wait_other_groups_ms", unit: "ms",
		doc:     "Time in which there was room for these, but not for those of sliding windows or linear attention beside.",
		grouped: true,
		float:   func(s *sums) float64 { return s.groups.WaitOthersMs }},
}

// group is a distribution whose statistics are keys. Exactly one of the functions is set. Those of gaps may change the
// list, so that the order of groups matters.
type group struct {
	name, unit, doc string
	once            func(latencies) []float64
	gaps            func([]repeated) []repeated
}

// groups are those of every report, in the order in which they are shown.
var groups = []group{
	{name: "ttft_ms", unit: "ms", doc: "Time to first token, first token minus arrival, of each completed request.",
		once: func(l latencies) []float64 { return l.ttft }},
	{name: "ttst_ms", unit: "ms",
		doc:  "Time to second token, counted from the first one, of each with two tokens or more.",
		once: func(l latencies) []float64 { return l.ttst }},
	{name: "tpot_ms", unit: "ms", doc: "Time per output token, the mean gap between its tokens, of each with two " +
		"tokens or more. AIPerf calls it inter-token latency.",
		once: func(l latencies) []float64 { return l.tpot }},
	{name: "itl_ms", unit: "ms", doc: "Token gap: every single gap between two tokens. Also as `token_gap_ms` where " +
		"a key is asked for.",
		gaps: func(gaps []repeated) []repeated { return gaps }},
	{name: "e2e_latency_ms", unit: "ms", doc: "Last token minus arrival, of each completed request.",
		once: func(l latencies) []float64 { return l.e2e }},
	{name: "output_token_throughput_per_user", unit: "tokens/s", doc: "1000 divided by every single gap above 0.",
		gaps: tokenRates},
}
