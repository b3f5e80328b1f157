package job

import (
	"errors"
	"fmt"
	"slices"

	"dynosim/gocore/strictjson"
)

// The two kinds of run. Their other keys are those of the Python functions run_trace_replay and
// run_synthetic_trace_replay.
const (
	kindTrace     = "trace"
	kindSynthetic = "synthetic"
)

const maxWorkers = 1 << 16

// decode reads a description and checks every key by itself, and that the kind of run knows it.
func decode(config string) (*strictjson.Object, lengths, error) {
	var fields []strictjson.Field
	for _, known := range options {
		if !known.shell {
			fields = append(fields, known.Field)
		}
	}
	config, err := withModel(config)
	if err != nil {
		return nil, lengths{}, err
	}
	config, err = withPools(config)
	if err != nil {
		return nil, lengths{}, err
	}
	o, err := strictjson.Decode(config, strictjson.Schema{Fields: fields, NonFinite: true})
	if err != nil {
		return nil, lengths{}, err
	}
	if err := checkKind(o); err != nil {
		return nil, lengths{}, err
	}
	if err := refuse(o); err != nil {
		return nil, lengths{}, err
	}
	lengths, errs := parseLengths(config, o)
	if err := strictjson.Join(slices.Concat(withoutWorkers(o), o.RangeErrors(), errs)); err != nil {
		return nil, lengths, err
	}
	if o.Text("kind") == kindTrace {
		err = checkTraceFiles(o)
	}
	return o, lengths, err
}

func checkKind(o *strictjson.Object) error {
	kind := o.Text("kind")
	for _, known := range options {
		switch {
		case known.shell:
		case known.kind != "" && known.kind != kind && o.Given(known.Name):
			return fmt.Errorf("%s: got %s, want it left out: it is for %s runs only", known.Name, o.Shown(known.Name),
				known.kind)
		case known.kind == kind && known.required && !o.Given(known.Name) &&
			(known.instead == "" || !o.Given(known.instead)):
			return &strictjson.FieldError{Field: known.Name, Got: "nothing", Want: known.Type.Want()}
		}
	}
	return nil
}

// withoutWorkers refuses to begin without workers, unless a planner may start some.
func withoutWorkers(o *strictjson.Object) []error {
	if isPlanned(o) {
		return nil
	}
	var errs []error
	for _, name := range []string{"num_workers", "num_prefill_workers", "num_decode_workers"} {
		if o.Given(name) && o.Shown(name) == "0" {
			errs = append(errs, &strictjson.FieldError{Field: name, Got: "0",
				Want: strictjson.Integer{Min: 1, Max: maxWorkers}.Want()})
		}
	}
	return errs
}

func checkTraceFiles(o *strictjson.Object) error {
	files := o.List("trace_files")
	switch {
	case traceFormat(o).Several():
		if len(files) == 0 {
			return errors.New("trace_files: got 0 files, want at least one")
		}
	case len(files) != 1:
		return fmt.Errorf("trace_files: got %d files, want exactly one for trace_format %s", len(files),
			o.Text("trace_format"))
	}
	return nil
}

// refuse names the first option whose feature is not built yet.
func refuse(o *strictjson.Object) error {
	for _, known := range options {
		if known.feature != "" && !o.AtDefault(known.Name) {
			return &strictjson.NotBuiltError{Field: known.Name, Value: o.Shown(known.Name), Feature: known.feature}
		}
	}
	return nil
}
