package calibration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/spelling"
)

// Calibrate sets the knobs of engine arguments that ask for it, and says which; words is "" if they do not. option is
// where the arguments are from, for errors.
func Calibrate(option string, args engineargs.Args) (calibrated engineargs.Args, words string, err error) {
	at := args.Calibration
	if at == "" {
		return args, "", nil
	}
	profile, err := Open(at)
	if err != nil {
		return args, "", fmt.Errorf("%s: calibration: %w", option, err)
	}
	if calibrated, words, err = profile.Apply(args); err != nil {
		return args, "", fmt.Errorf("%s: calibration: got %s, %w", option, spelling.Path(at), err)
	}
	return calibrated, fmt.Sprintf("calibration %s: %s", spelling.Path(at), words), nil
}

// Open reads the profile in a file, or that which Auto stands for. Errors name the file.
func Open(at string) (Profile, error) {
	if at == Auto {
		return Shipped(), nil
	}
	text, err := os.ReadFile(at)
	if err != nil {
		var cause *fs.PathError // repeats the path
		if errors.As(err, &cause) {
			err = cause.Err
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fs.ErrNotExist
		}
		return Profile{}, fmt.Errorf("%s: %w", spelling.Path(at), err)
	}
	profile, err := Parse(text)
	if err != nil {
		return Profile{}, fmt.Errorf("%s: %w", spelling.Path(at), err)
	}
	return profile, nil
}
