package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"dynosim/gocore/aic"
	"dynosim/gocore/calibration"
	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing/profile"
	"dynosim/gocore/workload"
)

// inputFile is a file that a run has read.
type inputFile struct {
	Argument string `json:"argument"` // the argument that names the file
	Path     string `json:"path"`     // as given; "-" is standard input
	// SHA256 is the hash of the file's bytes, in hexadecimal; "" for standard input and pipes, which can be read only
	// once.
	SHA256 string `json:"sha256"`
}

// inputFiles lists the files that a run has read, in a fixed order.
func inputFiles(s *Spec, m *Monitor) ([]inputFile, error) { return listInputs(s, m.hash) }

// listInputs lists them with what hash says of their bytes.
func listInputs(s *Spec, hash func(inputFile) (string, error)) ([]inputFile, error) {
	files := []inputFile{}
	add := func(argument, path string) {
		files = append(files, inputFile{Argument: argument, Path: path})
	}
	for _, path := range s.trace.files {
		add("trace_files", path)
	}
	addLengths("input_tokens", s.generated.InputLengths, add)
	addLengths("output_tokens", s.generated.OutputLengths, add)
	if curve := s.generated.Arrivals.Curve; curve != nil {
		add("request_rate_curve", curve.File())
	}
	if path := askedFile(s.routing.asked); path != "" {
		add("router", path)
	}
	if path := askedFile(s.deployment.timing); path != "" {
		add("timing_model", path)
	}
	if path := askedFile(s.policy); path != "" {
		add("scheduler_policy", path)
	}
	if s.routing.decisions != "" {
		add("router_decisions", s.routing.decisions)
	}
	if s.scaling.stock != nil && isFile(s.scaling.stock.config) {
		add("planner_config", s.scaling.stock.config)
	}
	for _, name := range []string{"extra_engine_args", "prefill_engine_args", "decode_engine_args"} {
		if args, used := s.deployment.pools()[name]; used {
			if args.ModelConfig != "" {
				add(name+".model_config", modelFile(args.ModelConfig))
			}
			if err := addProfile(name, args.Profile, add); err != nil {
				return nil, err
			}
			addCalibration(name, args.Calibration, add)
			addModel(name, args.AIC, add)
		}
	}
	addModel("aic_perf_config", s.routing.session, add)
	for i := range files {
		var err error
		if files[i].SHA256, err = hash(files[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", files[i].Argument, err)
		}
	}
	return files, nil
}

// addLengths adds the file of an empirical distribution.
func addLengths(argument string, l *workload.Lengths, add func(argument, path string)) {
	if l == nil {
		return
	}
	if path, drawn := l.File(); drawn {
		add(argument, path)
	}
}

// addCalibration adds the file of a calibration profile; the one that is part of the program is known by its version.
func addCalibration(argument, path string, add func(argument, path string)) {
	if path != "" && path != calibration.Auto {
		add(argument+".calibration", path)
	}
}

// addProfile adds the files with measured durations.
func addProfile(argument, path string, add func(argument, path string)) error {
	if path == "" {
		return nil
	}
	files, err := profile.Paths(path)
	for _, file := range files {
		add(argument+".planner_profile_data", file)
	}
	return err
}

// addModel adds the description of a model, if the AIC SDK reads it from a folder.
func addModel(argument string, session aic.Config, add func(argument, path string)) {
	if path := filepath.Join(session.Model, "config.json"); session.Backend != "" && isFile(path) {
		add(argument+".aic_model_path", path)
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// hashFile reads a file once more. A stream, which cannot be read twice, has no hash.
func hashFile(path string, poll func() error) (string, error) {
	if path == "-" || !isFile(path) {
		return "", nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.CopyBuffer(pollingWriter{hash, poll}, file, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// parseRepeats reads which input files a run is expected to have, a JSON list of inputFile; nil if it repeats no other
// run.
func parseRepeats(config string) ([]inputFile, error) {
	var given struct {
		Expected json.RawMessage `json:"expected_inputs"`
	}
	if err := json.Unmarshal([]byte(config), &given); err != nil || given.Expected == nil {
		return nil, err
	}
	expected := []inputFile{}
	if err := json.Unmarshal(given.Expected, &expected); err != nil {
		return nil, &strictjson.FieldError{Field: "expected_inputs", Got: "something else",
			Want: "a list of objects with argument, path and sha256"}
	}
	return expected, nil
}

// checkInputs refuses to repeat a run with other input files than it had.
func checkInputs(want, read []inputFile) error {
	for _, file := range read {
		i := slices.IndexFunc(want, func(w inputFile) bool {
			return w.Argument == file.Argument &&
				w.Path == file.Path
		})
		switch {
		case i < 0:
			return fmt.Errorf("%s: %s is not among the inputs of the report", file.Argument, spelling.Path(file.Path))
		case file.SHA256 == "" || want[i].SHA256 == "":
			return fmt.Errorf("%s: %s was read from a stream, which cannot be repeated: want a file", file.Argument,
				spelling.Path(file.Path))
		case file.SHA256 != want[i].SHA256:
			return fmt.Errorf("%s: %s has changed since the report: its SHA-256 begins with %.12s, want %.12s",
				file.Argument, spelling.Path(file.Path), file.SHA256, want[i].SHA256)
		}
	}
	return nil
}
