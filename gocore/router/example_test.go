package router_test

import (
	"fmt"
	"math/rand/v2"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// A router gets requests and answers with admissions. Round robin takes the workers in turn.
func Example() {
	r := router.NewRoundRobin(2)
	for id := range int32(3) {
		show(r.Submit(router.Request{ID: id, PromptTokens: 100}, 0))
	}
	// Output:
	// request 0 goes to worker 0
	// request 1 goes to worker 1
	// request 2 goes to worker 0
}

// show prints what a call of a router returns.
func show(admitted []router.Admission, err error) {
	if err != nil {
		fmt.Println(err)
	}
	for _, a := range admitted {
		fmt.Printf("request %d goes to worker %d\n", a.ID, a.Worker)
	}
}

// The KV-aware router learns what workers have cached and which requests make progress. All prompts begin with the
// blocks 0 and 1, which worker 1 has cached:
//
//   - Request 1 goes there.
//   - Request 2 comes while worker 1 still computes the prompt of request 1. That costs more than a prefix hit saves.
//   - Request 3 comes when both workers are idle again, and the prefix hit decides.
func ExampleKV() {
	const blockSize = 4 // tokens
	r := router.New(router.Options{
		Config: router.DefaultConfig(), Workers: 2, BlockSize: blockSize, MaxNumBatchedTokens: 1024,
		Rand: rand.New(rand.NewPCG(1, 0)), // draws among workers of equal cost
		Log: func(d router.Decision) {
			for _, c := range d.Candidates {
				fmt.Printf("request %d, worker %d: %d blocks cached, %d tokens to compute, cost %v\n",
					d.ID, c.Worker, c.OverlapBlocks, c.PrefillTokens, c.Cost)
			}
		},
	})
	request := func(id int32, blocks ...uint32) router.Request {
		prompt := kvcache.Prompt{Segments: blocks, PerSegment: 1}
		return router.Request{ID: id, Prompt: prompt, PromptTokens: len(blocks) * blockSize}
	}

	r.Apply(1, []kvcache.Event{{Kind: kvcache.Stored, Blocks: kvcache.BlocksOf(0, 1)}})
	show(r.Submit(request(1, 0, 1, 2, 3, 4), 0))
	show(r.Submit(request(2, 0, 1, 5), 5))
	show(r.PrefillCompleted(1, 40)) // the first token of request 1
	show(r.PrefillCompleted(2, 40))
	show(r.Free(1, 80)) // request 1 is over
	show(r.Free(2, 80))
	show(r.Submit(request(3, 0, 1, 6), 90))
	// Output:
	// request 1, worker 0: 0 blocks cached, 0 tokens to compute, cost 10
	// request 1, worker 1: 2 blocks cached, 0 tokens to compute, cost 8
	// request 1 goes to worker 1
	// request 2, worker 0: 0 blocks cached, 0 tokens to compute, cost 6
	// request 2, worker 1: 2 blocks cached, 12 tokens to compute, cost 10
	// request 2 goes to worker 0
	// request 3, worker 0: 0 blocks cached, 0 tokens to compute, cost 6
	// request 3, worker 1: 2 blocks cached, 0 tokens to compute, cost 4
	// request 3 goes to worker 1
}

// Users choose a kind of router by the name of its mode. A factory of the mode then makes the router of each pool of
// workers.
func ExampleFindMode() {
	mode, known := router.FindMode("kv_router")
	if !known {
		fmt.Println("no such mode")
		return
	}
	factory := mode.Factory(&router.Options{Config: router.DefaultConfig(), BlockSize: 64, MaxNumBatchedTokens: 8192})
	fmt.Printf("reads a configuration: %v; wants cache events: %v\n", mode.Configured,
		factory.Make(4).Traits().Observes)
	// Output:
	// reads a configuration: true; wants cache events: true
}
