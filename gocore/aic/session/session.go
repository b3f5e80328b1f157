// Package session keeps the AIC sessions of one run, or of one process of live workers: it opens each once, estimates
// KV pools, and remembers what the SDK has predicted.
//
// Predictions are kept for the life of the process, for all that ask: runs that compare configurations ask the same
// again. They may be asked for from any goroutine; opening is for one.
package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dynosim/gocore/aic"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/models"
	"dynosim/gocore/timing"
)

// Set is the sessions that have been opened.
type Set struct {
	client   aic.Client
	opened   map[aic.Config]*Session
	warnings []string
}

// Session predicts for one model on its GPUs.
type Session struct {
	aic.Session
	client aic.Client
}

var errNoAnswers = errors.New("AIC predictions come from Python: start the run with the Python package")

// NewSet returns an empty set. ask gets the answer to a question of package aic; without it there are none.
func NewSet(ask func(question string) (answer string, err error)) *Set {
	if ask == nil {
		ask = func(string) (string, error) { return "", errNoAnswers }
	}
	return &Set{client: aic.Client{Ask: ask}, opened: map[aic.Config]*Session{}}
}

// Open returns the session of a config. option says where that comes from, for errors and warnings.
func (s *Set) Open(option string, config aic.Config) (*Session, error) {
	if opened, ok := s.opened[config]; ok {
		return opened, nil
	}
	answer, err := s.client.Open(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	if answer.Alias != "" {
		s.warnings = append(s.warnings, fmt.Sprintf("%s: aic_model_path: the AIC SDK knows %s as %s", option,
			config.Model, answer.Alias))
	}
	opened := &Session{Session: answer, client: s.client}
	s.opened[config] = opened
	return opened, nil
}

// OfDurations opens the session that predicts durations. If the SDK has no measurements of the kernels that a profile
// was fitted with, on this number of GPUs for example, it opens that of the engine's own kernels and adds a warning.
func (s *Set) OfDurations(option string, args engineargs.Args) (*Session, error) {
	opened, err := s.Open(option, args.Predictor())
	if err == nil || args.Kernels.Backend == "" {
		return opened, err
	}
	reason := strings.TrimPrefix(err.Error(), option+": ")
	if !lacksPredictions(option, err) {
		return nil, fmt.Errorf("%s: calibration: kernels: %s", option, reason)
	}
	missing := fmt.Sprintf("%s: calibration: durations are of the engine's own kernels, as there are none of those that "+
		"it was fitted with: %s", option, reason)
	if opened, err = s.Open(option, args.AIC); err == nil && !slices.Contains(s.warnings, missing) {
		s.warnings = append(s.warnings, missing)
	}
	return opened, err
}

// OfMemory opens the session that knows the memory of an engine. If the SDK has no measurements of its own kernels, it
// is that of the kernels that stand in, unless they are of another backend.
func (s *Set) OfMemory(option string, args engineargs.Args) (*Session, error) {
	opened, err := s.Open(option, args.AIC)
	if err == nil || args.Kernels.Backend != args.AIC.Backend || !lacksPredictions(option, err) {
		return opened, err
	}
	if instead, otherwise := s.Open(option, args.Kernels); otherwise == nil {
		return instead, nil
	}
	return nil, err
}

// lacksPredictions reports whether a session could not be opened as the SDK has too few measurements of the model.
func lacksPredictions(option string, err error) bool {
	return strings.HasPrefix(err.Error(), option+": aic_model_path: ")
}

// Warnings returns what the user should know, one line each.
func (s *Set) Warnings() []string { return s.warnings }

// WithPool estimates the size of a KV pool that engine arguments leave open: what ranks attention data-parallel ranks
// have together.
func (s *Set) WithPool(option string, args engineargs.Args, ranks int) (engineargs.Args, error) {
	if args.Capacity == (aic.Capacity{}) {
		return args, nil
	}
	session, err := s.OfMemory(option, args)
	if err != nil {
		return args, err
	}
	var blocks int
	var memory models.Memory
	if args.Capacity.ByEngine {
		blocks, memory, err = s.divide(session.Session, args, ranks)
	} else {
		blocks, err = s.client.PoolBlocks(session.Session, args.Capacity)
	}
	if err == nil {
		args, err = args.WithPool(args.Knobs.Pool(blocks * ranks))
		args.PoolMemory = memory
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", option, err)
	}
	return args, err
}

// Through returns the session for questions that go another way.
func (s *Session) Through(ask func(question string) (answer string, err error)) *Session {
	return &Session{Session: s.Session, client: aic.Client{Ask: ask}}
}

// KVBytes returns the size of a token's KV of the whole model, in bytes.
func (s *Session) KVBytes() (int, error) { return s.client.KVBytes(s.Session) }

// Predictions returns what answers questions, from any goroutine: for all shapes, or for a grid of them with straight
// lines between.
func (s *Session) Predictions(grid bool) func([]timing.Question) ([]timing.Answer, error) {
	if !grid {
		return s.Predict
	}
	var mu sync.Mutex
	between := timing.Between(s.Predict)
	return func(questions []timing.Question) ([]timing.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		return between(questions)
	}
}

// Name describes the session, and how it is asked, for reports.
func (s *Session) Name(grid bool) string {
	if grid {
		return s.Config.Name() + ", grid of shapes"
	}
	return s.Config.Name()
}

// Predict answers questions from memory where it can, and remembers what the SDK says about the rest.
func (s *Session) Predict(questions []timing.Question) ([]timing.Answer, error) {
	answers, unknown := predictions.lookup(s.ID, questions)
	if len(unknown) == 0 {
		return answers, nil
	}
	asked := make([]timing.Question, len(unknown))
	for i, at := range unknown {
		asked[i] = questions[at]
	}
	fresh, err := s.client.Predict(s.Session, asked)
	if err != nil {
		return nil, err
	}
	predictions.remember(s.ID, asked, fresh)
	for i, at := range unknown {
		answers[at] = fresh[i]
	}
	return answers, nil
}
