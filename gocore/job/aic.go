package job

import (
	"fmt"

	"dynosim/gocore/aic"
	"dynosim/gocore/aic/session"
	"dynosim/gocore/calibration"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// sdk is the side of a run that talks to the AIC SDK: it opens the sessions that the run needs, estimates pools, and
// predicts durations. Answers come from the caller of the run, see Monitor.Ask.
type sdk struct {
	sessions *session.Set
	models   []model
	router   *estimator // nil if the router needs no predictions
}

// model predicts passes. It is shared by the workers of both pools.
type model struct {
	*timing.Asked
	session *session.Session
	ranks   int // that share the requests of an engine
	grid    bool
}

func newSDK(m *Monitor) *sdk {
	return &sdk{sessions: session.NewSet(m.Ask)}
}

// withPool estimates the size of the KV pool if the engine arguments in option do not give it. One simulated engine may
// stand for all attention data-parallel ranks, and has the blocks of all.
func (s *sdk) withPool(option string, args engineargs.Args) (engineargs.Args, error) {
	sized, err := s.sessions.WithPool(option, args, args.SharingRanks())
	return sized, calibration.Advised(err, args)
}

// sizePools estimates the KV pools that the user has left to the SDK.
func (s *sdk) sizePools(d deployment) (deployment, error) {
	var err error
	if !d.disaggregated {
		d.args, err = s.withPool("extra_engine_args", d.args)
		return d, err
	}
	if d.prefill, err = s.withPool("prefill_engine_args", d.prefill); err != nil {
		return d, err
	}
	d.args, err = s.withPool("decode_engine_args", d.args)
	return d, err
}

// sizeHost makes a tier of host memory whole that the user has described in bytes: the SDK knows those of a token.
// Where they only say how many bytes have moved, nothing fails without them.
func (s *sdk) sizeHost(d deployment) (deployment, error) {
	a := &d.args
	if !a.HostCache.Asked() || a.HostCache.TokenBytes > 0 || a.AIC.Backend == "" ||
		a.VLLM.Groups.Beside > 0 { // the SDK knows the bytes of all groups together
		return d, nil
	}
	opened, err := s.sessions.OfMemory("extra_engine_args", *a)
	if err != nil {
		return d, err
	}
	bytes, err := opened.KVBytes()
	switch {
	case err == nil && bytes > 0:
		return d, a.SizeHost(bytes)
	case !a.HostCache.Unsized():
		return d, nil
	case err == nil:
		err = &strictjson.FieldError{
			Field: "kv_bytes_per_token", Got: "nothing",
			Want: "the bytes of a token's KV, which the AIC SDK does not know of this model",
		}
	}
	return d, err
}

// timingModel returns the model of engines whose arguments, in option, name a session; and its name.
func (s *sdk) timingModel(option string, args engineargs.Args) (*timing.Asked, string, error) {
	opened, err := s.sessions.OfDurations(option, args)
	if err != nil {
		return nil, "", calibration.Advised(err, args)
	}
	ranks := args.SharingRanks()
	for _, m := range s.models {
		if m.session == opened && m.ranks == ranks && m.grid == args.AICGrid {
			return m.Asked, opened.Name(args.AICGrid), nil
		}
	}
	asked := timing.NewAsked(ranks, opened.Predictions(args.AICGrid))
	asked.Experts = opened.Experts
	s.models = append(s.models, model{asked, opened, ranks, args.AICGrid})
	return asked, opened.Name(args.AICGrid), nil
}

// err says why the run cannot go on, nil if it can.
func (s *sdk) err() error {
	for _, m := range s.models {
		if err := m.Err(); err != nil {
			return fmt.Errorf("AIC: %w", err)
		}
	}
	if s.router != nil && s.router.broken != nil {
		return fmt.Errorf("AIC: %w", s.router.broken)
	}
	return nil
}

// estimator tells a router how long prompts take.
type estimator struct {
	session *session.Session
	failed  int   // predictions that the SDK refused
	failure error // the first of them
	broken  error // why the SDK has stopped answering
}

// routerEstimator returns the estimator for the session that option describes.
func (s *sdk) routerEstimator(option string, config aic.Config) (*estimator, error) {
	opened, err := s.sessions.Open(option, config)
	if err != nil {
		return nil, err
	}
	s.router = &estimator{session: opened}
	return s.router, nil
}

// estimate returns a [router.Estimate]. Without a prediction, the load of a prompt does not shrink; that is worth a
// warning.
func (e *estimator) estimate(uncached, prefix int) (ns int64, ok bool) {
	if e.broken != nil {
		return 0, false
	}
	question := timing.Question{Kind: timing.Prefill, Batch: 1, Tokens: uncached, Prefix: prefix}
	answers, err := e.session.Predict([]timing.Question{question})
	switch {
	case err != nil:
		e.broken = fmt.Errorf("%v: %w", question, err)
		return 0, false
	case answers[0].Err != nil:
		if e.failed++; e.failed == 1 {
			e.failure = fmt.Errorf("%v: %w", question, answers[0].Err)
		}
		return 0, false
	}
	return timing.Nanos(max(0, answers[0].Ms) / 1000), true
}

// finalWarnings tells, after the run, of prompts whose duration could not be predicted.
func (s *sdk) finalWarnings() []string {
	if s.router == nil || s.router.failed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("aic_perf_config: %d durations could not be predicted: such prompts count in full "+
		"until they are computed; the first: %v",
		s.router.failed, s.router.failure)}
}
