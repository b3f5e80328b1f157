package calibration

import (
	"strings"
	"testing"
)

// TestMeasuredError: the error of an engine, model, GPU and precision is that of docs/accuracy.md, with the shipped
// profile or without; what was not measured has none.
func TestMeasuredError(t *testing.T) {
	for _, test := range []struct {
		in         string
		calibrated bool
		ttft, tpot float64
		rows       int
	}{
		{`"aic_system": "h100_sxm", "aic_model_path": "meta-llama/Meta-Llama-3.1-70B", "aic_gemm_dtype": "fp8"`, false,
			0.023, 0.155, 15},
		{`"aic_system": "h100_sxm", "aic_model_path": "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8"`, true, 0.277, 0.074,
			15},
		{`"aic_system": "h100_sxm", "aic_model_path": "openai/gpt-oss-120b"`, false, 0.399, 0.061, 32},
		{`"aic_system": "h100_sxm", "aic_model_path": "Qwen/Qwen3-32B"`, false, 0.363, 0.151, 60},
		{`"aic_system": "h100_sxm", "aic_model_path": "meta-llama/Meta-Llama-3.1-70B"`, false, 0, 0, 0},
		{`"aic_system": "l40s", "aic_model_path": "Qwen/Qwen3-32B"`, false, 0, 0, 0},
		// not among the comparable rows
		{`"aic_system": "h200_sxm", "aic_model_path": "x/Llama-3.1-8B-Instruct-FP8"`, true, 0, 0, 0},
	} {
		found := MeasuredError(KeyOf(parse(t, `{"aic_backend": "vllm", "num_gpu_blocks": 500, `+test.in+`}`)),
			test.calibrated)
		if test.rows == 0 {
			if found != nil {
				t.Errorf("%s: got %+v, want none", test.in, *found)
			}
			continue
		}
		if want := (Error{test.ttft, test.tpot, test.rows, "vllm"}); found == nil || *found != want {
			t.Errorf("%s: got %+v, want %+v", test.in, found, want)
		}
	}
	if found := MeasuredError(KeyOf(parse(t, `{}`)), false); found != nil {
		t.Errorf("the polynomial: got %+v, want none", *found)
	}
}

// TestExpect: what is to be expected is of the model on its GPU, else of the nearest kin; nothing of rules that were
// not measured.
func TestExpect(t *testing.T) {
	for _, test := range []struct {
		in         string
		calibrated bool
		want       *Expected
	}{
		{`"scheduler": "vllm", "aic_system": "h200_sxm", "aic_model_path": "openai/gpt-oss-120b"`, true,
			&Expected{Range{0.85, 1.13}, Range{0.96, 1.07}, "model", 33}},
		{`"scheduler": "vllm", "aic_system": "h200_sxm", "aic_model_path": "x/Unknown-7B"`, false,
			&Expected{Range{0.93, 2.19}, Range{0.76, 1.54}, "gpu", 204}},
		{`"scheduler": "sglang", "engine_type": "sglang", "aic_backend": "sglang", "aic_system": "l40s", ` +
			`"aic_model_path": "x/Unknown-7B"`, true,
			&Expected{Range{0.78, 1.36}, Range{0.87, 1.23}, "engine", 341}},
		// by the rules of Dynamo's mocker
		{`"aic_system": "h200_sxm", "aic_model_path": "openai/gpt-oss-120b"`, true, nil},
	} {
		in := `{"num_gpu_blocks": 500, ` + test.in
		if !strings.Contains(in, "aic_backend") {
			in += `, "aic_backend": "vllm"`
		}
		found := Expect(KeyOf(parse(t, in+"}")), test.calibrated)
		if (found == nil) != (test.want == nil) || found != nil && *found != *test.want {
			t.Errorf("%s: got %+v, want %+v", test.in, found, test.want)
		}
	}
}
