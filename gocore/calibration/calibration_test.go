package calibration

import (
	"errors"
	"strings"
	"testing"

	"dynosim/gocore/engineargs"
)

const example = `{"format": "dynosim-calibration/1", "fit": {"made": "by hand"}, "entries": [
	{"level": "model", "engine": "vllm", "timing": "aic", "scheduler": "vllm", "system": "h200_sxm",
	"model": "Qwen3-32B", "precision": "bf16",
	 "measurements": 12, "knobs": {"prefill_scale": 1.5, "step_overhead_us": 100}},
	{"level": "model", "engine": "vllm", "timing": "aic", "scheduler": "vllm", "system": "h200_sxm",
	"model": "Qwen3-32B", "precision": "fp8",
	 "measurements": 1, "note": "of an older release", "knobs": {"prefill_scale": 1.25}, "kv_tokens": 100000},
	{"level": "kin", "engine": "vllm", "timing": "aic", "scheduler": "vllm", "system": "b200_sxm",
	"model": "Qwen3-32B", "measurements": 13,
	 "pass_time": "fused", "knobs": {"prefill_scale": 1.375}},
	{"level": "gpu", "engine": "vllm", "timing": "aic", "scheduler": "vllm", "system": "h200_sxm",
	 "measurements": 40, "knobs": {"decode_scale": 1.125}},
	{"level": "engine", "engine": "vllm", "timing": "aic", "scheduler": "vllm", "measurements": 90,
	"knobs": {"decode_scale": 1.0625}},
	{"level": "model", "engine": "sglang", "timing": "polynomial", "system": "a", "model": "m", "measurements": 3,
	"knobs": {"request_overhead_us": 70000}}
]}`

func parse(t *testing.T, arguments string) engineargs.Args {
	t.Helper()
	args, _, err := engineargs.Parse(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// TestApply: the most specific entry that fits is chosen, and what it sets is said.
func TestApply(t *testing.T) {
	profile, err := Parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	const aic = `"calibration": "p.json", "scheduler": "vllm", "aic_backend": "vllm", "num_gpu_blocks": 500, `
	for _, test := range []struct{ in, words string }{
		{`{` + aic + `"aic_system": "h200_sxm", "aic_model_path": "Qwen/Qwen3-32B"}`,
			"level model (vllm, Qwen3-32B, h200_sxm, bf16; 12 measurements): prefill_scale 1.5, step_overhead_us 100"},
		{`{` + aic + `"aic_system": "h200_sxm", "aic_model_path": "/models/qwen3-32b/", "aic_gemm_dtype": "fp8_block", ` +
			`"step_overhead_us": 0}`,
			"level model (vllm, Qwen3-32B, h200_sxm, fp8; 1 measurement): prefill_scale 1.25; of an older release"},
		{`{` + aic + `"aic_system": "h200_sxm", "aic_model_path": "Qwen/Qwen3-32B", "step_overhead_us": 0}`,
			"level model (vllm, Qwen3-32B, h200_sxm, bf16; 12 measurements): prefill_scale 1.5"},
		{`{` + aic + `"aic_system": "h200_sxm", "aic_model_path": "Qwen/Qwen3-32B", "aic_gemm_dtype": "nvfp4"}`,
			"level gpu (vllm, h200_sxm; 40 measurements), as nothing was measured for Qwen3-32B, h200_sxm, fp4: " +
				"decode_scale 1.125"},
		{`{` + aic + `"aic_system": "b200_sxm", "aic_model_path": "Qwen/Qwen3-32B"}`,
			"level kin (vllm, Qwen3-32B, b200_sxm; 13 measurements): prefill_scale 1.375, pass_time fused"},
		{`{` + aic + `"aic_system": "l40s", "aic_model_path": "Qwen/Qwen3-32B-FP8"}`,
			"level engine (vllm; 90 measurements), as nothing was measured for Qwen3-32B-FP8, l40s, fp8: " +
				"decode_scale 1.0625"},
		{`{"calibration": "p.json", "aic_backend": "vllm", "num_gpu_blocks": 500, "aic_system": "l40s", ` +
			`"aic_model_path": "x"}`,
			"level engine (vllm; 90 measurements), as nothing was measured for x, l40s: decode_scale 1.0625; fitted " +
				"with scheduler vllm, not dynamo"},
		{`{"calibration": "p.json", "engine_type": "sglang"}`,
			"level model (sglang, m, a; 3 measurements): request_overhead_us 70000"},
	} {
		_, words, err := profile.Apply(parse(t, test.in))
		if err != nil || words != test.words {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", test.in, words, err, test.words)
		}
	}
}

// TestSameLayers: of models with the same layers an engine takes the entry of its own, if there is one.
func TestSameLayers(t *testing.T) {
	const common = `"level": "model", "engine": "vllm", "timing": "aic", "system": "b200_sxm", "precision": "fp8"`
	profile, err := Parse([]byte(`{"format": "dynosim-calibration/1", "entries": [
		{` + common + `, "model": "DeepSeek-V3"}, {` + common + `, "model": "DeepSeek-R1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int{
		"deepseek-ai/DeepSeek-V3-0324": 0, "deepseek-ai/DeepSeek-R1-0528": 1, "deepseek-ai/DeepSeek-V3.1": -1,
	} {
		args := parse(t, `{"aic_backend": "vllm", "num_gpu_blocks": 500, "aic_system": "b200_sxm", "aic_model_path": "`+
			model+`"}`)
		if got := profile.Choose(KeyOf(args)); got != want {
			t.Errorf("%s: got entry %d, want %d", model, got, want)
		}
	}
}

// TestKernels: an engine asks for durations of the kernels that its entry was fitted with, unless its arguments say
// which; all else follows from its own.
func TestKernels(t *testing.T) {
	profile, err := Parse([]byte(`{"format": "dynosim-calibration/1", "entries": [
		{"level": "model", "engine": "vllm", "timing": "aic", "system": "h200_sxm", "model": "M", "precision": "fp8",
		"measurements": 12, "kernels": {"aic_backend": "sglang", "aic_gemm_dtype": "fp8"}, "knobs": {}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ given, backend, gemm, words string }{
		{``, "sglang", "fp8", "durations of other kernels (aic_backend sglang, aic_gemm_dtype fp8)"},
		{`, "aic_gemm_dtype": "fp8_block"`, "sglang", "fp8_block", "durations of other kernels (aic_backend sglang)"},
		{`, "aic_backend_version": "0.24.0"`, "vllm", "fp8", "durations of other kernels (aic_gemm_dtype fp8)"},
		{`, "aic_backend_version": "0.24.0", "aic_gemm_dtype": "fp8_block"`, "vllm", "fp8_block", ""},
		{`, "aic_backend": "trtllm", "aic_gemm_dtype": "fp8_block"`, "trtllm", "fp8_block", ""},
	} {
		if !strings.Contains(test.given, `"aic_backend":`) {
			test.given += `, "aic_backend": "vllm"`
		}
		args := parse(t, `{"calibration": "p.json", "num_gpu_blocks": 500, "aic_system": "h200_sxm",
			"aic_model_path": "M-FP8"`+test.given+`}`)
		calibrated, words, err := profile.Apply(args)
		if err != nil {
			t.Fatal(err)
		}
		asked := calibrated.Predictor()
		if asked.Backend != test.backend || asked.Types.GEMM != test.gemm || asked.TP != args.AIC.TP ||
			calibrated.AIC != args.AIC || !strings.HasSuffix(words, ": "+test.words) {
			t.Errorf("%s: %+v, %q", test.given, asked, words)
		}
	}
}

// TestKernelsOfAttention: its data type stands in only where the arguments leave it open, and the KV cache stays as it
// is.
func TestKernelsOfAttention(t *testing.T) {
	profile, err := Parse([]byte(`{"format": "dynosim-calibration/1", "entries": [
		{"level": "model", "engine": "sglang", "timing": "aic", "system": "b200_sxm", "model": "M", "precision": "fp8",
		"measurements": 12, "kernels": {"aic_fmha_dtype": "bfloat16"}, "knobs": {}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{``: "bfloat16", `, "aic_fmha_dtype": "fp8"`: "fp8"} {
		args := parse(t, `{"calibration": "p.json", "engine_type": "sglang", "num_gpu_blocks": 500, "aic_backend": "sglang",
			"aic_system": "b200_sxm", "aic_model_path": "M-FP8", "aic_kv_cache_dtype": "fp8"`+given+`}`)
		calibrated, words, err := profile.Apply(args)
		if err != nil {
			t.Fatal(err)
		}
		types := calibrated.Predictor().Types
		if types.FMHA != want || types.KVCache != "fp8" || strings.Contains(words, "aic_fmha_dtype") != (given == "") {
			t.Errorf("%s: %+v, %q", given, types, words)
		}
	}
}

// TestKernelsWithoutSDK: durations that no SDK predicts are of no kernels.
func TestKernelsWithoutSDK(t *testing.T) {
	profile, err := Parse([]byte(`{"format": "dynosim-calibration/1", "entries": [
		{"level": "engine", "engine": "vllm", "timing": "polynomial", "measurements": 12,
		"kernels": {"aic_gemm_dtype": "fp8"}, "knobs": {"decode_scale": 2}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	calibrated, words, err := profile.Apply(parse(t, `{"calibration": "p.json"}`))
	if err != nil || calibrated.Predictor() != calibrated.AIC || !strings.HasSuffix(words, ": decode_scale 2") {
		t.Errorf("%+v, %q, %v", calibrated.Predictor(), words, err)
	}
}

// TestFamily: an entry fits all checkpoints of its model, in the precision in which they were measured on whatever GPU.
func TestFamily(t *testing.T) {
	const common = `"engine": "vllm", "timing": "aic", "system": `
	profile, err := Parse([]byte(`{"format": "dynosim-calibration/1", "entries": [
		{"level": "model", ` + common + `"h200_sxm", "model": "Kimi-K2.5", "precision": "int4"},
		{"level": "model", ` + common + `"b200_sxm", "model": "Kimi-K2.5-NVFP4", "precision": "fp4"},
		{"level": "model", ` + common + `"b200_sxm", "model": "Llama-3.1-70B-Instruct-FP8", "precision": "fp8"},
		{"level": "kin", ` + common + `"b200_sxm", "model": "Kimi-K2.5"},
		{"level": "kin", ` + common + `"b200_sxm", "model": "Llama-3.1-70B"},
		{"level": "gpu", ` + common + `"b200_sxm"},
		{"level": "model", ` + common + `"b200_sxm", "model": "DeepSeek-V3", "precision": "fp8"},
		{"level": "model", ` + common + `"b200_sxm", "model": "DeepSeek-V3.1-NVFP4", "precision": "fp4"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int{
		"nvidia/Kimi-K2.5-NVFP4":                  1,
		"moonshotai/Kimi-K2.5":                    3, // measured as int4, so not the entry for fp4
		"/models/kimi-k2.5-fp4":                   1,
		"meta-llama/Meta-Llama-3.1-70B":           2,
		"meta-llama/Llama-3.3-70B-Instruct":       2,
		"meta-llama/Llama-3.1-70B-Instruct-INT4":  4,
		"neuralmagic/Llama-3.1-8B-Instruct-FP8":   5,
		"RedHatAI/Meta-Llama-3.1-70B-FP8-dynamic": 2,
		"deepseek-ai/DeepSeek-R1-0528":            6,
		"nvidia/DeepSeek-R1-0528-NVFP4":           7,
	} {
		args := parse(t, `{"aic_backend": "vllm", "num_gpu_blocks": 500, "aic_system": "b200_sxm", "aic_model_path": "`+model+
			`"}`)
		if got := profile.Choose(KeyOf(args)); got != want {
			t.Errorf("%s: got entry %d, want %d", model, got, want)
		}
	}
	for checkpoint, want := range map[string]string{
		"":                              "",
		"gpt-oss-120b":                  "gpt-oss-120b",
		"meta":                          "meta",
		"FP8":                           "FP8",
		"Qwen3-30B-A3B-Instruct-2507":   "Qwen3-30B-A3B",
		"Meta-Llama-3.1-8B":             "Llama-3.1-8B",
		"DeepSeek-R1-0528-NVFP4":        "DeepSeek-V3",
		"deepseek-v3-0324":              "deepseek-v3",
		"DeepSeek-R1-0528-FP4-v2":       "DeepSeek-V3",
		"DeepSeek-V2":                   "DeepSeek-V2",
		"DeepSeek-V3.1-NVFP4":           "DeepSeek-V3",
		"DeepSeek-V3.2":                 "DeepSeek-V3.2",
		"Llama-3.3-70B-Instruct-FP8":    "Llama-3.1-70B",
		"MiniMax-M2.5":                  "MiniMax-M2.5",
		"Qwen3-235B-A22B-FP8":           "Qwen3-235B-A22B",
		"Meta-Llama-3.1-8B-W4A16-awq":   "Llama-3.1-8B",
		"Llama-3.2-3B-Instruct-bf16-it": "Llama-3.2-3B",
	} {
		if got := Family(checkpoint); got != want {
			t.Errorf("%q: got %q, want %q", checkpoint, got, want)
		}
	}
}

// TestKnobs: knobs of the arguments stay, others are set, and so is a pool that the arguments leave open.
func TestKnobs(t *testing.T) {
	profile, _ := Parse([]byte(example))
	in := `{"calibration": "p.json", "aic_backend": "vllm", "aic_model_path": "Qwen3-32B", "aic_gemm_dtype": "fp8", ` +
		`"decode_scale": 0.5, "block_size": 16}`
	args, _, err := profile.Apply(parse(t, in))
	want := engineargs.Knobs{PrefillScale: 1.25, DecodeScale: 0.5, KVPoolScale: 1}
	if err != nil || args.Knobs != want || args.NumGPUBlocks != 6250 {
		t.Errorf("got %+v, %d blocks, %v", args.Knobs, args.NumGPUBlocks, err)
	}
	if args, _, _ = profile.Apply(parse(t,
		strings.Replace(in, "16", `16, "num_gpu_blocks": 7`, 1))); args.NumGPUBlocks != 7 {
		t.Errorf("got %d blocks", args.NumGPUBlocks)
	}
}

// TestFactors: what is chosen is multiplied by the factors for the release, for the model in that release, and for its
// GPUs; those of a model are not for entries of no model in particular.
func TestFactors(t *testing.T) {
	const common = `{"engine": "vllm", "timing": "aic", `
	profile, err := Parse([]byte(strings.TrimSuffix(example, "]}") + `], "factors": [
		` + common + `"version": "0.19.0", "measurements": 20, "knobs": {"prefill_scale": 0.5, "decode_scale": 2}},
		` + common + `"version": "0.19.0", "model": "Qwen3-32B", "measurements": 7, "knobs": {"prefill_scale": 1.111}},
		` + common + `"version": "0.20.0", "measurements": 1, "knobs": {"prefill_scale": 100}},
		` + common + `"model": "Qwen3-32B", "tp": 4, "measurements": 5, "knobs": {"step_overhead_us": 3, ` +
		`"kv_pool_scale": 7}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const aic = `{"calibration": "p.json", "scheduler": "vllm", "aic_backend": "vllm", "num_gpu_blocks": 500, `
	for _, test := range []struct{ in, words string }{
		{aic + `"aic_system": "h200_sxm", "aic_model_path": "Qwen3-32B", "engine_version": "v0.19.0-cu130", ` +
			`"aic_tp_size": 4}`,
			"level model (vllm, Qwen3-32B, h200_sxm, bf16; 12 measurements): prefill_scale 0.8333, step_overhead_us " +
				"300; times those of " +
				"version 0.19.0 (20 measurements) and Qwen3-32B, version 0.19.0 (7 measurements) and Qwen3-32B, TP 4 " +
				"(5 measurements)"},
		{aic + `"aic_system": "h200_sxm", "aic_model_path": "x", "engine_version": "0.19.0", "aic_tp_size": 4}`,
			"level gpu (vllm, h200_sxm; 40 measurements), as nothing was measured for x, h200_sxm: decode_scale " +
				"2.25; times those of " +
				"version 0.19.0 (20 measurements)"},
		{aic + `"aic_system": "h200_sxm", "aic_model_path": "Qwen3-32B"}`,
			"level model (vllm, Qwen3-32B, h200_sxm, bf16; 12 measurements): prefill_scale 1.5, step_overhead_us 100"},
	} {
		if _, words, err := profile.Apply(parse(t, test.in)); err != nil || words != test.words {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", test.in, words, err, test.words)
		}
	}
	for version, want := range map[string]string{
		"": "", "0.19.0": "0.19.0", "v0.19.0-cu130": "0.19.0", "0.5.10.post1": "0.5.10.post1",
		"nightly-dev-20260216-d3bae71e": "nightly", "0.33.0+cu130": "0.33.0",
	} {
		if got := Release(version); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}

func TestNoEntry(t *testing.T) {
	profile, _ := Parse([]byte(example))
	_, _, err := profile.Apply(parse(t, `{"calibration": "p.json"}`))
	want := "want a profile for vllm with polynomial durations; it has vllm with aic durations, sglang with " +
		"polynomial durations"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestRefused(t *testing.T) {
	entry := func(members string) string {
		return `{"format": "dynosim-calibration/1", "entries": [{"engine": "vllm", "timing": "aic", ` + members + `}]}`
	}
	for in, want := range map[string]string{
		``:                                       "line 1 column 1: unexpected end of text",
		`[]`:                                     "got [], want a JSON object",
		`{"format": "x"}`:                        `format: got "x", want one of dynosim-calibration/1`,
		entry(`"level": "rack"`):                 `entries[0].level: got "rack", want one of model, kin, gpu, engine`,
		entry(`"level": "gpu", "size": 1`):       `unknown field "entries[0].size", want one of 14`,
		entry(`"level": "gpu"`) + `{}`:           "line 1 column 102: unexpected text after the object",
		entry(`"level": "gpu", "kv_tokens": -1`): "entries[0].kv_tokens: got -1, want an integer >= 0",
		entry(`"level": "gpu", "knobs": {"decode_scale": 0}`): "entries[0].knobs.decode_scale: got 0, " +
			"want a finite number > 0 and <= 1000",
		entry(`"level": "gpu", "knobs": {"step_overhead_us": -1}`): "entries[0].knobs.step_overhead_us: " +
			"got -1, want a finite number from 0 to 1e+09",
		`{"format": "dynosim-calibration/1", "entries": [{"level": "gpu"}]}`: "entries[0].engine: got nothing, want " +
			"a string that is not empty",
	} {
		if _, err := Parse([]byte(in)); err == nil ||
			!strings.HasPrefix(err.Error(), "not a calibration profile: "+want) {
			t.Errorf("%s:\ngot  %v\nwant %s", in, err, want)
		}
	}
}

// TestHeldOutError: the error that a fit has found of runs that it had not seen is that of its entry.
func TestHeldOutError(t *testing.T) {
	entry := func(members string) string {
		return `{"format": "dynosim-calibration/1", "entries": [{"engine": "vllm", "timing": "aic", "level": "model", ` +
			`"scheduler": "vllm"` + members + `}]}`
	}
	profile, err := Parse([]byte(entry(`, "held_out_error": {"ttft": 0.03, "tpot": 0.011, "measurements": 6}`)))
	if want := (Error{0.03, 0.011, 6, "vllm"}); err != nil || profile.Entries[0].Error == nil ||
		*profile.Entries[0].Error != want {
		t.Errorf("got %+v, %v, want %+v", profile.Entries, err, want)
	}
	if profile, err := Parse([]byte(entry(""))); err != nil || profile.Entries[0].Error != nil {
		t.Errorf("without one: got %+v, %v", profile.Entries, err)
	}
	const want = "not a calibration profile: entries[0].held_out_error.tpot: got nothing, want a finite number from " +
		"0 to 1e+09"
	if _, err := Parse([]byte(entry(`, "held_out_error": {"ttft": 0.03}`))); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestShipped(t *testing.T) {
	if len(Shipped().Entries) == 0 {
		t.Error("the shipped profile is empty: make profiles")
	}
}

// TestAdvised: an error about missing predictions names the calibration if the shipped profile has others instead.
func TestAdvised(t *testing.T) {
	missing := errors.New(`here: aic_model_path: "deepseek-ai/DeepSeek-V3" has no predictions for sglang 1 on h200_sxm: x`)
	advice := `; with "calibration": "auto" durations are of kernels that stand in`
	for _, test := range []struct {
		err   error
		more  string
		added string
	}{
		{missing, ``, advice},
		{missing, `, "calibration": "auto"`, ""},
		{missing, `, "aic_fmha_dtype": "bfloat16"`, ""},
		{errors.New("here: num_gpu_blocks: x"), ``, ""},
	} {
		args := parse(t, `{"engine_type": "sglang", "scheduler": "sglang", "aic_backend": "sglang", "num_gpu_blocks": 500,
			"aic_system": "h200_sxm", "aic_model_path": "deepseek-ai/DeepSeek-V3"`+test.more+`}`)
		if got := Advised(test.err, args); got.Error() != test.err.Error()+test.added || !errors.Is(got, test.err) {
			t.Errorf("%s: %v", test.more, got)
		}
	}
	if Advised(nil, engineargs.Args{}) != nil {
		t.Error("want no error")
	}
}

// TestOtherKernels: the shipped profile records other kernels for some models in some precisions, on some GPUs.
func TestOtherKernels(t *testing.T) {
	for _, test := range []struct {
		engine, system, model, types string
		want                         bool
	}{
		{"vllm", "h200_sxm", "MiniMaxAI/MiniMax-M2.5", "", true},
		{"vllm", "h200_sxm", "MiniMaxAI/MiniMax-M2.5", `, "aic_gemm_dtype": "fp8"`, false},
		{"vllm", "h200_sxm", "nvidia/MiniMax-M2.5-NVFP4", "", false},
		{"vllm", "b200_sxm", "nvidia/Llama-3.1-70B-Instruct-FP8", "", true},
		{"vllm", "h200_sxm", "nvidia/Llama-3.1-70B-Instruct-FP8", "", false},
		{"sglang", "h200_sxm", "deepseek-ai/DeepSeek-R1-0528", "", true},
		{"sglang", "h200_sxm", "deepseek-ai/DeepSeek-R1-0528", `, "aic_fmha_dtype": "bfloat16"`, false},
	} {
		args := parse(t, `{"engine_type": "`+test.engine+`", "scheduler": "`+test.engine+`", "aic_backend": "`+
			test.engine+`", "num_gpu_blocks": 500, "aic_system": "`+test.system+
			`", "aic_model_path": "`+test.model+`"`+test.types+`}`)
		if got := OtherKernels(args); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
