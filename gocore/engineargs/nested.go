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
