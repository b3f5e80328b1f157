package models

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

func layoutOf(t *testing.T, model string, s Shape) Layout {
	t.Helper()
	facts, err := Find(model)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := facts.Layout(s)
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

// vllmSizes is what the functions of vLLM 0.28 that size a KV cache return for the models of the table, with layers of
// these facts.
const vllmSizes = "testdata/vllm_sizes.json"

func TestLayoutIsThatOfVLLM(t *testing.T) {
	var rows []struct {
		Model        string
		TP           int
		Asynchronous bool
		Bytes        int
		BlockSize    int `json:"block_size"`
		Groups       int
		Blocks       int
		Tokens       int
		Concurrency  float64
	}
	text, err := os.ReadFile(vllmSizes)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) < 100 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		facts, err := Find(r.Model)
		if err != nil {
			t.Fatal(err)
		}
		layout := layoutOf(t, r.Model, Shape{Ranks: r.TP})
		m := Limits{Length: facts.MaxLen, Budget: 8192, Flights: 1}
		if r.Asynchronous {
			m.Flights = 2
		}
		blocks := layout.Blocks(r.Bytes)
		if layout.BlockSize != r.BlockSize || layout.Groups() != r.Groups || blocks != r.Blocks {
			t.Errorf("%s on %d GPUs: blocks of %d, %d groups, %d blocks; vLLM: %d, %d, %d", r.Model, r.TP,
				layout.BlockSize, layout.Groups(), blocks, r.BlockSize, r.Groups, r.Blocks)
		}
		if got := layout.Concurrency(blocks, m); math.Abs(got-r.Concurrency) > 1e-4 {
			t.Errorf("%s on %d GPUs: concurrency %v, vLLM %v", r.Model, r.TP, got, r.Concurrency)
		}
		if got := layout.Tokens(blocks, m); got < r.Tokens || got > r.Tokens+1 { // vLLM rounds a quotient
			t.Errorf("%s on %d GPUs: %d tokens, vLLM %d", r.Model, r.TP, got, r.Tokens)
		}
	}
}

// published are logs of vLLM that people have published, with the memory for the KV cache that each says is available.
// Until 0.20 the tokens are blocks x block size / groups, later concurrency x length.
var published = []struct {
	source, model string
	shape         Shape
	gib           float64
	limits        Limits
	tokens        int // 0 if the log has none
	byGroups      bool
	concurrency   float64 // 0 if the log has none
}{
	{"https://github.com/vllm-project/vllm/issues/10517", "meta-llama/Llama-3.1-8B-Instruct", Shape{Ranks: 1}, 3.81,
		Limits{20000, 20000, 1}, 1952 * 16, true, 1.56},
	{"https://github.com/vllm-project/vllm/issues/10517", "meta-llama/Llama-3.1-8B-Instruct", Shape{Ranks: 1}, 2.89,
		Limits{29000, 29000, 1}, 1478 * 16, true, 0.82},
	{"https://github.com/vllm-project/vllm/issues/33263", qwenSmall, Shape{Ranks: 1}, 18.78, Limits{1024, 8192, 2},
		175856, true, 0},
	{"https://github.com/vllm-project/vllm/issues/21348", "Qwen/Qwen3-235B-A22B", Shape{Ranks: 4}, 8.11,
		Limits{40960, 8192, 1}, 178880, true, 0},
	{"https://github.com/noonghunna/club-3090/issues/612", "Qwen3.6-35B-A3B", Shape{Ranks: 1, FP8: true}, 5.98,
		Limits{131072, 8192, 2}, 567978, false, 4.33},
	{"https://github.com/noonghunna/club-3090/issues/652", "Qwen3.6-35B-A3B", Shape{Ranks: 1, FP8: true}, 6.01,
		Limits{131072, 8192, 2}, 569878, false, 4.35},
	{logs + "log/vllm-120B-4gpuA10080GB-0.8GRAM-diff-nodes.log", "gpt-oss-120b", Shape{Ranks: 4}, 45.32,
		Limits{16384, 2048, 1}, 2640144, true, 284.25},
	{logs + "log/vllm-7B-1gpuA10080GB-0.25GRAM.log", qwen2, Shape{Ranks: 1}, 5.01, Limits{16384, 2048, 1}, 93872, true,
		5.73},
	{logs + "log/vllm-7B-1gpuA10080GB-0.5GRAM.log", qwen2, Shape{Ranks: 1}, 24.83, Limits{16384, 2048, 1}, 464848, true,
		28.37},
	{logs + "README.md", qwen2, Shape{Ranks: 2}, 11.03, Limits{16384, 2048, 1}, 25809 * 16, true, 0},
	// Of Qwen3.8-27B, which has the layers of Qwen3.6-27B.
	{"https://github.com/mitchross/talos-argocd-proxmox/pull/1995", "Qwen3.6-27B", Shape{Ranks: 2, FP8: true}, 4.99,
		Limits{131072, 8192, 2}, 302921, false, 2.31},
	{lmcache, "Qwen3-8B", Shape{Ranks: 1}, 50.32, Limits{40960, 8192, 1}, 366400, true, 8.95},
	{lmcache, "Qwen3-32B", Shape{Ranks: 2}, 33.66, Limits{40960, 8192, 1}, 275760, true, 6.73},
	// Of Llama-3.1-70B, which has the layers of Llama-3.3-70B.
	{lmcache, "Llama-3.3-70B", Shape{Ranks: 4}, 32.06, Limits{131072, 8192, 1}, 420208, true, 3.21},
}

const (
	logs    = "https://github.com/dennislee22/vLLM-benchmarking/blob/main/"
	lmcache = "https://github.com/LMCache/LMCache/blob/dev/docs/source/getting_started/faq.rst"
	// What counts of the config.json of Qwen/Qwen3-1.7B and Qwen/Qwen2-7B-Instruct, which are not in the table.
	qwenSmall = `{"model_type": "qwen3", "num_hidden_layers": 28, "num_key_value_heads": 8, "num_attention_heads": 16,
		"hidden_size": 2048, "head_dim": 128, "sliding_window": null, "max_position_embeddings": 40960}`
	qwen2 = `{"model_type": "qwen2", "num_hidden_layers": 28, "num_key_value_heads": 4, "num_attention_heads": 28,
		"hidden_size": 3584, "use_sliding_window": false, "sliding_window": 131072, "max_position_embeddings": 32768}`
)

func TestPublishedLogs(t *testing.T) {
	if len(published) < 14 {
		t.Fatal("fewer than fourteen logs")
	}
	near := func(got, want float64) bool { return want == 0 || math.Abs(got/want-1) < 0.02 }
	for _, log := range published {
		facts, err := ReadConfig("config.json", []byte(log.model))
		if !strings.HasPrefix(log.model, "{") {
			facts, err = Find(log.model)
		}
		if err != nil {
			t.Fatal(err)
		}
		layout, err := facts.Layout(log.shape)
		if err != nil {
			t.Fatal(err)
		}
		blocks := layout.Blocks(int(log.gib * (1 << 30)))
		tokens := layout.Tokens(blocks, log.limits)
		if log.byGroups {
			tokens = blocks * layout.BlockSize / layout.Groups()
		}
		concurrency := layout.Concurrency(blocks, log.limits)
		if layout.Groups() > 1 {
			t.Logf("%s: %d tokens (log %d), %.2fx (log %.2fx)", log.source, tokens, log.tokens, concurrency,
				log.concurrency)
		}
		if !near(float64(tokens), float64(log.tokens)) || !near(concurrency, log.concurrency) {
			t.Errorf("%s: %d tokens, %.2fx; the log has %d and %.2f", log.source, tokens, concurrency, log.tokens,
				log.concurrency)
		}
	}
}

func TestTable(t *testing.T) {
	if len(Table()) != 20 {
		t.Errorf("%d models", len(Table()))
	}
	for _, f := range Table() {
		if !strings.HasPrefix(f.Source, "https://huggingface.co/"+f.Name) {
			t.Errorf("%s: source %s", f.Name, f.Source)
		}
		if _, err := f.Layout(Shape{Ranks: 1}); err != nil {
			t.Error(err)
		}
		bytes := 0
		if _, err := fmt.Sscanf(f.WeightsSource, "%d bytes", &bytes); err != nil ||
			math.Abs(float64(bytes)/(1<<30)-f.WeightsGiB) > 0.051 {
			t.Errorf("%s: %v GiB of weights by %q", f.Name, f.WeightsGiB, f.WeightsSource)
		}
		if (f.Window > 0) != (f.WindowTokens > 0) || (f.Linear > 0) != (f.State.Values > 0) ||
			(f.Latent > 0) != (f.KVHeads == 0) {
			t.Errorf("%+v: sizes that do not fit its layers", f)
		}
	}
	for text, want := range map[string]string{
		`{"models": [{"name": "a"}]}`: "models[0].source", `{"models": [], "more": 1}`: "more",
		`{"models": [{"nam": "a"}]}`: "nam",
	} {
		if _, err := parseTable(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a complaint about %s", text, err, want)
		}
	}
}

// The block sizes are those in the logs of vLLM and in the documentation of LMCache.
func TestBlocksGrowToStates(t *testing.T) {
	for model, want := range map[string]int{
		"Qwen3-Next-80B-A3B": 544, "qwen3.6-27b": 784, "NVIDIA-Nemotron-3-Nano-30B-A3B": 2096, "gpt-oss-20b": 16,
		"deepseek-r1": 64,
	} {
		if got := layoutOf(t, model, Shape{Ranks: 1}).BlockSize; got != want {
			t.Errorf("%s: blocks of %d tokens, want %d", model, got, want)
		}
	}
}

func TestConfigs(t *testing.T) {
	sizes := `"num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 4096, "sliding_window": 128`
	for _, c := range []struct{ config, want string }{
		{`{"num_hidden_layers": 4, "model_type": "llama", ` + sizes + `}`, "4 full"},
		{`{"text_config": {"num_hidden_layers": 7, "model_type": "gemma3_text", ` + sizes + `}}`, "1 full 6 window"},
		{`{"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], ` + sizes + `}`,
			"1 full 1 window"},
		{`{"num_hidden_layers": 8, "full_attention_interval": 4, ` + sizes +
			`, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
			"linear_num_value_heads": 32, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}`, "2 full 6 linear"},
		{`{"num_hidden_layers": 4, "hybrid_override_pattern": "M*E-", ` + sizes +
			`, "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8,
			"ssm_state_size": 128, "conv_kernel": 4}`, "1 full 1 linear"},
		{`{"num_hidden_layers": 4, "full_attention_interval": 4, ` + sizes + `}`,
			"sizes of the linear layers are missing"},
		{`{"num_hidden_layers": 4, "model_type": "gemma4_text", ` + sizes + `}`, "caches of different sizes"},
		{`{"num_hidden_layers": 4, "model_type": "mistral", ` + sizes + `}`, "all layers have sliding windows"},
		{`{"layer_types": ["chunked_attention"], ` + sizes + `}`, `kind "chunked_attention"`},
		{`{"num_hidden_layers": 4, "max_position_embeddings": 4096}`, "num_key_value_heads and head_dim are missing"},
		{`{}`, "num_hidden_layers is missing"}, {`[]`, "no config.json of a model"},
	} {
		f, err := ReadConfig("c", []byte(c.config))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for _, part := range []struct {
				n    int
				kind string
			}{{f.Full, "full"}, {f.Window, "window"}, {f.Linear, "linear"}} {
				if part.n > 0 {
					got += strings.Repeat(" ", min(len(got), 1)) + string(rune('0'+part.n)) + " " + part.kind
				}
			}
		}
		if got != c.want && !(err != nil && strings.Contains(got, c.want)) {
			t.Errorf("%s: got %q, want %q", c.config, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"openai/gpt-oss-120b": "openai/gpt-oss-120b", "GPT-OSS-120B": "openai/gpt-oss-120b",
		"gemma-3-27b":                      "google/gemma-3-27b-it",
		"Qwen/Qwen3-30B-A3B-Instruct-2507": "Qwen/Qwen3-30B-A3B", "Llama-3.3-70B": "meta-llama/Llama-3.3-70B-Instruct",
	} {
		if f, err := Find(name); err != nil || f.Name != want {
			t.Errorf("%s: got %s, %v, want %s", name, f.Name, err, want)
		}
	}
	if _, err := Find("gpt-oss-121b"); err == nil || !strings.Contains(err.Error(), "models") {
		t.Errorf("got %v", err)
	}
}
