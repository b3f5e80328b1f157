package engineargs

import (
	"math"

	"dynosim/gocore/strictjson"
)

// members are the rows of each field that is an object.
var members = map[string][]field{"reasoning": reasoningTable, "sglang": sglangTable, "host_cache": hostCacheTable,
	"trtllm": trtllmTable}

// reasoningTable holds the members of "reasoning".
var reasoningTable = []field{
	row("start_thinking_token_id", between(0, math.MaxUint32), nil, "The token that begins the thinking.").needed(),
	row("end_thinking_token_id", between(0, math.MaxUint32), nil, "The token that ends the thinking.").needed(),
	row("thinking_ratio", fraction, nil, "Fraction of the output that is spent between these tokens, 0 to 1.").needed(),
}

// sglangTable holds the members of "sglang". A null says the same as an absent member.
var sglangTable = []field{
	row("schedule_policy", strictjson.Enum{Choices: policyNames}, nil,
		"Order of the waiting queue: ``\"fifo\"``, also called ``\"fcfs\"``, or ``\"lpm\"``, "+
			"longest prefix hit first.").implied("fifo"),
	row("page_size", atLeast(1), nil,
		"Tokens of a page of the radix cache, another name of ``block_size``.").implied(engineTypes[SGLang].BlockSize),
	row("max_prefill_tokens", atLeast(1), nil,
		"Prompt tokens of one prefill batch.").implied(defaultPrefillTokens),
	row("chunked_prefill_size", atLeast(1), nil,
		"The longest piece of a prompt that one pass computes, in tokens. It is a multiple of the page size.").
		implied(defaultChunk),
	row("clip_max_new_tokens", atLeast(1), nil,
		"Most output tokens that admission reserves room for.").implied(defaultClip),
	row("schedule_conservativeness", strictjson.Number{}, nil,
		"Factor on the share of the remaining output that admission reserves.").implied(defaultConservativeness),
	row("reference_quirks", strictjson.Bool{}, nil,
		"False corrects two slips of the reference: a request that is retracted then returns exactly the slots that "+
			"it alone holds.").
		by(Dynamo).implied(true).byKeyword(),
	row("overlap_schedule", strictjson.Bool{}, nil,
		"Compose a batch while the one before it runs, as a stock server does.").by(SGLangOwn).implied(true).
		byKeyword(),
	row("ignore_eos", strictjson.Bool{}, nil,
		"Requests never end early, so the whole outputs of running requests are reserved.").by(SGLangOwn).
		implied(false).byKeyword(),
	row("enable_mixed_chunk", strictjson.Bool{}, nil,
		"Running requests decode in the batches that compute prompts, instead of waiting for them.").by(SGLangOwn).
		implied(false).byKeyword(),
	row("scheduler_recv_interval", atLeast(1), nil,
		"Look for new requests after this many decode batches, and after each prefill batch.").by(SGLangOwn).implied(1).
		byKeyword(),
	row("num_reserved_decode_tokens", atLeast(0), nil,
		"Tokens that a decode worker keeps free for each request that has room on it.").by(SGLangOwn).
		implied(defaultReserved).byKeyword(),
}

// hostCacheTable holds the members of "host_cache".
var hostCacheTable = []field{
	row("num_blocks", between(1, maxBlocks), nil,
		"KV blocks of the host, unless an argument beside host_cache says how large it is."),
	row("write_policy", word(writePolicyNames...), nil,
		"When SGLang copies blocks to the host: ``\"write_through\"``, once they are in the cache; "+
			"``\"write_through_selective\"``, once a second "+
			"request has them; or ``\"write_back\"``, when they are evicted.").implied(writePolicyNames[0]),
	row("load_back_threshold", atLeast(0), nil,
		"The fewest tokens that SGLang loads back; fewer are computed again.").implied(defaultLoadBack),
	row("eviction_policy", word(hostEvictionNames...), nil,
		"Which chunk leaves the host of vLLM: ``\"lru\"``, the one used least recently, or ``\"arc\"``, by adaptive "+
			"replacement.").
		implied(hostEvictionNames[0]).byKeyword(),
	row("blocks_per_chunk", between(1, 1<<16), nil,
		"Blocks that vLLM stores, looks up and evicts as one.").implied(1).byKeyword(),
	row("store_threshold", between(0, 1<<30), nil,
		"vLLM stores a chunk when it is computed for this time; 0 and 1 are the first.").implied(0).byKeyword(),
	row("offload_prompt_only", strictjson.Bool{}, nil,
		"Whether vLLM stores prompts only, not generated tokens.").implied(true).byKeyword(),
	row("shared", strictjson.Bool{}, nil,
		"Whether all workers share the memory, as a store beside them: num_blocks are those of all then. "+
			"With vLLM's rules.").implied(false).byKeyword(),
	row("shared_workers", between(1, 1<<20), nil,
		"With shared, how many workers follow each other that are on one node and share its memory: num_blocks are "+
			"those of a node then. "+
			"Without it, all workers do.").byKeyword(),
	row("shared_ms_per_block", copyMs, nil,
		"Milliseconds that a shared store takes for one block, stored or loaded, one at a time for all workers.").
		implied(0).byKeyword(),
	row("storage_blocks", between(1, maxBlocks), nil,
		"KV blocks of a disk or an object store behind the host, which all workers read and write.").byKeyword(),
	row("storage_gb", strictjson.Number{MinOpen: true, Max: 1e9}, nil, "GB (10^9 bytes) of the storage instead.").
		byKeyword(),
	row("storage_read_ms_per_block", copyMs, nil, "Milliseconds in which a worker reads one block from the storage.").
		implied(0).byKeyword(),
	row("storage_write_ms_per_block", copyMs, nil, "Milliseconds in which it writes one.").implied(0).byKeyword(),
	row("storage_read_gbps", strictjson.Number{MinOpen: true, Max: 1e9}, nil,
		"GB/s in which a worker reads, instead of milliseconds.").byKeyword(),
	row("storage_write_gbps", strictjson.Number{MinOpen: true, Max: 1e9}, nil, "GB/s in which it writes.").byKeyword(),
	row("storage_latency_ms", copyMs, nil, "Milliseconds of each read and write, besides those of its blocks.").
		implied(0).byKeyword(),
	row("storage_shared_ms_per_block", copyMs, nil,
		"Milliseconds that the storage takes for one block, of all reads and writes that run at the same time.").
		implied(0).byKeyword(),
	row("storage_prefetch_policy", word(prefetchNames...), nil,
		"What a prompt does that is at the head of the queue while it is read from the storage, as SGLang names it: "+
			"``\"best_effort\"`` goes on "+
			"with what has come, ``\"wait_complete\"`` waits, ``\"timeout\"`` waits, but not for ever.").
		implied(prefetchNames[PrefetchTimeout]).byKeyword(),
	row("storage_prefetch_threshold", atLeast(0), nil, "The fewest tokens that are read from the storage.").
		implied(defaultPrefetch).byKeyword(),
	row("storage_prefetch_timeout_base", strictjson.Number{Max: 1e6}, nil,
		"With timeout, the seconds that a prompt waits, and").implied(2).byKeyword(),
	row("storage_prefetch_timeout_per_ki_token", strictjson.Number{Max: 1e6}, nil,
		"those for each 1,024 tokens besides, but").implied(0.1).byKeyword(),
	row("storage_prefetch_timeout_max", strictjson.Number{Max: 1e6}, nil,
		"no more than these; SGLang's defaults.").implied(30).byKeyword(),
	row("load_ms_per_block", copyMs, nil, "Milliseconds to load one block.").implied(0),
	row("store_ms_per_block", copyMs, nil, "Milliseconds to store one block.").implied(0),
	row("latency_ms", copyMs, nil, "Milliseconds of each copy, besides those of its blocks.").implied(0),
}

// copyMs bounds the durations of copies.
var copyMs = strictjson.Number{Max: 1e6}

// trtllmTable holds the members of "trtllm".
var trtllmTable = []field{
	row("capacity_scheduler_policy", strictjson.Text{}, nil,
		"Only ``\"guaranteed_no_evict\"``: a request is admitted when its whole output has room.").
		implied("guaranteed_no_evict"),
}

// groupTable holds the members of an object in "kv_cache_groups".
var groupTable = []field{
	row("type", word(groupKinds...), nil, "``\"full\"``, ``\"sliding_window\"`` or ``\"linear\"``.").needed(),
	row("window", between(2, maxBlocks), nil, "Tokens that a sliding window sees, the one that is computed included."),
	row("num_blocks", between(1, maxBlocks), nil,
		"With SGLang, blocks of the pool of its own that the layers with a sliding window have."),
}
