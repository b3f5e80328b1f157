package engineargs

import (
	"fmt"

	"dynosim/gocore/models"
	"dynosim/gocore/strictjson"
)

// staticShare is the part of a GPU that SGLang takes for weights and KV cache, its mem_fraction_static. Its default
// depends on the GPU and on other settings; published logs of GPUs with 80 GB and more have 0.83 to 0.9.
const staticShare = 0.88

// settingsOfSGLang returns what follows from a model that SGLang serves: as many GPUs, doubled from 1, as its longest
// request needs.
func settingsOfSGLang(o *strictjson.Object, facts models.Facts, limits models.Limits) (map[string]any, error) {
	ranks, most := intOrOne(o, "aic_tp_size"), intOrOne(o, "aic_tp_size")
	if !o.Given("aic_tp_size") && !givesPool(o) {
		most = mostRanks
	}
	page := blockSize(o)
	for ; ; ranks *= 2 {
		pools, err := facts.Pools(models.Shape{Ranks: ranks, BlockSize: page, FP8: o.Text("kv_cache_dtype") == "fp8"})
		if err != nil {
			return nil, &strictjson.FieldError{Field: modelOrConfig(o), Got: o.Shown(modelOrConfig(o)),
				Want: "another model: " + err.Error()}
		}
		full, window, err := pagesOf(o, facts, pools, ranks)
		if err != nil {
			return nil, err
		}
		if full*page >= limits.Length || o.Given("num_gpu_blocks") {
			return settingsOfPools(o, facts, page, full, window, ranks, limits), nil
		}
		if 2*ranks > most {
			return nil, &strictjson.FieldError{
				Field: "max_model_len", Got: fmt.Sprintf("%d, and %d tokens fit with aic_tp_size %d", limits.Length,
					full*page, ranks),
				Want: "fewer, or more GPUs (aic_tp_size) or memory",
			}
		}
	}
}

// pagesOf returns the pages of both pools.
func pagesOf(o *strictjson.Object, facts models.Facts, pools models.Pools, ranks int) (full, window int, err error) {
	var bytes int
	switch {
	case o.Given("num_gpu_blocks") || o.Given("num_gpu_blocks_override"):
		full = numGPUBlocks(o)
		return full, pools.Beside(full), nil
	case o.Given("kv_cache_memory_bytes"):
		bytes = o.Int("kv_cache_memory_bytes")
	default:
		if bytes, err = memoryLeft(o, facts, staticShare, ranks); err != nil {
			return 0, 0, err
		}
	}
	full, window = pools.Pages(bytes)
	return full, window, nil
}

func settingsOfPools(o *strictjson.Object, facts models.Facts, page, full, window, ranks int,
	limits models.Limits) map[string]any {
	groups := []map[string]any{{"type": fullGroup}}
	if facts.Window > 0 {
		groups = append(groups, map[string]any{"type": windowGroup, "window": facts.WindowTokens, "num_blocks": window})
	}
	set := map[string]any{groupsField: groups, "block_size": page, "num_gpu_blocks": full,
		"max_model_len": limits.Length, "aic_tp_size": ranks}
	return withNames(o, facts, set, SGLangOwn.String())
}
