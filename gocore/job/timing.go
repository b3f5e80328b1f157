package job

import (
	"fmt"
	"log/slog"
	"os"

	"dynosim/gocore/cachetrace"
	"dynosim/gocore/deploy"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
)

// models say how long the passes of each pool take.
type models struct {
	prefill, decode timing.Model    // decode is also that of a single pool; nil is the polynomial
	name            string          // for the report
	asked           []*timing.Asked // those of them that are in Python
}

// err returns the error of a model in Python, nil for none.
func (m models) err() error {
	for _, one := range m.asked {
		if err := one.Err(); err != nil {
			return fmt.Errorf("timing_model: %w", err)
		}
	}
	return nil
}

// toldModels returns the models of a deployment whose timing model is in Python: each pool has one, as ranks and roles
// differ.
func toldModels(d deployment, m *Monitor) (models, error) {
	found := models{name: d.timing}
	for i, pool := range d.inOrder() {
		stage := ""
		if d.disaggregated {
			stage = []engine.Role{engine.Prefill, engine.Decode}[i].String()
		}
		one, err := (&timing.Remote{Ask: m.Ask, Stage: stage}).Model(pool.Args.SharingRanks())
		if err != nil {
			return models{}, fmt.Errorf("timing_model: %w", err)
		}
		found.asked, found.prefill, found.decode = append(found.asked, one), found.decode, one
	}
	return found, nil
}

func loadModels(d deployment, s *sdk, monitor *Monitor) (models, error) {
	if d.timing != "" {
		return toldModels(d, monitor)
	}
	var m models
	var err error
	if !d.disaggregated {
		m.decode, m.name, err = loadModel("extra_engine_args", d.args, s)
		return m, err
	}
	var other string
	if m.prefill, m.name, err = loadModel("prefill_engine_args", d.prefill, s); err != nil {
		return m, err
	}
	if m.decode, other, err = loadModel("decode_engine_args", d.args, s); err != nil {
		return m, err
	}
	if other != m.name {
		m.name = fmt.Sprintf("%s (prefill), %s (decode)", m.name, other)
	}
	return m, nil
}

// loadModel finds the model that the engine arguments in option ask for, and its name.
func loadModel(option string, args engineargs.Args, s *sdk) (timing.Model, string, error) {
	if args.AIC.Backend != "" {
		model, name, err := s.timingModel(option, args)
		return model, name, err
	}
	model, err := deploy.Model(option, args)
	return model, args.TimingModel, err
}

// setup returns what the engine of a worker gets besides its arguments. Prefill workers draft no tokens.
func (m models) setup(d deployment) func(engine.Role, int) engine.Setup {
	trace, commons := cacheTrace(), &engine.Commons{}
	return func(role engine.Role, worker int) engine.Setup {
		if role == engine.Prefill {
			return engine.Setup{Model: m.prefill, Trace: cachetrace.New(trace, d.prefill, 0)}
		}
		return engine.Setup{
			Model: m.decode, Trace: cachetrace.New(trace, d.args, 0), Drafts: d.args.NewDrafts(worker, 0),
			Commons: commons,
		}
	}
}

// cacheTrace returns where the changes of caches are logged, nil if that is not asked for.
func cacheTrace() *slog.Logger {
	if !cachetrace.Wanted(os.Getenv(cachetrace.Variable)) {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
