package serve

import (
	"errors"
	"fmt"

	"dynosim/gocore/aic/session"
	"dynosim/gocore/job"
	"dynosim/gocore/live/guard"
	"dynosim/gocore/strictjson"
)

// errStopped ends a process that was asked to before it had begun to serve.
var errStopped = errors.New("stopped before anybody was served")

// Ask gets the answer to a question for the AIC SDK, see package aic. It may be called from any goroutine.
type Ask func(question string) (answer string, err error)

// before is an Ask that waits no longer than until the process is to stop.
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
			return o.answer, o.err
		case <-stop.drain.Done():
			return "", errStopped
		}
	}
}

// aicArguments are the engine arguments that the options about AIC amount to, nil without aic_perf_model.
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

// parseTiming finds out how long passes take, and how large the KV pool of a rank is if that follows from it. Each rank asks
// by itself: it stands for one attention data-parallel rank.
func (p *plan) parseTiming(ask Ask, stop *Stop) (err error) {
	const option = "engine arguments"
	c := &p.config
	var words string
	if c.Args, words, err = job.Calibrate(option, c.Args); err != nil {
		return err
	}
	if words != "" {
		p.warnings = append(p.warnings, words)
	}
	if c.Args.AIC.Backend == "" {
		c.Timing, err = job.LoadModel(option, c.Args)
		return err
	}
	starting := session.NewSet(ask.before(stop))
	opened, err := starting.Open(option, c.Args.AIC)
	if err == nil {
		c.Args, err = starting.WithPool(option, c.Args, 1)
	}
	if err != nil {
		return err
	}
	p.warnings = append(p.warnings, starting.Warnings()...)
	p.timing = fmt.Sprintf("%s; %d KV blocks for each rank", opened.Config.Name(), c.Args.NumGPUBlocks)
	c.Predict = opened.Through(ask).Predict
	return nil
}
