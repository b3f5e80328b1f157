package engineargs

import (
	"io/fs"
	"strings"
	"testing"
)

const llama = `{"model_type": "llama", "num_hidden_layers": 32, "num_key_value_heads": 8, "head_dim": 128, ` +
	`"max_position_embeddings": 8192}`

func TestModels(t *testing.T) {
	for _, c := range []struct {
		text                                         string
		beside, window, block, blocks, length, ranks int
	}{
		{`{"model": "gpt-oss-120b", "kv_cache_memory_bytes": 10737418240}`, 1, 128, 16, 18203, 131072, 1},
		{`{"model": "google/gemma-3-27b-it", "aic_tp_size": 2, "num_gpu_blocks": 9000}`, 6, 1024, 16, 9000, 131072, 2},
		{`{"model": "qwen3-next-80b-a3b", "kv_cache_memory_bytes": 21474836480, "max_model_len": 32768}`, 3, 0, 544,
			1605, 32768, 1},
		{`{"model": "llama-3.1-8b", "block_size": 32, "gpu_memory_gib": 24, "gpu_memory_utilization": 0.95, ` +
			`"max_model_len": 20000}`, 0, 0, 32, 1483, 20000, 1},
		// two GPUs, as 131.4 GiB do not leave enough of one
		{`{"model": "llama-3.3-70b", "aic_system": "h200_sxm"}`, 0, 0, 16, 23804, 131072, 2},
		{`{"model_config": "llama.json", "kv_cache_memory_bytes": 2147483648, "kv_cache_dtype": "fp8"}`, 0, 0, 16, 2047,
			8192, 1},
	} {
		text, err := Expand(c.text, func(string) ([]byte, error) { return []byte(llama), nil })
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		a, warnings, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var own []string
		for _, w := range warnings {
			if !strings.Contains(w, "aic_system") { // only its memory counts
				own = append(own, w)
			}
		}
		if got := a.VLLM.Groups; got.Beside != c.beside || got.Window != c.window || a.BlockSize != c.block ||
			a.NumGPUBlocks != c.blocks ||
			a.MaxModelLen != c.length || a.GPUsPerWorker != c.ranks || a.SchedulerName() != "vllm-0.33" ||
			len(own) > 0 {
			t.Errorf("%s: %+v, blocks of %d, %d blocks, length %d, %d GPUs, %s, warnings %q", c.text, got, a.BlockSize,
				a.NumGPUBlocks,
				a.MaxModelLen, a.GPUsPerWorker, a.SchedulerName(), own)
		}
		if again, err := Expand(text, nil); err != nil || again != text {
			t.Errorf("%s: expanded twice it is %s, %v", c.text, again, err)
		}
	}
}

func TestModelErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{"model": "gpt-oss-121b"}`, "model: got \"gpt-oss-121b\", want a name that"},
		{`{"model": "gpt-oss-20b", "model_config": "a"}`, "model_config: got \"a\", want it left out, or model"},
		{`{"model": "gpt-oss-20b", "kv_cache_groups": [{"type": "full"}]}`, "kv_cache_groups: got groups beside model"},
		{`{"model": "gpt-oss-20b", "engine_type": "trtllm"}`, "want it left out with engine_type trtllm"},
		{`{"model": "qwen3-next-80b-a3b-instruct", "engine_type": "sglang"}`,
			"has linear attention, whose states are not simulated with SGLang"},
		{`{"model": "gpt-oss-20b", "engine_type": "sglang", "scheduler": "dynamo"}`,
			"scheduler: got \"dynamo\", want sglang"},
		{`{"model": "gpt-oss-20b", "engine_type": "sglang", "kv_cache_memory_bytes": 1000000}`,
			"max_model_len: got 131072, and 22 tokens fit"},
		{`{"model": "gpt-oss-20b", "scheduler": "dynamo"}`, "scheduler: got \"dynamo\""},
		{`{"model": "gpt-oss-20b", "aic_tp_size": 1, "gpu_memory_gib": 16}`,
			"max_model_len: got 131072, for which 9225 blocks"},
		{`{"model": "gpt-oss-20b", "aic_system": "tpu"}`,
			"gpu_memory_gib: got nothing, want the memory of a GPU with aic_system"},
		{`{"model_config": "none"}`, "model_config: none: file does not exist"},
		{`{"gpu_memory_gib": 80}`, "gpu_memory_gib: got 80, want it left out without model"},
		{`{"model": "gpt-oss-20b", "kv_cache_memory_bytes": 0}`, "kv_cache_memory_bytes: got 0"},
	} {
		full, err := Expand(test.text, func(string) ([]byte, error) { return nil, fs.ErrNotExist })
		if err == nil {
			_, _, err = Parse(full)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
	if _, _, err := Parse(`{"model_config": "config.json"}`); err == nil ||
		!strings.Contains(err.Error(), "only replays read it") {
		t.Errorf("got %v", err)
	}
	if _, warnings, err := Parse(`{"model": "gpt-oss-20b", "kv_cache_memory_bytes": 20000000000, ` +
		`"gpu_memory_utilization": 0.5, "gpu_memory_gib": 80}`); err != nil ||
		len(warnings) != 1 || !strings.Contains(warnings[0], "gpu_memory_gib") ||
		!strings.Contains(warnings[0], "gpu_memory_utilization") {
		t.Errorf("got %q, %v", warnings, err)
	}
}

// TestModelsOfSGLang: the pool of the window layers has 0.8 tokens for each of the other one, and both take what there
// is. MiMo-V2-Flash logged full_layer_tokens=375360, swa_layer_tokens=300288 with pages of 64.
func TestModelsOfSGLang(t *testing.T) {
	for _, c := range []struct {
		text                        string
		page, full, window, visible int
		gpus                        int
	}{
		// 18 and 0.8 * 18 layers, 2 * 8 * 64 values of 2 bytes: 66,355.2 bytes a token
		{`{"model": "gpt-oss-120b", "engine_type": "sglang", "kv_cache_memory_bytes": 20000000000}`, 1, 301408, 241126,
			128, 1},
		{`{"model": "gpt-oss-120b", "engine_type": "sglang", "block_size": 64, "kv_cache_memory_bytes": 20000000000}`,
			64, 4709, 3767, 128, 1},
		{`{"model": "gpt-oss-120b", "engine_type": "sglang", "block_size": 64, "num_gpu_blocks": 5865}`, 64, 5865, 4692,
			128, 1},
		// (79.2 * 0.88 - 131.4 / 4) GiB, 80 layers, 2 * 2 * 128 values of 2 bytes
		{`{"model": "llama-3.3-70b", "engine_type": "sglang", "block_size": 16}`, 16, 30184, 0, 0, 4},
	} {
		text, err := Expand(c.text, nil)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		a, warnings, err := Parse(text)
		if want := (WindowArgs{Blocks: c.window, Tokens: c.visible}); err != nil || len(warnings) > 0 ||
			a.BlockSize != c.page || a.NumGPUBlocks != c.full ||
			a.SGLang.Window != want || a.GPUsPerWorker != c.gpus || a.Scheduler != SGLangOwn {
			t.Errorf("%s: %d pages of %d, %+v, %d GPUs, %s, warnings %q, %v", c.text, a.NumGPUBlocks, a.BlockSize,
				a.SGLang.Window,
				a.GPUsPerWorker, a.SchedulerName(), warnings, err)
		}
		if log, ok := a.CacheLog(); !ok || log.Tokens != c.full*c.page {
			t.Errorf("%s: %+v", c.text, log)
		}
	}
}

func TestCacheLog(t *testing.T) {
	a, _, err := Parse(`{"model": "gpt-oss-120b", "kv_cache_memory_bytes": 10737418240}`)
	if err != nil {
		t.Fatal(err)
	}
	log, ok := a.CacheLog()
	// as vLLM 0.28 says
	if !ok || log.Tokens != 258648 || log.Length != 131072 || log.Concurrency < 1.9733 || log.Concurrency > 1.9734 {
		t.Errorf("%+v", log)
	}
	if a = Default(); a.Model != "" {
		t.Error("a model by default")
	}
	if _, ok := a.CacheLog(); ok {
		t.Error("a log without a model")
	}
}
