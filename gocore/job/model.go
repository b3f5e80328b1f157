package job

import (
	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
)

// LoadModel reads the profile with measured durations that engine arguments name; without one the result is nil. option says
// where the arguments come from, for errors. The arguments must not ask for AIC, whose predictions only a run can ask for.
func LoadModel(option string, args engineargs.Args) (timing.Model, error) {
	model, _, err := loadModel(option, args, nil)
	return model, err
}
