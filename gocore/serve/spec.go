package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"time"

	"dynosim/gocore/cachetrace"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/live"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/strictjson"
)

// Spec describes a process of live workers: every option and every environment variable with its type and its default.
// [Parse] has checked it as far as that is possible without the model, the AIC SDK and other processes. No later stage
// looks at the JSON text or at the environment again.
type Spec struct {
	args    engineargs.Args
	workers workersSpec
	planes  planesSpec
	model   modelSpec

	standardOutput int    // tokens of an answer if the request asks for no number
	seed           uint64 // decides which tokens are drawn
	traceCache     bool   // whether changes of caches are logged
	status         statusSpec
	timeline       string // a file, "" for none
	log            logSpec
	// warnings are those of the engine arguments, and of options that have no effect.
	warnings []string
}

// workersSpec says which workers there are and how they start and end. Lists of ports have one for each worker, or are
// nil.
type workersSpec struct {
	count                    int
	pause                    func(i int) time.Duration // how long to wait after the launch of worker i
	drain                    time.Duration             // how long requests may take after the process was asked to end
	endpoint                 discovery.Endpoint
	device                   string // "cuda" or "cpu", as records have it
	eventsPorts, replayPorts []int
	bootstrapPorts           []int
}

// planesSpec says how the process talks to others, and where they find it.
type planesSpec struct {
	requests       live.RequestPlane
	events         live.EventPlane
	kvEventLag     time.Duration // until events are sent
	durable        bool          // KV events go to a stream that keeps them
	nats           *bus.Config   // nil if nothing goes over NATS
	limits         plane.Limits
	maxMessageSize int // of requests, in bytes
	detail         plane.Detail
	addresses      addressSpec
	discovery      backend
	warnings       []string // of the discovery backend, and of options without effect
}

// modelSpec says which model is served.
type modelSpec struct {
	path  string // a folder, or a name in the Hugging Face cache
	name  string // under which it is served
	cache string // the folder of the Hugging Face cache
	// release is that of the workers whose cards a frontend must find equal to that of these: "1.6" or "1.3".
	release string
	// kvType is the data type of the KV cache, if transfers take the size of a token's KV from the model; else "".
	kvType string
}

// Parse reads the description of a process: a JSON object with the options of python -m dynamo.mocker, and a list of
// environment variables as NAME=VALUE. It reads the file with engine arguments and tries the address to listen at.
func Parse(text string) (*Spec, error) {
	text, env, err := withDefaults(text)
	if err != nil {
		return nil, err
	}
	o, err := decode(text)
	if err != nil {
		return nil, err
	}
	s := &Spec{standardOutput: o.Int("default_max_tokens"), seed: o.Uint("seed"), timeline: o.Text("timeline"),
		log: env.logging()}
	if s.args, s.warnings, err = engineArguments(o); err != nil {
		return nil, err
	}
	s.warnings = append(s.warnings, unread(o, byWorkers, "without standalone or frontend")...)
	s.parseTrace(env)
	if s.workers, err = parseWorkers(o, env, s.args); err != nil {
		return nil, err
	}
	if s.planes, err = parsePlanes(o, env, s.args); err != nil {
		return nil, err
	}
	if s.status, err = parseStatus(env, s.planes.addresses.listen); err != nil {
		return nil, err
	}
	s.model, err = parseModel(o, env, s.args)
	return s, err
}

// parseTrace finds out whether the environment asks for a log of what caches do.
func (s *Spec) parseTrace(env environment) {
	value := env[cachetrace.Variable]
	s.traceCache = cachetrace.Wanted(value)
	if text := cachetrace.Warning(value, s.args); text != "" {
		s.warnings = append(s.warnings, text)
	}
}

func parseWorkers(o *strictjson.Object, env environment, args engineargs.Args) (w workersSpec, err error) {
	w.count, w.device = o.Int("num_workers"), env.device()
	if w.drain, err = env.drainTimeout(); err != nil {
		return w, err
	}
	if w.pause, err = pauses(o); err != nil {
		return w, err
	}
	if err := w.parsePorts(o, args); err != nil {
		return w, err
	}
	w.endpoint, err = discovery.ParseEndpoint(o.Text("endpoint"), discovery.Endpoint{
		Namespace: env.namespace(), Component: components[args.Role], Name: "generate",
	})
	if err != nil {
		return w, fmt.Errorf("endpoint: %w", err)
	}
	return w, nil
}

// components are where workers are by default.
var components = map[engine.Role]string{
	engine.Aggregated: "backend", engine.Prefill: "prefill", engine.Decode: "backend",
}

// parsePorts reads the lists of ports, and takes ports of the engine arguments where there is no list.
func (w *workersSpec) parsePorts(o *strictjson.Object, args engineargs.Args) (err error) {
	if w.eventsPorts, err = ports(o, "zmq_kv_events_ports", args.Live.Ranks, o.Int("num_workers")); err != nil {
		return err
	}
	if w.replayPorts, err = ports(o, "zmq_replay_ports", args.Live.Ranks, o.Int("num_workers")); err != nil {
		return err
	}
	bootstrap, err := ports(o, "bootstrap_ports", 1, o.Int("num_workers"))
	if err != nil {
		return err
	}
	if args.Role == engine.Prefill {
		w.bootstrapPorts = bootstrap
	}
	if err := w.takePorts(args); err != nil {
		return err
	}
	switch {
	case w.replayPorts != nil && w.eventsPorts == nil:
		return errors.New("zmq_replay_ports: requires zmq_kv_events_ports")
	case w.eventsPorts != nil && !args.PrefixCaching:
		return errors.New("zmq_kv_events_ports: there are no KV events without enable_prefix_caching")
	}
	return nil
}

// takePorts takes ports over from a file of engine arguments, which can only be meant for one worker.
func (w *workersSpec) takePorts(args engineargs.Args) error {
	a := args.Live
	for _, f := range []struct {
		name  string
		given bool
		port  int
		into  *[]int
	}{
		{"zmq_kv_events_port", a.EventsPort != 0, a.EventsPort, &w.eventsPorts},
		{"zmq_replay_port", a.ReplayPort != 0, a.ReplayPort, &w.replayPorts},
		{"bootstrap_port", a.Bootstrap && args.Role == engine.Prefill, a.BootstrapPort, &w.bootstrapPorts},
	} {
		if !f.given || *f.into != nil {
			continue
		}
		if w.count > 1 && f.port != 0 {
			return fmt.Errorf("%s: got %d for %d workers, want %ss with one for each", f.name, f.port, w.count, f.name)
		}
		*f.into = slices.Repeat([]int{f.port}, w.count)
	}
	return nil
}

func parsePlanes(o *strictjson.Object, env environment, args engineargs.Args) (p planesSpec, err error) {
	switch o.Text("request_plane") {
	case "http":
		p.requests = live.RequestsOverHTTP
	case "nats":
		p.requests = live.RequestsOverNATS
	}
	if p.addresses, err = parseAddresses(o, env, p.requests); err != nil {
		return p, err
	}
	if err := p.parseNATS(o, env, args); err != nil {
		return p, err
	}
	p.kvEventLag = time.Duration(o.Float("kv_event_lag_ms") * float64(time.Millisecond))
	if o.Int("num_workers")*args.Live.Ranks > o.Int("max_worker_histograms") {
		p.detail = plane.PerModel
	}
	if p.limits, err = env.limits(); err != nil {
		return p, err
	}
	if p.maxMessageSize, err = env.number("DYN_TCP_MAX_MESSAGE_SIZE", plane.StandardMaxMessageSize, 1024,
		math.MaxInt32); err != nil {
		return p, err
	}
	p.discovery, p.warnings, err = parseDiscovery(o.Text("discovery_backend"), env)
	if p.kvEventLag > 0 && !(args.PrefixCaching && args.Role != engine.Decode) {
		p.warnings = append(p.warnings, "kv_event_lag_ms has no effect: workers that decode only or do not cache "+
			"prefixes tell routers nothing of their caches")
	}
	return p, err
}

// parseNATS finds out what a NATS server is needed for.
func (p *planesSpec) parseNATS(o *strictjson.Object, env environment, args engineargs.Args) error {
	if o.Text("event_plane") == "nats" {
		p.events = live.EventsOverNATS
	}
	p.durable = o.Bool("durable_kv_events") && args.PrefixCaching && args.Role != engine.Decode
	if p.requests != live.RequestsOverNATS && p.events != live.EventsOverNATS && !p.durable {
		return nil
	}
	config, err := bus.FromEnvironment(env.get)
	if err == nil {
		err = config.Check()
	}
	p.nats = &config
	return err
}

func parseModel(o *strictjson.Object, env environment, args engineargs.Args) (modelSpec, error) {
	m := modelSpec{path: o.Text("model_path"), name: o.Text("model_name"), cache: card.HubCache(env.get),
		release: o.Text("dynamo_release")}
	if m.path == "" {
		return m, &strictjson.FieldError{Field: "model_path", Got: "nothing",
			Want: "the folder of the model, or its name in the Hugging Face cache"}
	}
	if m.name == "" {
		m.name = m.path
	}
	if args.Role == engine.Prefill && args.Transfer.BytesPerToken == 0 && !o.Given(besideFile) {
		m.kvType = o.Text("kv_cache_dtype")
	}
	return m, nil
}

// logSpec says what is logged, and how.
type logSpec struct {
	level slog.Level
	json  bool
}

// open returns a logger that writes to standard error.
func (l logSpec) open() *slog.Logger {
	o := &slog.HandlerOptions{Level: l.level}
	if l.json {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}
