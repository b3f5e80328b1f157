package job

import (
	"dynosim/gocore/calibration"
	"dynosim/gocore/engineargs"
)

// calibrate sets the knobs of all pools that ask for it, and says which.
func (d deployment) calibrate() (calibrated deployment, words []string, err error) {
	set := func(option, prefix string, args *engineargs.Args) (err error) {
		var text string
		if *args, text, err = calibration.Calibrate(option, *args); text != "" {
			words = append(words, prefix+text)
		}
		return err
	}
	if !d.disaggregated {
		err = set("extra_engine_args", "", &d.args)
		return d, words, err
	}
	if err = set("prefill_engine_args", "prefill_engine_args: ", &d.prefill); err == nil {
		err = set("decode_engine_args", "decode_engine_args: ", &d.args)
	}
	return d, words, err
}
