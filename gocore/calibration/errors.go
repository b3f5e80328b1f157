package calibration

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"
)

// Error is how far simulated latencies were from measured ones, as parts of the measured ones: the median of the
// absolute errors of mean TTFT and mean TPOT.
type Error struct {
	TTFT float64 `json:"ttft"`
	TPOT float64 `json:"tpot"`
	// Measurements is how many were compared.
	Measurements int `json:"measurements"`
	// Scheduler is whose rules the compared replays followed.
	Scheduler string `json:"scheduler"`
}

// measuredErrors is the file of errors: what docs/accuracy.md says of each engine, model, GPU and precision.
type measuredErrors struct {
	Entries []struct {
		Engine, Model, System, Precision string
		// Plain is without calibration, Calibrated with profiles that had not seen the configuration.
		Plain, Calibrated *Error
	}
	Expected []expectedError
}

//go:embed shipped/errors.json
var shippedErrors []byte

var errorsOf = sync.OnceValue(func() (found measuredErrors) {
	if err := json.Unmarshal(shippedErrors, &found); err != nil {
		panic("calibration: the shipped errors are refused: " + err.Error())
	}
	return found
})

// MeasuredError returns the error that was measured of an engine on the GPU with the model that the key names, without
// calibration or with the shipped profile; nil if there is none.
func MeasuredError(k Key, calibrated bool) *Error {
	if k.Timing != "aic" || k.Model == "" {
		return nil
	}
	precision := PrecisionOf(k)
	if precision == "" {
		precision = "bf16" // that of unquantised models
	}
	for _, e := range errorsOf().Entries {
		if e.Engine != k.Engine || e.System != k.System || e.Precision != precision ||
			!strings.EqualFold(Family(e.Model), Family(k.Model)) {
			continue
		}
		found := e.Plain
		if calibrated {
			found = e.Calibrated
		}
		if found != nil {
			with := *found
			with.Scheduler = k.Engine
			return &with
		}
	}
	return nil
}

// PrecisionOf returns the precision of a key. Where neither data types nor the model's name tell it, it is the one in
// which that checkpoint was measured; "" without any.
func PrecisionOf(k Key) string {
	if k.Precision != "" {
		return k.Precision
	}
	return Shipped().measuredAs(k.Model)
}

// PrecisionOfWeights returns the precision of a data type by the SDK's name, "" if that tells none.
func PrecisionOfWeights(dataType string) string { return precision(dataType, "") }
