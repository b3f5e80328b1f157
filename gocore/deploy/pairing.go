package deploy

import (
	"fmt"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
	"dynosim/gocore/timing/profile"
)

// Model returns how long passes take by the engine arguments in option: by a formula, nil for the polynomial, or by
// measured durations from a file.
func Model(option string, args engineargs.Args) (timing.Model, error) {
	if args.Profile == "" {
		return args.Formula, nil
	}
	grid, _, err := profile.Open(args.Profile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	return grid, nil
}

// Difference is an argument of which prefill and decode workers have different values.
type Difference struct{ Argument, Prefill, Decode string }

// Mismatch returns what keeps decode workers from going on with the requests of prefill workers; nil if they can.
func Mismatch(prefill, decode engineargs.Args) *Difference {
	switch {
	case prefill.EngineType != decode.EngineType:
		return &Difference{"engine_type", prefill.EngineType.String(), decode.EngineType.String()}
	case prefill.SchedulerName() != decode.SchedulerName():
		return &Difference{"scheduler", prefill.SchedulerName(), decode.SchedulerName()}
	case prefill.BlockSize != decode.BlockSize:
		return &Difference{"block_size", fmt.Sprint(prefill.BlockSize), fmt.Sprint(decode.BlockSize)}
	}
	return nil
}
