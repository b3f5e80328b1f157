package job

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCalibrations: a fit sees engines as the choice of an entry does.
func TestCalibrations(t *testing.T) {
	profile := `{"format": "dynosim-calibration/1", "entries": [
		{"level": "model", "engine": "vllm", "timing": "aic", "system": "b200_sxm", "model": "m-NVFP4", "precision": "fp4"},
		{"level": "engine", "engine": "vllm", "timing": "aic"}]}`
	config, _ := json.Marshal(map[string]any{"profile": profile, "engines": []map[string]any{
		{"aic_backend": "vllm", "aic_system": "b200_sxm", "aic_model_path": "org/m-Instruct-FP4", "scheduler": "vllm"},
		{"aic_backend": "vllm", "aic_system": "h100_sxm", "aic_model_path": "m"},
		{"engine_type": "sglang"},
	}})
	text, err := Calibrations(string(config))
	want := `[{"engine":"vllm","timing":"aic","scheduler":"vllm","system":"b200_sxm","model":"m-Instruct-FP4",` +
		`"precision":"fp4","tp":1,"family":"m","entry":0,"level":"model"},` +
		`{"engine":"vllm","timing":"aic","scheduler":"dynamo","system":"h100_sxm","model":"m","precision":"","tp":1,` +
		`"family":"m","entry":1,"level":"engine"},` +
		`{"engine":"sglang","timing":"polynomial","scheduler":"dynamo","system":"","model":"","precision":"","family":"",` +
		`"entry":-1,"level":""}]`
	if err != nil || text != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
	for config, want := range map[string]string{
		`{"engines": [{"max_num_seq": 1}]}`: "engines[0]: ",
		`{"profile": "[]"}`:                 "not a calibration profile: ",
		`[]`:                                "json: ",
	} {
		if _, err := Calibrations(config); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
}
