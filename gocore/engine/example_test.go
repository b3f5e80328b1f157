package engine_test

import (
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker"
)

// A shell drives an engine pass by pass: it adds requests, runs a pass that starts now, and moves its clock to the end
// of that pass. Request 2 arrives during the first pass. Both prompts begin with block 0, so it finds 4 of its 8 prompt
// tokens in the cache.
func Example() {
	args, _, err := engineargs.Parse(`{"engine_type": "vllm", "block_size": 4, "num_gpu_blocks": 16}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := worker.New(args, engine.Setup{}).Engine

	e.Add(engine.Request{ID: 1, Prompt: prompt(0, 1), PromptTokens: 8, OutputTokens: 3})
	for nowMs := 0.0; e.Requests() > 0; {
		pass, alive := e.RunPass(nowMs)
		if !alive {
			fmt.Println("no request can go on")
			return
		}
		fmt.Printf("%.2f to %.2f ms: admitted %+v, %d tokens, finished %v\n",
			pass.StartMs, pass.EndMs, pass.Admitted, pass.Tokens, pass.Finished)
		if nowMs == 0 {
			e.Add(engine.Request{ID: 2, Prompt: prompt(0, 2), PromptTokens: 8, OutputTokens: 2})
		}
		nowMs = pass.EndMs
	}
	// Output:
	// 0.00 to 28.71 ms: admitted [{ID:1 ReusedTokens:0 Rank:0}], 1 tokens, finished []
	// 28.71 to 62.91 ms: admitted [{ID:2 ReusedTokens:4 Rank:0}], 2 tokens, finished []
	// 62.91 to 83.01 ms: admitted [], 2 tokens, finished [1 2]
}

// prompt returns a prompt of these blocks. Equal ids stand for equal tokens at the same place.
func prompt(blocks ...uint32) kvcache.Prompt { return kvcache.Prompt{Segments: blocks, PerSegment: 1} }

// An engine that can run ahead tells when its next passes will end, and then carries out as many of them as the shell
// wants. Here the shell expects a request at 40 ms, and asks for the passes that start before that.
func ExampleCoaster() {
	args, _, err := engineargs.Parse(`{"block_size": 16, "num_gpu_blocks": 64}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := worker.New(args, engine.Setup{}).Engine
	e.Add(engine.Request{ID: 1, Prompt: prompt(0), PromptTokens: 16, OutputTokens: 100})
	first, _ := e.RunPass(0)
	fmt.Printf("first token at %.2f ms\n", first.EndMs)

	coaster, ok := e.(engine.Coaster)
	if !ok {
		fmt.Println("this engine runs every pass by itself")
		return
	}
	endsMs := coaster.Coast(first.EndMs, 40)
	coaster.Settle(len(endsMs))
	fmt.Printf("%d more tokens, at %.2f ms\n", len(endsMs), endsMs)
	// Output:
	// first token at 23.32 ms
	// 3 more tokens, at [30.72 38.13 45.53] ms
}
