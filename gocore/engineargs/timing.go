package engineargs

import (
	"fmt"
	"slices"

	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// TimingModel is a way to say how long passes take. Users choose it with timing_model, or with the field that it needs.
type TimingModel struct {
	Name string // also in reports
	// Needs is the field that describes the model, "" if it has none.
	Needs string
	// New makes a model from engine arguments that have been checked. It is nil for the polynomial, which clocks have
	// built in, and for models that are loaded when a run starts.
	New func(*strictjson.Object) timing.Model
}

// polynomial is the name of the model for arguments that choose none.
const polynomial = "polynomial"

// fixed is the name of the model whose durations are given.
const fixed = "fixed"

// timingModels are all models. Of two whose fields are both given, the later one is taken.
var timingModels = []TimingModel{
	{Name: polynomial},
	{Name: fixed, Needs: "fixed_prefill_ms", New: func(o *strictjson.Object) timing.Model {
		return timing.Fixed{Prompts: o.Float("fixed_prefill_ms"), Step: o.Float("fixed_decode_ms")}
	}},
	{Name: "interpolated", Needs: "planner_profile_data"},
	{Name: "aic", Needs: "aic_backend"},
}

// AddTimingModel makes timing_model accept another name. It is for the init functions of packages that bring a model
// along, and panics if the name is taken.
func AddTimingModel(m TimingModel) {
	if slices.Contains(timingModelNames(), m.Name) {
		panic(fmt.Sprintf("engineargs: there are two timing models %q", m.Name))
	}
	timingModels = append(timingModels, m)
}

func timingModelNames() []string {
	names := make([]string, len(timingModels))
	for i, m := range timingModels {
		names[i] = m.Name
	}
	return names
}

// timingModel returns the model that the arguments choose: by its name or, without one, by a field that only it needs.
func timingModel(o *strictjson.Object) TimingModel {
	chosen := timingModels[0]
	for _, m := range timingModels {
		if o.Text("timing_model") == m.Name {
			return m
		}
		if m.Needs != "" && o.Given(m.Needs) {
			chosen = m
		}
	}
	return chosen
}

// checkTimingModel refuses a model that lacks the field it needs, and one that contradicts the field of another.
func checkTimingModel(o *strictjson.Object) error {
	if !o.Given("timing_model") {
		return nil
	}
	chosen := timingModel(o)
	if chosen.Needs != "" && !o.Given(chosen.Needs) {
		return &strictjson.FieldError{Field: chosen.Needs, Got: "nothing",
			Want: "it given, as timing_model is " + chosen.Name}
	}
	for _, m := range timingModels {
		if m.Name != chosen.Name && m.Needs != "" && o.Given(m.Needs) {
			return mismatch(o, "timing_model", fmt.Sprintf("%s, as %s is given", m.Name, m.Needs))
		}
	}
	return nil
}

// checkFixed makes sure that both durations of the fixed model are given.
func checkFixed(o *strictjson.Object) error {
	switch {
	case timingModel(o).Name == fixed && !o.Given("fixed_decode_ms"):
		return &strictjson.FieldError{Field: "fixed_decode_ms", Got: "nothing",
			Want: "it given, as timing_model is fixed"}
	case timingModel(o).Name != fixed && o.Given("fixed_decode_ms"):
		return mismatch(o, "fixed_decode_ms", "fixed_prefill_ms with it")
	default:
		return nil
	}
}

// Clock says how long passes of the engine take by a timing model, nil for the polynomial.
func (a *Args) Clock(model timing.Model) timing.Clock {
	return timing.Clock{Model: model, Speedup: a.SpeedupRatio, DecodeSpeedup: a.DecodeSpeedupRatio, Host: a.Host()}
}
