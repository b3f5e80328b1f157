package serve

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/frontend"
	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/live"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/router"
	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/openai"
	"dynosim/gocore/server/tokens"
	"dynosim/gocore/strictjson"
)

// frontendSpec describes a process with --frontend: a server before live workers.
type frontendSpec struct {
	serverSpec
	workers   watcher
	answers   addresses // where workers connect to
	mode      routing.Mode
	rules     routing.Rules
	router    router.Config
	routing   servedModel // mode, settings and router in Python
	migration int
	standard  int
	marks     *answers.Marks
	folder    string // of the model, where that of a card does not exist
	cache     string // the folder of the Hugging Face cache
	python    string // that runs tokenizers
	helpers   int    // processes of it
	bus       func() (bus.Config, error)
}

// routingModes are the choices of router_mode.
var routingModes = map[string]routing.Mode{"round-robin": routing.RoundRobin, "random": routing.Random,
	"kv": routing.KV}

// routerRules are the choices of router_rules.
var routerRules = map[string]routing.Rules{"own": routing.OwnRules, "1.3": routing.Rules13, "1.6": routing.Rules16}

// parseFrontend reads the description of a frontend.
func parseFrontend(text string) (*frontendSpec, error) {
	given, err := decode(text)
	if err != nil {
		return nil, err
	}
	text, env, err := withDefaults(text)
	if err != nil {
		return nil, err
	}
	o, err := decode(text)
	if err != nil {
		return nil, err
	}
	s := &frontendSpec{
		rules: routerRules[o.Text("router_rules")], migration: o.Int("migration_limit"),
		standard: o.Int("default_max_tokens"),
		cache:    card.HubCache(env.get), python: o.Text("tokenizer_python"), helpers: o.Int("tokenizer_processes"),
		bus: func() (bus.Config, error) { return bus.FromEnvironment(env.get) },
	}
	s.warnings = unread(given, byFrontend, "with frontend")
	if err := s.parseHTTP(o, env); err != nil {
		return nil, err
	}
	if err := s.parseWorkers(o, env); err != nil {
		return nil, err
	}
	if err := s.parseRouting(o); err != nil {
		return nil, err
	}
	return s, s.parseModel(o)
}

// parseWorkers finds out where workers are found, and where they connect to.
func (s *frontendSpec) parseWorkers(o *strictjson.Object, env environment) error {
	workers, warnings, err := parseWatcher(o.Text("discovery_backend"), env)
	if err != nil {
		return err
	}
	s.workers = workers
	s.warnings = append(s.warnings, warnings...)
	spec, err := parseAddresses(o, env, live.RequestsOverTCP)
	if err != nil {
		return err
	}
	spec.variable, spec.requests = "DYN_TCP_RESPONSE_STREAM_HOST", env.host("DYN_TCP_RESPONSE_STREAM_HOST")
	if spec.port, err = env.number("DYN_TCP_RESPONSE_STREAM_PORT", 0, 0, 65535); err != nil {
		return err
	}
	if spec.requests != "" {
		spec.local = ""
	}
	s.answers = spec.find()
	s.warnings = append(s.warnings, s.answers.warnings...)
	return nil
}

func (s *frontendSpec) parseRouting(o *strictjson.Object) error {
	m := &s.routing
	m.seed = o.Uint("seed")
	if err := m.parseRouter(o); err != nil {
		return err
	}
	s.router = m.routing.Config
	s.warnings = append(s.warnings, m.warnings...)
	built := false
	if s.mode, built = routingModes[o.Text("router_mode")]; !built || m.asked != "" {
		s.mode = routing.Ruled
	}
	if s.mode == routing.Ruled && m.asked == "" {
		trial := router.Options{Config: m.routing.Config, Settings: m.routing.Settings, Workers: 1, BlockSize: 1,
			Blocks: 1, Rand: rand.New(rand.NewPCG(0, 0))}
		if _, elastic := m.routing.Mode.New(trial).(router.Elastic); !elastic {
			return &strictjson.FieldError{Field: "router_mode", Got: o.Shown("router_mode"),
				Want: "a mode for workers that come and go, which this one is not"}
		}
	}
	return nil
}

// rule makes the routers of pools of live workers.
func (s *frontendSpec) rule(ask Ask) routing.Rule {
	m := &s.routing
	return routing.Rule{
		UsesEvents: m.routing.Mode.UsesEvents || m.routing.Mode.Asks,
		Make: func(name string, o router.Options) router.Elastic {
			o.Settings = m.routing.Settings
			if m.asked != "" {
				o.Decider = &router.Remote{Ask: ask, Of: name, Make: m.asked, Settings: m.settings}
			}
			return m.routing.Mode.New(o).(router.Elastic)
		},
	}
}

func (s *frontendSpec) parseModel(o *strictjson.Object) (err error) {
	if path := o.Text("model_path"); path != "" {
		if s.folder, err = modelFolder(path, s.cache, ""); err == nil {
			s.folder, err = filepath.Abs(s.folder)
		}
		if err != nil {
			return err
		}
	}
	if text := o.Text("reasoning"); text != "" {
		args, _, err := engineargs.ParseLive(`{"reasoning":` + text + `}`)
		if err != nil {
			return err
		}
		if r := args.Live.Reasoning; r != nil {
			s.marks = &answers.Marks{Begin: r.StartToken, End: r.EndToken}
		}
	}
	return nil
}

// runFrontend serves until stop.
func runFrontend(text string, stop *Stop, ask Ask) error {
	spec, err := parseFrontend(text)
	if err != nil {
		return err
	}
	if spec.routing.asked != "" {
		if _, err := ask(router.IsThere); err != nil {
			return fmt.Errorf("router: got %q, want it left out: this program has no Python", spec.routing.asked)
		}
	}
	log := spec.log.open()
	for _, w := range spec.warnings {
		log.Warn(w)
	}
	found, err := spec.workers.watch(stop.drain, log)
	if err != nil {
		if stop.drain.Err() != nil {
			return nil
		}
		return runError{err}
	}
	defer found.close()
	caller, err := plane.ListenForAnswers(spec.answers.listen, spec.answers.host)
	if err != nil {
		return fmt.Errorf("the address for answers of workers: %w", err)
	}
	defer caller.Close()
	return spec.serve(found, caller, ask, log, stop)
}

// serve opens the socket, follows the workers and waits for the end.
func (s *frontendSpec) serve(found *watched, caller *plane.Caller, ask Ask, log *slog.Logger, stop *Stop) error {
	registry := newRegistry()
	config := s.http(log, registry)
	config.Discovers = true
	server := openai.New(config)
	failed := make(chan error, 1)
	f := frontend.Start(frontend.Config{
		Records: found.records, Interval: found.interval, Changed: found.changed, Caller: caller,
		Bus:  s.connectBus(log),
		Mode: s.mode, Rule: s.rule(ask), Rules: s.rules, Patience: patience, Router: s.router, Seed: s.router.Seed,
		MigrationLimit: s.migration, Standard: s.standard,
		Folder: func(c *card.Card) (string, error) { return c.Folder(s.folder, s.cache) },
		Tokenizer: func(folder string) (tokens.Tokenizer, error) {
			return tokens.OpenFolder(s.python, folder, s.helpers, false, log)
		},
		Served: &servedModels{server: server, marks: s.marks, models: map[string]*openai.Model{}}, Log: log,
		Failed: func(err error) {
			select {
			case failed <- err:
			default: // only the first failure is reported
			}
		},
	})
	defer f.Close()
	return s.answer(server, failed, log, stop)
}

// patience is how long the KV events of a worker may not be heard before the log says so.
const patience = 5 * time.Second

// connectBus connects to the NATS server.
func (s *frontendSpec) connectBus(log *slog.Logger) func() (*bus.Conn, error) {
	return func() (*bus.Conn, error) {
		config, err := s.bus()
		if err == nil {
			err = config.Check()
		}
		if err != nil {
			return nil, err
		}
		return bus.Connect(config, log)
	}
}

// servedModels shows models of a frontend to clients; it implements [frontend.Served].
type servedModels struct {
	server *openai.Server
	marks  *answers.Marks
	models map[string]*openai.Model
}

// unlimited is the length of sequences of a model that names none.
const unlimited = 1 << 30

// Add implements [frontend.Served].
func (s *servedModels) Add(m frontend.Model) {
	length := m.MaxLength
	if length == 0 {
		length = unlimited
	}
	shown := &openai.Model{Name: m.Name, Tokenizer: m.Tokenizer, EndTokens: m.EndTokens, MaxLength: length,
		Backend: m.Backend, Marks: s.marks}
	s.models[m.Name] = shown
	s.server.Add(shown)
}

// Remove implements [frontend.Served].
func (s *servedModels) Remove(name string) {
	s.server.Remove(s.models[name])
	delete(s.models, name)
}

// Adapters implements [frontend.Served].
func (s *servedModels) Adapters(name string, adapters []string) { s.models[name].SetAdapters(adapters) }
