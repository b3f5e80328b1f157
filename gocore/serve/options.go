package serve

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"dynosim/gocore/strictjson"
)

const maxWorkers = 4096

// decode reads a description and checks every key by itself.
func decode(text string) (*strictjson.Object, error) {
	var fields []strictjson.Field
	for _, o := range options {
		fields = append(fields, o.Field)
	}
	fields = append(fields, strictjson.Field{Name: "environment", Type: strictjson.List{}},
		strictjson.Field{Name: "version", Type: strictjson.Text{}, Default: ""})
	o, err := strictjson.Decode(text, strictjson.Schema{Fields: fields, NonFinite: true})
	if err != nil {
		return nil, err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return nil, err
	}
	return o, checkLegacyMode(o)
}

// checkLegacyMode says what is wrong with the flags that --disaggregation-mode has replaced.
func checkLegacyMode(o *strictjson.Object) error {
	switch {
	case !o.Bool("is_prefill_worker") && !o.Bool("is_decode_worker"):
		return nil
	case o.Given("disaggregation_mode"):
		return fmt.Errorf("is_prefill_worker, is_decode_worker: cannot be combined with disaggregation_mode %s; "+
			"use only that", o.Shown("disaggregation_mode"))
	case o.Bool("is_prefill_worker") && o.Bool("is_decode_worker"):
		return fmt.Errorf("is_prefill_worker, is_decode_worker: a worker is one of prefill, decode and aggregated, not both")
	default:
		return nil
	}
}

// workerTypes are what engine arguments call the modes.
var workerTypes = map[string]string{"agg": "aggregated", "prefill": "prefill", "decode": "decode"}

// mode returns the worker type that the options ask for, "" if they name none.
func mode(o *strictjson.Object) (workerType, warning string) {
	switch {
	case o.Bool("is_prefill_worker"):
		return "prefill", "is_prefill_worker is deprecated: use disaggregation_mode prefill"
	case o.Bool("is_decode_worker"):
		return "decode", "is_decode_worker is deprecated: use disaggregation_mode decode"
	default:
		return workerTypes[o.Text("disaggregation_mode")], ""
	}
}

// ports reads a list of one port for each worker; nil for none. ranks is how many ports each of them stands for.
func ports(o *strictjson.Object, name string, ranks, workers int) ([]int, error) {
	text := o.Text(name)
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list []int
	for item := range strings.SplitSeq(text, ",") {
		port, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || port < 1 || port+ranks-1 > math.MaxUint16 {
			return nil, &strictjson.FieldError{
				Field: name, Got: strconv.Quote(item),
				Want: fmt.Sprintf("ports from 1 to %d, with commas in between", math.MaxUint16-ranks+1),
			}
		}
		list = append(list, port)
	}
	if len(list) != workers {
		return nil, fmt.Errorf("%s: must have exactly num_workers (%d) ports, got %d: %v", name, workers, len(list),
			list)
	}
	return list, nil
}

// chosenDelay makes the number of workers decide the delay between launches.
const chosenDelay = -1.0

// batch is the number of workers after which a launch with delays makes a longer pause.
const batch = 32

// pauses returns how long to wait after the launch of each worker but the last.
func pauses(o *strictjson.Object) (func(i int) time.Duration, error) {
	delay := chosenDelay
	if o.Given("stagger_delay") {
		var err error
		if delay, err = strconv.ParseFloat(strings.Trim(o.Shown("stagger_delay"), `"`), 64); err != nil ||
			math.IsNaN(delay) || math.IsInf(delay, 0) || delay < 0 && delay != chosenDelay {
			return nil, &strictjson.FieldError{Field: "stagger_delay", Got: o.Shown("stagger_delay"),
				Want: "seconds >= 0, or -1 to choose by the number of workers"}
		}
	}
	if delay == chosenDelay {
		switch n := o.Int("num_workers"); {
		case n <= batch:
			delay = 0
		case n <= 128:
			delay = 0.1
		default:
			delay = 0.2
		}
	}
	return func(i int) time.Duration {
		pause := time.Duration(delay * float64(time.Second))
		if delay > 0 && (i+1)%batch == 0 {
			pause += 2 * time.Second
		}
		return pause
	}, nil
}
