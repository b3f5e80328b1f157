// Package cachetrace logs the changes of the block pools of vLLM and TensorRT-LLM engines, one line for each batch of
// blocks that is stored or evicted:
//
//	KV cache trace engine_type=vllm event=allocation ... free_blocks=2 active_blocks=2 inactive_blocks=0 ...
//
// Hits, releases and blocks that are not full leave no line. SGLang engines have no pool of blocks and no lines.
package cachetrace

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker"
)

// Variable is the environment variable that asks for the lines.
const Variable = "DYN_MOCKER_KV_CACHE_TRACE"

// Wanted tells whether a value of Variable asks for them.
func Wanted(value string) bool { return value == "1" || strings.EqualFold(value, "true") }

// Warning returns the warning for an engine that writes no such lines, "" for one that does.
func Warning(value string, args engineargs.Args) string {
	if !Wanted(value) || worker.Traits(args).TracesCache {
		return ""
	}
	return Variable + " has no effect with engine_type " + args.EngineType.String() +
		", whose cache is a tree and no pool of blocks"
}

// New returns the function that logs the changes of one engine's cache, nil if there is no log. dpRank is its first
// data-parallel rank.
func New(log *slog.Logger, args engineargs.Args, dpRank int) func(engine.CacheTrace) {
	if log == nil {
		return nil
	}
	events := [...]string{kvcache.Stored: "allocation", kvcache.Removed: "eviction"}
	return func(c engine.CacheTrace) {
		log.LogAttrs(context.Background(), slog.LevelInfo, "KV cache trace",
			slog.String("engine_type", args.EngineType.String()),
			slog.String("event", events[c.Kind]),
			slog.Int64("timestamp_ms", time.Now().UnixMilli()),
			slog.Int("dp_rank", dpRank+c.Rank),
			slog.Int("block_size", args.BlockSize),
			slog.Int("free_blocks", c.Free),
			slog.Int("active_blocks", c.Active),
			slog.Int("inactive_blocks", c.Inactive),
			slog.Int("total_blocks", args.NumGPUBlocks),
			slog.Float64("utilization", float64(c.Active+c.Inactive)/float64(args.NumGPUBlocks)),
		)
	}
}
