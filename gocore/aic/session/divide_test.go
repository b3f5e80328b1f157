package session

import (
	"encoding/json"
	"strings"
	"testing"

	"dynosim/gocore/engineargs"
)

const config = `{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
	"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072}`

// askedFor answers questions about a model with the given config.json.
func askedFor(config string) func(string) (string, error) {
	return func(question string) (string, error) {
		if strings.HasPrefix(question, `{"open"`) {
			return `{"session":-8,"version":"2","release":"9"}`, nil
		}
		text, err := json.Marshal(map[string]string{"config": config, "quantization": ""})
		return string(text), err
	}
}

// The published pool of this model has 51.38 GiB, which is 26,306 blocks of 16 tokens.
func TestPoolAsTheEngineEstimatesIt(t *testing.T) {
	args, _, err := engineargs.Parse(`{"aic_backend": "vllm", "aic_model_path": "m", "aic_system": "h100_sxm",
		"block_size": 16,
		"max_num_batched_tokens": 8192, "max_num_seqs": 1024, "kv_pool_estimate": "engine", "engine_version": "0.11.0"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, ranks := range []int{1, 2} { // each rank has half of the limits, so its pass needs less
		sized, err := NewSet(askedFor(config)).WithPool("here", args, ranks)
		least := 26306 * ranks * 99 / 100
		if err != nil || sized.NumGPUBlocks < least || sized.PoolMemory.Tokens/16*ranks != sized.NumGPUBlocks {
			t.Errorf("%d ranks: %d blocks, %+v, %v", ranks, sized.NumGPUBlocks, sized.PoolMemory, err)
		}
	}
	sized, err := NewSet(askedFor(config)).WithPool("here", args, 1)
	if err != nil || sized.NumGPUBlocks > 26306*101/100 {
		t.Errorf("%d blocks, %v", sized.NumGPUBlocks, err)
	}
}

func TestPoolsThatAreNotEstimated(t *testing.T) {
	for _, c := range []struct{ args, config, want string }{
		{`"aic_system": "unheard"`, config, `kv_pool_estimate: got "engine", want sdk: the memory of unheard is not known`},
		{`"aic_system": "h100_sxm"`, "{", "want sdk: of m, no config.json"},
		{`"aic_system": "h100_sxm", "aic_gemm_dtype": "odd"`, config, `want sdk: of m, a data type "odd"`},
		{`"aic_system": "h100_sxm", "gpu_memory_gib": 10`, config, "or more GPUs (aic_tp_size)"},
	} {
		args, _, err := engineargs.Parse(`{"aic_backend": "vllm", "aic_model_path": "m", "kv_pool_estimate": "engine", ` +
			c.args + "}")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewSet(askedFor(c.config)).WithPool("here", args, 1); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.args, err, c.want)
		}
	}
}
