package workload_test

import (
	"fmt"
	"strings"

	"dynosim/gocore/workload"
)

// A workload comes from a trace, Schedule prepares its times, and a Driver releases each turn when it is due. The
// second row belongs to the same session as the first one, and starts 50 ms after that has completed. All prompts begin
// with the block that the trace calls 7. Blocks get new ids, counted from 0 in order of appearance.
func Example() {
	trace := `{"session_id": "chat", "timestamp": 100, "input_length": 1024, "output_length": 20, "hash_ids": [7, 8]}
{"session_id": "chat", "delay": 50, "input_length": 1536, "output_length": 10, "hash_ids": [7, 8, 9]}
{"timestamp": 130, "input_length": 700, "output_length": 5, "hash_ids": [7, 4]}
`
	spec := workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: 512} // tokens
	w, err := workload.LoadMooncake(strings.NewReader(trace), "chat.jsonl", spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Schedule(false, 1); err != nil { // use the times of the trace, at their own speed
		fmt.Println(err)
		return
	}

	const serviceMs = 200 // how long this example takes to serve a request
	driver := workload.NewDriver(w, 0)
	for driver.Unreleased() > 0 {
		nowMs, _ := driver.NextMs()
		id, arrivalMs, _ := driver.Next(nowMs)
		turn := driver.Turn(id)
		full := turn.InputTokens / spec.EngineBlockSize
		fmt.Printf("%v ms: turn %d, %d + %d tokens, full blocks %v\n",
			arrivalMs, id, turn.InputTokens, turn.OutputTokens, turn.Prompt.AppendBlocks(nil, 0, full))
		driver.Completed(id, arrivalMs+serviceMs)
	}
	// Output:
	// 0 ms: turn 0, 1024 + 20 tokens, full blocks [0 1]
	// 30 ms: turn 2, 700 + 5 tokens, full blocks [0]
	// 250 ms: turn 1, 1536 + 10 tokens, full blocks [0 1 2]
}

// A generated workload has two sessions of two turns here. The first half of each prompt is the same in all of them.
func ExampleSynthetic() {
	const blockSize = 64
	w, err := workload.Synthetic(workload.SyntheticSpec{
		InputTokens: 256, OutputTokens: 32, RequestCount: 2, TurnsPerSession: 2,
		ArrivalIntervalMs: 10, InterTurnDelayMs: 100,
		SharedPrefixRatio: 0.5, NumPrefixGroups: 1,
		EngineBlockSize: blockSize,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, turn := range w.Turns {
		fmt.Printf("session %d turn %d: starts %v, delay %v ms, blocks %v\n", turn.Session, turn.Index,
			w.Sessions[turn.Session].StartMs, turn.DelayMs,
			turn.Prompt.AppendBlocks(nil, 0, turn.InputTokens/blockSize))
	}
	// Output:
	// session 0 turn 0: starts 0, delay 0 ms, blocks [0 1 2 3]
	// session 0 turn 1: starts 0, delay 100 ms, blocks [0 1 4 5]
	// session 1 turn 0: starts 10, delay 0 ms, blocks [0 1 6 7]
	// session 1 turn 1: starts 10, delay 100 ms, blocks [0 1 8 9]
}

// In concurrency mode the start times of sessions do not matter. Here two sessions are active at a time; when one of
// them is over, the next one starts.
func ExampleNewDriver() {
	w, err := workload.Synthetic(workload.SyntheticSpec{
		InputTokens: 100, OutputTokens: 10, RequestCount: 3, TurnsPerSession: 1, EngineBlockSize: 64,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	driver := workload.NewDriver(w, 2)
	release := func(nowMs float64) {
		for id, _, ok := driver.Next(nowMs); ok; id, _, ok = driver.Next(nowMs) {
			fmt.Printf("%v ms: turn %d\n", nowMs, id)
		}
	}
	release(0)
	driver.Completed(1, 300)
	release(300)
	// Output:
	// 0 ms: turn 0
	// 0 ms: turn 1
	// 300 ms: turn 2
}
