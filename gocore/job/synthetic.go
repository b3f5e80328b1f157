package job

import (
	"encoding/json"
	"fmt"
	"slices"

	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// lengths are the length distributions of a generated workload, nil in a run of a trace.
type lengths struct{ input, output *workload.Lengths }

// parseLengths reads the keys whose values are integers or texts of distributions. The schema has no type for that, so
// the values are looked up once more in config, from which o was decoded.
func parseLengths(config string, o *strictjson.Object) (lengths, []error) {
	if o.Text("kind") != kindSynthetic {
		return lengths{}, nil
	}
	var texts struct {
		Input  any `json:"input_tokens"`
		Output any `json:"output_tokens"`
	}
	if err := json.Unmarshal([]byte(config), &texts); err != nil {
		return lengths{}, []error{err}
	}
	input, inputErr := parseLength(o, "input_tokens", texts.Input)
	output, outputErr := parseLength(o, "output_tokens", texts.Output)
	errs := slices.DeleteFunc([]error{inputErr, outputErr}, func(err error) bool { return err == nil })
	return lengths{input, output}, errs
}

func parseLength(o *strictjson.Object, name string, value any) (*workload.Lengths, error) {
	if !o.Given(name) {
		return nil, &strictjson.FieldError{Field: name, Got: "nothing", Want: workload.LengthForms}
	}
	text, isText := value.(string)
	if !isText {
		text = o.Shown(name)
	}
	d, err := workload.ParseLengths(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// parseWorkload reads the description of a generated workload, except for the files of empirical distributions and for
// what depends on the engine. For a run of a trace it is empty.
func parseWorkload(o *strictjson.Object, l lengths) (workload.SyntheticSpec, error) {
	if o.Text("kind") != kindSynthetic {
		return workload.SyntheticSpec{}, nil
	}
	arrivals, err := parseArrivals(o)
	arrivalSeed := o.Uint("seed")
	if o.Given("arrival_seed") {
		arrivalSeed = o.Uint("arrival_seed")
	}
	return workload.SyntheticSpec{
		InputLengths:      l.input,
		OutputLengths:     l.output,
		RequestCount:      o.Int("request_count"),
		ArrivalIntervalMs: o.Float("arrival_interval_ms"),
		TurnsPerSession:   o.Int("turns_per_session"),
		SharedPrefixRatio: o.Float("shared_prefix_ratio"),
		NumPrefixGroups:   o.Int("num_prefix_groups"),
		InterTurnDelayMs:  o.Float("inter_turn_delay_ms"),
		Arrivals:          arrivals,
		Seed:              o.Uint("seed"),
		ArrivalSeed:       arrivalSeed,
	}, err
}

func parseArrivals(o *strictjson.Object) (workload.Arrivals, error) {
	for _, instead := range []string{"request_rate", "request_rate_curve"} {
		if o.Given(instead) && o.Given("arrival_interval_ms") {
			return workload.Arrivals{}, &strictjson.FieldError{
				Field: "arrival_interval_ms", Got: o.Shown("arrival_interval_ms"), Want: "it left out with " + instead,
			}
		}
	}
	process, err := workload.ParseArrivalProcess(o.Text("arrival_process"))
	a := workload.Arrivals{Process: process, RequestRate: o.Float("request_rate"), CV: o.Float("arrival_cv")}
	if o.Given("request_rate_curve") {
		a.Curve = workload.NewRateCurve(o.Text("request_rate_curve"))
	}
	return a, err
}

// readCurve reads the file of a rate curve, if there is one.
func readCurve(c *workload.RateCurve) error {
	if c == nil {
		return nil
	}
	return readFile("request_rate_curve", c.File(), c.ReadFile)
}

// readLengths reads the file of an empirical distribution.
func readLengths(name string, lengths *workload.Lengths) error {
	path, needed := lengths.File()
	if !needed {
		return nil
	}
	return readFile(name, path, lengths.ReadFile)
}

// readFile opens the file that an option names and reads it.
func readFile(option, path string, read func(workload.Source) error) error {
	file, err := openFile(option, path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := read(workload.Source{Name: spelling.Path(path), Reader: file}); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

func generate(spec workload.SyntheticSpec, blockSize int, poll func() error) (*workload.Workload, error) {
	if err := readLengths("input_tokens", spec.InputLengths); err != nil {
		return nil, err
	}
	if err := readLengths("output_tokens", spec.OutputLengths); err != nil {
		return nil, err
	}
	spec.EngineBlockSize, spec.Poll = blockSize, poll
	return workload.Synthetic(spec)
}
