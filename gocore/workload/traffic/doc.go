// Package traffic reads what others have recorded of real traffic: public traces of production services, and the
// results of load generators. Each format is a file of its own that turns rows into requests; formats.go lists them.
//
//	azure.go          Azure LLM inference 2023, 2024: arrivals and lengths
//	burstgpt.go       BurstGPT: arrivals, lengths and conversations
//	splitwise.go      processed traces of Splitwise and Vidur: arrivals and lengths
//	servegen.go       ServeGen: a mix of clients, of which requests are drawn; clientmix.go reads its files
//	weka.go           coding agents with sub-agents, pauses and block ids; agents.go says what waits for what
//	bailian.go        Qwen-Bailian: conversations with block ids
//	sharegpt.go       token counts of ShareGPT, and results of LLMServingSim
//	aiperf.go         AIPerf, profile_export.jsonl
//	benchserve.go     vllm bench serve and sglang.bench_serving
//	guidellm.go       GuideLLM
//
// collector.go is what they have in common: bounds, requests that cannot be replayed, order and sessions.
package traffic
