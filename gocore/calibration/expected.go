package calibration

import "strings"

// Range is by what simulated latencies are to be multiplied so that 80 % of measurements are between: their lower and
// upper ends.
type Range [2]float64

// Expected is how far measurements of a deployment are to be expected from a simulation.
type Expected struct {
	TTFT Range `json:"ttft"`
	TPOT Range `json:"tpot"`
	// Level says what the measurements are of: "model" of this model on this GPU in this precision, "kin" of the model
	// wherever it was measured, "gpu" of the engine on this GPU, "engine" of the engine.
	Level        string `json:"level"`
	Measurements int    `json:"measurements"`
}

// expectedError is a row of the file of errors: what was measured, and both ranges.
type expectedError struct {
	Level, Engine, Model, System, Precision string
	Measurements                            int
	// Plain is without calibration, Calibrated with profiles that had not seen the configuration.
	Plain, Calibrated *struct{ TTFT, TPOT Range }
}

// Expect returns what is to be expected of an engine, without calibration or with the shipped profile: of its model on
// its GPU if that was measured in two configurations or more, otherwise of the nearest kin, in the order of the levels.
// nil if nothing is known of the engine, or its durations are not those of AIC.
func Expect(k Key, calibrated bool) *Expected {
	if k.Timing != "aic" || k.Scheduler != k.Engine {
		return nil
	}
	precision := PrecisionOf(k)
	if precision == "" {
		precision = "bf16" // that of unquantised models
	}
	for _, level := range levels {
		for _, e := range errorsOf().Expected {
			if e.Level != level || e.Engine != k.Engine || !e.isOf(k, precision) {
				continue
			}
			found := e.Plain
			if calibrated {
				found = e.Calibrated
			}
			if found != nil {
				return &Expected{found.TTFT, found.TPOT, e.Level, e.Measurements}
			}
		}
	}
	return nil
}

// isOf reports whether a row is of the model, the GPU and the precision of a key, as far as its level goes.
func (e *expectedError) isOf(k Key, precision string) bool {
	sameModel := k.Model != "" && strings.EqualFold(Family(e.Model), Family(k.Model))
	switch e.Level {
	case "model":
		return sameModel && e.System == k.System && e.Precision == precision
	case "kin":
		return sameModel
	case "gpu":
		return e.System == k.System
	}
	return true
}
