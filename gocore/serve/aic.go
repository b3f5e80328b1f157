package serve

import (
	"errors"
	"fmt"

	"dynosim/gocore/aic/session"
	"dynosim/gocore/calibration"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/guard"
	"dynosim/gocore/live"
	"dynosim/gocore/strictjson"
)

// aicArguments returns the engine arguments that the options about AIC set, nil without aic_perf_model.
func aicArguments(o *strictjson.Object) map[string]any {
	if !o.Bool("aic_perf_model") {
		return nil
	}
	backend := "vllm"
	if o.Given("engine_type") {
		backend = o.Text("engine_type")
	}
	arguments := map[string]any{"aic_backend": backend, "aic_model_path": o.Text("model_path")}
	for _, opt := range options {
		if opt.aic && o.Given(opt.Name) {
			arguments[opt.Name] = valueOf(o, opt)
		}
	}
	return arguments
}

// loadTiming finds out how long passes take, and how large the KV pool of a rank is if that follows from it. Each rank
// asks by itself: it stands for one attention data-parallel rank.
func (in *inputs) loadTiming(stop *Stop, ask Ask) error {
	const option = "engine arguments"
	var words string
	var err error
	if in.args, words, err = calibration.Calibrate(option, in.args); err != nil {
		return err
	}
	if words != "" {
		in.warnings = append(in.warnings, words)
	}
	if in.args.AIC.Backend == "" {
		return in.loadProfile(option)
	}
	starting := session.NewSet(ask.before(stop))
	opened, err := starting.OfDurations(option, in.args)
	if err == nil {
		in.args, err = starting.WithPool(option, in.args, 1)
	}
	if err == nil && in.args.HostCache.Unsized() {
		err = sizeHost(option, &in.args, starting)
	}
	if err != nil {
		return calibration.Advised(err, in.args)
	}
	in.warnings = append(in.warnings, starting.Warnings()...)
	in.predictor = fmt.Sprintf("%s; %d KV blocks for each rank", opened.Name(in.args.AICGrid), in.args.NumGPUBlocks)
	in.predict = live.Predictor{Ask: opened.Through(ask).Predictions(in.args.AICGrid), Experts: opened.Experts}
	return nil
}

// sizeHost makes a tier of host memory whole that is described in bytes.
func sizeHost(option string, args *engineargs.Args, starting *session.Set) error {
	opened, err := starting.OfMemory(option, *args)
	if err != nil {
		return err
	}
	bytes, err := opened.KVBytes()
	if err == nil && bytes <= 0 {
		err = &strictjson.FieldError{
			Field: "kv_bytes_per_token", Got: "nothing",
			Want: "the bytes of a token's KV, which the AIC SDK does not know of this model",
		}
	}
	if err != nil {
		return err
	}
	return args.SizeHost(bytes)
}

// errStopped ends a process that was asked to end before it served requests.
var errStopped = errors.New("stopped before any request was served")

// Ask gets the answer to a question for the AIC SDK, see package aic. It may be called from any goroutine.
type Ask func(question string) (answer string, err error)

// before returns an Ask that waits no longer than until the process is to stop.
func (ask Ask) before(stop *Stop) Ask {
	type outcome struct {
		answer string
		err    error
	}
	return func(question string) (string, error) {
		if stop.drain.Err() != nil {
			return "", errStopped
		}
		over := make(chan outcome, 1)
		go guard.Func(func() {
			answer, err := ask(question)
			over <- outcome{answer, err}
		})()
		select {
		case o := <-over:
			if o.err != nil && stop.drain.Err() != nil { // the question may have failed because of the same stop
				return "", errStopped
			}
			return o.answer, o.err
		case <-stop.drain.Done():
			return "", errStopped
		}
	}
}
