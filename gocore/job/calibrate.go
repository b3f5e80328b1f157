package job

import (
	"fmt"
	"io"

	"dynosim/gocore/calibration"
	"dynosim/gocore/engineargs"
)

// Calibrate sets the knobs of engine arguments that ask for it, and says which. option is where the arguments are from.
func Calibrate(option string, args engineargs.Args) (calibrated engineargs.Args, words string, err error) {
	at := args.Calibration
	if at == "" {
		return args, "", nil
	}
	profile := calibration.Profile{}
	if at == calibration.Auto {
		profile = calibration.Shipped()
	} else if profile, err = readProfile(option, at); err != nil {
		return args, "", err
	}
	if calibrated, words, err = profile.Apply(args); err != nil {
		return args, "", fmt.Errorf("%s: calibration: got %s, %w", option, shownPath(at), err)
	}
	return calibrated, fmt.Sprintf("calibration %s: %s", shownPath(at), words), nil
}

func readProfile(option, at string) (calibration.Profile, error) {
	option += ": calibration"
	file, err := openFile(option, at)
	if err != nil {
		return calibration.Profile{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return calibration.Profile{}, fmt.Errorf("%s: cannot read %s: %w", option, shownPath(at), err)
	}
	profile, err := calibration.Parse(text)
	if err != nil {
		return calibration.Profile{}, fmt.Errorf("%s: %s: %w", option, shownPath(at), err)
	}
	return profile, nil
}

// calibrate is Calibrate for all pools of a deployment.
func (d deployment) calibrate() (deployment, []string, error) {
	var words []string
	set := func(option, prefix string, args *engineargs.Args) (err error) {
		var text string
		if *args, text, err = Calibrate(option, *args); text != "" {
			words = append(words, prefix+text)
		}
		return err
	}
	if !d.disaggregated {
		err := set("extra_engine_args", "", &d.args)
		return d, words, err
	}
	if err := set("prefill_engine_args", "prefill_engine_args: ", &d.prefill); err != nil {
		return d, words, err
	}
	err := set("decode_engine_args", "decode_engine_args: ", &d.args)
	return d, words, err
}
