package job_test

import (
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/job"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// constant is a timing model as another package might bring it along: 20 ms for the prompts of a pass, 5 ms for its
// tokens. docs/architecture.md, "How to add a timing model", shows it.
type constant struct{}

func init() {
	engineargs.AddTimingModel(engineargs.TimingModel{
		Name: "constant",
		New:  func(*strictjson.Object) timing.Model { return constant{} },
	})
}

func (constant) PrefillMs(timing.PrefillShape) float64 { return 20 }
func (constant) DecodeMs(timing.DecodeShape) float64   { return 5 }
func (constant) Pure() bool                            { return true }

// TestNewTimingModel: a model that a package registers is chosen by its name, for one pool and for one of two.
func TestNewTimingModel(t *testing.T) {
	const one = `{"kind":"synthetic","input_tokens":64,"output_tokens":3,"request_count":1,`
	if got := durations(t, one+`"extra_engine_args":"{\"timing_model\":\"constant\"}"}`); got != [2]float64{25, 5} {
		t.Errorf("first token and gap %v, want 25 ms (a prompt and a token) and 5 ms", got)
	}
	pools := one + `"router_mode":"round_robin",` +
		`"prefill_engine_args":"{\"worker_type\":\"prefill\",\"timing_model\":\"constant\"}",` +
		`"decode_engine_args":"{\"worker_type\":\"decode\",\"timing_model\":\"constant\",\"speedup_ratio\":5}"}`
	if got := durations(t, pools); got[1] != 1 {
		t.Errorf("two pools: gap %v, want 1 ms", got[1])
	}
	_, err := job.Run(one+`"extra_engine_args":"{\"timing_model\":\"constant\",\"planner_profile_data\":\"a.npz\"}"}`,
		&job.Monitor{})
	const want = `extra_engine_args: timing_model: got "constant", want interpolated, as planner_profile_data is given`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// durations returns the time to the first token and the mean gap of the only request of a run.
func durations(t *testing.T, config string) [2]float64 {
	t.Helper()
	result := run(t, config)
	ttft, _ := result.Floats("ttft_ms")
	gap, _ := result.Floats("itl_ms")
	return [2]float64{ttft[0], gap[0]}
}
