package job

import (
	"encoding/json"
	"fmt"

	"dynosim/gocore/calibration"
	"dynosim/gocore/engineargs"
)

// calibrationView is what calibrations see of an engine.
type calibrationView struct {
	calibration.Key
	Family string `json:"family"` // the model, whatever its checkpoint
	Entry  int    `json:"entry"`  // place of the entry that the engine would use, -1 without one
}

// Calibrations says by what calibrations choose for engines, and what they choose. config is a JSON object with engines, a list
// of engine arguments, and profile, the text of a profile, "" for none. The result is a JSON list with the names engine, timing,
// scheduler, system, model, precision, family and entry for each engine. Errors have a Kind, as those of Run.
func Calibrations(config string) (text string, err error) {
	var given struct {
		Engines []json.RawMessage `json:"engines"`
		Profile string            `json:"profile"`
	}
	if err := json.Unmarshal([]byte(config), &given); err != nil {
		return "", err
	}
	var profile calibration.Profile
	if given.Profile != "" {
		if profile, err = calibration.Parse([]byte(given.Profile)); err != nil {
			return "", err
		}
	}
	views := make([]calibrationView, len(given.Engines))
	for i, engine := range given.Engines {
		args, _, err := engineargs.Parse(string(engine))
		if err != nil {
			return "", fmt.Errorf("engines[%d]: %w", i, err)
		}
		key := calibration.KeyOf(args)
		views[i] = calibrationView{Key: key, Family: calibration.Family(key.Model), Entry: profile.Choose(key)}
	}
	found, err := json.Marshal(views)
	return string(found), err
}
