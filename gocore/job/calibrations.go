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
	Level  string `json:"level"`  // of that entry, "" without one
	// Knobs are those of that entry, times the factors for the engine's release and number of GPUs.
	Knobs map[string]float64 `json:"knobs,omitempty"`
}

// Calibrations says by what calibrations choose for engines, and what they choose. config is a JSON object with
// engines, a list of engine arguments, and profile, the text of a profile, "auto" for the shipped one, "" for none. The
// result is a JSON list with the names engine, timing, scheduler, system, model, precision, version, tp, family, entry,
// level and knobs for each engine. Errors have a Kind, as those of Run.
func Calibrations(config string) (text string, err error) {
	var given struct {
		Engines []json.RawMessage `json:"engines"`
		Profile string            `json:"profile"`
	}
	if err := json.Unmarshal([]byte(config), &given); err != nil {
		return "", err
	}
	var profile calibration.Profile
	switch given.Profile {
	case "":
	case calibration.Auto:
		profile = calibration.Shipped()
	default:
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
		if at := views[i].Entry; at >= 0 {
			views[i].Level = profile.Entries[at].Level
			views[i].Knobs = profile.Knobs(at, key)
		}
	}
	found, err := json.Marshal(views)
	return string(found), err
}

// ShippedCalibrations returns entries of the shipped profile, as a JSON list without their knobs: those of a level and
// a source of durations. config is a JSON object with these, level and timing.
func ShippedCalibrations(config string) (text string, err error) {
	var of struct {
		Level  string `json:"level"`
		Timing string `json:"timing"`
	}
	if err := json.Unmarshal([]byte(config), &of); err != nil {
		return "", err
	}
	type shown struct {
		Level        string `json:"level"`
		Engine       string `json:"engine"`
		Timing       string `json:"timing"`
		System       string `json:"system"`
		Model        string `json:"model"`
		Precision    string `json:"precision"`
		Measurements int    `json:"measurements"`
	}
	var list []shown
	for _, e := range calibration.Shipped().Entries {
		if e.Level == of.Level && e.Timing == of.Timing {
			list = append(list, shown{e.Level, e.Engine, e.Timing, e.System, e.Model, e.Precision, e.Measurements})
		}
	}
	found, err := json.Marshal(list)
	return string(found), err
}
