package job

import (
	"errors"
	"fmt"
	"sync"

	"dynosim/gocore/aic"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
)

// sdk is what a run has to do with the AIC SDK: it opens the sessions that the run needs, estimates pools, and predicts
// durations. Whoever started the run answers; see Monitor.Ask.
type sdk struct {
	client   aic.Client
	sessions map[aic.Config]*session
	models   []*timing.Asked
	router   *estimator // nil if the router does without
	warnings []string
}

// session is one that this run has opened.
type session struct {
	aic.Session
	client aic.Client
	model  *timing.Asked // shared by the workers of both pools; nil if no worker wants it
}

var errNobodyToAsk = errors.New("AIC predictions come from Python: start the run with the Python package")

func newSDK(m *Monitor) *sdk {
	s := &sdk{client: aic.Client{Ask: m.Ask}, sessions: map[aic.Config]*session{}}
	if m.Ask == nil {
		s.client.Ask = func(string) (string, error) { return "", errNobodyToAsk }
	}
	return s
}

// open returns the session of a config, which an option of the run describes.
func (s *sdk) open(option string, config aic.Config) (*session, error) {
	if opened, ok := s.sessions[config]; ok {
		return opened, nil
	}
	answer, err := s.client.Open(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	if config.Version == "" && answer.Config.Version != config.DefaultVersion() {
		s.warnings = append(s.warnings, fmt.Sprintf("%s: aic_backend_version is %s, as aiconfigurator %s does not offer %s for %s on %s",
			option, answer.Config.Version, answer.Release, config.DefaultVersion(), config.Backend, config.System))
	}
	opened := &session{Session: answer, client: s.client}
	s.sessions[config] = opened
	return opened, nil
}

// withPool estimates the size of a pool that option leaves open. One simulated engine stands for all attention data-parallel
// ranks and has the blocks of all.
func (s *sdk) withPool(option string, args engineargs.Args) (engineargs.Args, error) {
	if args.Capacity == (aic.Capacity{}) {
		return args, nil
	}
	session, err := s.open(option, args.AIC)
	if err != nil {
		return args, err
	}
	blocks, err := s.client.PoolBlocks(session.Session, args.Capacity)
	if err == nil {
		args, err = args.WithPool(blocks * args.AIC.AttentionDP)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", option, err)
	}
	return args, err
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

// timingModel is the model of engines whose arguments, in option, name a session.
func (s *sdk) timingModel(option string, config aic.Config) (*session, error) {
	session, err := s.open(option, config)
	if err == nil && session.model == nil {
		session.model = timing.NewAsked(config.AttentionDP, session.predict)
		s.models = append(s.models, session.model)
	}
	return session, err
}

// err says why the run cannot go on, nil if it can.
func (s *sdk) err() error {
	for _, model := range s.models {
		if err := model.Err(); err != nil {
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
	session *session
	failed  int   // predictions that the SDK refused
	failure error // the first of them
	broken  error // the SDK does not answer any more
}

// routerEstimator is that of the session that option describes.
func (s *sdk) routerEstimator(option string, config aic.Config) (*estimator, error) {
	session, err := s.open(option, config)
	if err != nil {
		return nil, err
	}
	s.router = &estimator{session: session}
	return s.router, nil
}

// estimate is a [router.Estimate]. Without a prediction, the load of a prompt does not shrink; that is worth a warning.
func (e *estimator) estimate(uncached, prefix int) (ns int64, ok bool) {
	if e.broken != nil {
		return 0, false
	}
	question := timing.Question{Kind: timing.Prefill, Batch: 1, Tokens: uncached, Prefix: prefix}
	answers, err := e.session.predict([]timing.Question{question})
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
	return []string{fmt.Sprintf("aic_perf_config: %d durations could not be predicted: such prompts count in full until they are computed; the first: %v",
		s.router.failed, s.router.failure)}
}

// predict answers questions from memory where it can, and remembers what the SDK says about the rest.
func (s *session) predict(questions []timing.Question) ([]timing.Answer, error) {
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

// predictions of sessions are kept for the life of the process: whoever compares configurations asks the same again.
var predictions = memory{known: map[remembered]float64{}}

// memory holds predictions, up to a limit beyond which it forgets everything. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	known map[remembered]float64
}

type remembered struct {
	session  int
	question timing.Question
}

// memoryLimit keeps a process below some 200 MB of predictions.
const memoryLimit = 2_000_000

// lookup returns room for all answers with the known ones in place, and the indices of the others.
func (m *memory) lookup(session int, questions []timing.Question) (answers []timing.Answer, unknown []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers = make([]timing.Answer, len(questions))
	for i, q := range questions {
		ms, ok := m.known[remembered{session, q}]
		if !ok {
			unknown = append(unknown, i)
			continue
		}
		answers[i].Ms = ms
	}
	return answers, unknown
}

func (m *memory) remember(session int, questions []timing.Question, answers []timing.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) > memoryLimit {
		clear(m.known)
	}
	for i, q := range questions {
		if answers[i].Err == nil {
			m.known[remembered{session, q}] = answers[i].Ms
		}
	}
}
