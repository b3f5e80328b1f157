package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"dynosim/gocore/cachetrace"
	"dynosim/gocore/engine"
	"dynosim/gocore/live"
	"dynosim/gocore/live/guard"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/strictjson"
)

// Stop asks a running process to end: by Drain after the requests that it has, by Kill at once.
type Stop struct {
	drain, kill             context.Context
	cancelDrain, cancelKill context.CancelFunc
}

// NewStop returns a Stop that has not been used.
func NewStop() *Stop {
	s := &Stop{}
	s.kill, s.cancelKill = context.WithCancel(context.Background())
	s.drain, s.cancelDrain = context.WithCancel(s.kill)
	return s
}

// Drain lets requests finish.
func (s *Stop) Drain() { s.cancelDrain() }

// Kill cuts them off.
func (s *Stop) Kill() { s.cancelKill() }

// runError is an error of a process that had begun to serve.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// Kind sorts an error of Run: "usage" for bad input, "notfound" for a file that does not exist, "failed" for a process that
// could not serve.
func Kind(err error) string {
	var failed runError
	switch {
	case errors.As(err, &failed):
		return "failed"
	case errors.Is(err, fs.ErrNotExist):
		return "notfound"
	}
	return "usage"
}

// plan is a description that has been checked.
type plan struct {
	config   live.Config
	env      environment
	registry *prometheus.Registry
	drain    time.Duration
	timing   string // what AIC predicts for, "" if it does not
	warnings []string
	close    func() // discovery, at the end
}

// Run serves what the description says, until stop. It logs to standard error.
// Questions for the AIC SDK go to ask. A panic in a goroutine of the workers ends them at once and is an error.
func Run(text string, stop *Stop, ask Ask) error {
	panics := make(chan error, 1)
	defer guard.Watch(func(err error) {
		select {
		case panics <- runError{err}:
		default: // the first one tells most
		}
		stop.Kill()
	})()
	err := run(text, stop, ask)
	select {
	case failed := <-panics:
		return failed
	default:
		return err
	}
}

func run(text string, stop *Stop, ask Ask) error {
	p, err := parse(text, stop, ask)
	switch {
	case errors.Is(err, errStopped):
		return nil
	case err != nil:
		return err
	}
	defer func() { p.close() }()
	for _, w := range p.warnings {
		p.config.Log.Warn(w)
	}
	if p.timing != "" {
		p.config.Log.Info("timing", "model", p.timing)
	}
	process, err := live.New(p.config)
	if err != nil {
		return runError{err}
	}
	status, err := startStatus(p.env, p.registry, process.Status)
	if err != nil {
		_ = process.Shutdown(stop.kill)
		return err
	}
	defer status.close()
	if status != nil {
		p.config.Log.Info("status server", "address", status.address)
	}
	return p.serve(process, stop)
}

// serve launches the workers and waits for the end.
func (p *plan) serve(process *live.Process, stop *Stop) error {
	err := process.Launch(stop.drain)
	if err == nil {
		p.config.Log.Info("launched", "workers", p.config.Workers, "model", p.config.ModelName, "endpoint", p.config.Endpoint)
		select {
		case <-stop.drain.Done():
		case err = <-process.Failed(): // all that launched, or one that could not
		}
	}
	ctx, cancel := context.WithTimeout(stop.kill, p.drain)
	defer cancel()
	if err != nil {
		cancel() // nothing is worth waiting for
	}
	if err = errors.Join(err, process.Shutdown(ctx)); err != nil {
		return runError{err}
	}
	return nil
}

func parse(text string, stop *Stop, ask Ask) (*plan, error) {
	text, env, err := withDefaults(text)
	if err != nil {
		return nil, err
	}
	o, err := decode(text)
	if err != nil {
		return nil, err
	}
	p := &plan{env: env, registry: prometheus.NewRegistry(), close: func() {}}
	c := &p.config
	c.Log = env.logger()
	c.Registry = p.registry
	p.registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	if c.Args, p.warnings, err = engineArguments(o); err != nil {
		return nil, err
	}
	p.traceCache()
	parseTiming := func(*strictjson.Object, environment) error { return p.parseTiming(ask, stop) }
	for _, step := range []func(*strictjson.Object, environment) error{
		p.parseWorkers, p.parsePlanes, p.parseRecorded, parseTiming, p.parseModel,
	} {
		if err := step(o, env); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// traceCache has changes of caches logged if the environment asks for that.
func (p *plan) traceCache() {
	value := p.env[cachetrace.Variable]
	if cachetrace.Wanted(value) {
		p.config.CacheTrace = p.config.Log
	}
	if text := cachetrace.Warning(value, p.config.Args); text != "" {
		p.warnings = append(p.warnings, text)
	}
}

func (p *plan) parseWorkers(o *strictjson.Object, env environment) (err error) {
	c := &p.config
	c.Workers = o.Int("num_workers")
	c.StandardOutput = o.Int("default_max_tokens")
	c.Seed = o.Uint("seed")
	c.Device = env.device()
	if p.drain, err = env.drainTimeout(); err != nil {
		return err
	}
	if c.Pause, err = pauses(o); err != nil {
		return err
	}
	if c.EventsPorts, err = ports(o, "zmq_kv_events_ports", c.Args.Live.Ranks); err != nil {
		return err
	}
	if c.ReplayPorts, err = ports(o, "zmq_replay_ports", c.Args.Live.Ranks); err != nil {
		return err
	}
	bootstrap, err := ports(o, "bootstrap_ports", 1)
	if err != nil {
		return err
	}
	if c.Args.Role == engine.Prefill {
		c.BootstrapPorts = bootstrap
	}
	if err := p.portsOfFile(); err != nil {
		return err
	}
	switch {
	case c.ReplayPorts != nil && c.EventsPorts == nil:
		return errors.New("zmq_replay_ports: requires zmq_kv_events_ports")
	case c.EventsPorts != nil && !c.Args.PrefixCaching:
		return errors.New("zmq_kv_events_ports: there are no KV events without enable_prefix_caching")
	}
	c.Endpoint, err = discovery.ParseEndpoint(o.Text("endpoint"), discovery.Endpoint{
		Namespace: env.namespace(), Component: components[c.Args.Role], Name: "generate",
	})
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	return nil
}

// components are where workers are by default.
var components = map[engine.Role]string{
	engine.Aggregated: "backend", engine.Prefill: "prefill", engine.Decode: "backend",
}

// portsOfFile takes over ports from a file of engine arguments, which can only be meant for one worker.
func (p *plan) portsOfFile() error {
	c := &p.config
	a := &c.Args.Live
	for _, f := range []struct {
		name  string
		given bool
		port  int
		into  *[]int
	}{
		{"zmq_kv_events_port", a.EventsPort != 0, a.EventsPort, &c.EventsPorts},
		{"zmq_replay_port", a.ReplayPort != 0, a.ReplayPort, &c.ReplayPorts},
		{"bootstrap_port", a.Bootstrap && c.Args.Role == engine.Prefill, a.BootstrapPort, &c.BootstrapPorts},
	} {
		if !f.given || *f.into != nil {
			continue
		}
		if c.Workers > 1 && f.port != 0 {
			return fmt.Errorf("%s: got %d for %d workers, want %ss with one for each", f.name, f.port, c.Workers, f.name)
		}
		*f.into = slices.Repeat([]int{f.port}, c.Workers)
	}
	return nil
}

func (p *plan) parsePlanes(o *strictjson.Object, env environment) (err error) {
	c := &p.config
	switch o.Text("request_plane") {
	case "http":
		c.Requests = live.RequestsOverHTTP
	case "nats":
		c.Requests = live.RequestsOverNATS
	}
	if err := p.parseAddresses(o, env); err != nil {
		return err
	}
	if err := p.parseNATS(o, env); err != nil {
		return err
	}
	c.Plane.Log = c.Log
	detail := plane.PerWorker
	if c.Workers*c.Args.Live.Ranks > o.Int("max_worker_histograms") {
		detail = plane.PerModel
	}
	c.Plane.Metrics = plane.NewMetrics(p.registry, detail)
	if c.Plane.Limits, err = env.limits(); err != nil {
		return err
	}
	if c.Plane.MaxMessageSize, err = env.number("DYN_TCP_MAX_MESSAGE_SIZE", plane.StandardMaxMessageSize, 1024, math.MaxInt32); err != nil {
		return err
	}
	return p.parseDiscovery(o, env)
}

func (p *plan) parseModel(o *strictjson.Object, env environment) error {
	path := o.Text("model_path")
	if path == "" {
		return &strictjson.FieldError{Field: "model_path", Got: "nothing", Want: "the folder of the model, or its name in the Hugging Face cache"}
	}
	folder, err := card.FindModel(path, env.get)
	if err != nil {
		return fmt.Errorf("model_path: %w", err)
	}
	c := &p.config
	c.ModelName = o.Text("model_name")
	if c.ModelName == "" {
		c.ModelName = path
	}
	orStandard := func(n, standard int) int {
		if n == math.MaxInt {
			return standard
		}
		return n
	}
	made, err := card.New(card.Model{
		Folder: folder, DisplayName: c.ModelName, BlockSize: c.Args.BlockSize, TotalKVBlocks: c.Args.NumGPUBlocks,
		MaxNumSeqs: orStandard(c.Args.MaxNumSeqs, 256), MaxNumBatchedTokens: orStandard(c.Args.MaxNumBatchedTokens, 8192),
		Ranks: c.Args.Live.Ranks, WorkerType: card.WorkerType(c.Args.Role.String()),
		LocalIndexer: c.Args.Live.LocalIndexer && c.Args.PrefixCaching && c.Args.Role != engine.Decode,
	})
	if err != nil {
		return fmt.Errorf("model_path: %w", err)
	}
	c.Card = made
	p.sizeTransfers(o, folder)
	c.Log.Debug("model card", "checksum", made.Checksum())
	return nil
}

// sizeTransfers takes the size of a token's KV from the model if nobody has said it.
func (p *plan) sizeTransfers(o *strictjson.Object, folder string) {
	t := &p.config.Args.Transfer
	if p.config.Args.Role != engine.Prefill || t.BytesPerToken != 0 || o.Given(besideFile) {
		return
	}
	n, err := card.KVBytesPerToken(folder, o.Text("kv_cache_dtype"))
	if err != nil {
		p.warnings = append(p.warnings, fmt.Sprintf("kv_bytes_per_token: %v; transfers take no time", err))
	}
	t.BytesPerToken = n
}

func (p *plan) parseRecorded(_ *strictjson.Object, _ environment) error {
	path := p.config.Args.Live.ResponseReplay
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("response_replay_trace_path: %w", err)
	}
	defer func() { _ = f.Close() }()
	if p.config.Recorded, err = live.ReadRecorded(f); err != nil {
		return fmt.Errorf("response_replay_trace_path: %s: %w", path, err)
	}
	return nil
}
