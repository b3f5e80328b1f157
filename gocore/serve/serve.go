package serve

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/guard"
	"dynosim/gocore/live"
	"dynosim/gocore/live/plane"
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

// Kind sorts an error of Run: "usage" for bad input, "notfound" for a file that does not exist, "failed" for a process
// that could not serve.
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

// Run serves the workers of a description, see [Parse], until stop. It logs to standard error and passes questions for
// the AIC SDK to ask. A panic in a goroutine of the workers ends them at once and is an error.
func Run(text string, stop *Stop, ask Ask) error {
	panics := make(chan error, 1)
	defer guard.Watch(func(err error) {
		select {
		case panics <- runError{err}:
		default: // only the first panic is reported
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
	switch role, err := roleOf(text); {
	case err != nil:
		return err
	case role == serverRole:
		return runServer(text, stop, ask)
	case role == frontendRole:
		return runFrontend(text, stop, ask)
	}
	spec, err := Parse(text)
	if err != nil {
		return err
	}
	log := spec.log.open()
	in, err := load(spec, stop, ask)
	switch {
	case errors.Is(err, errStopped):
		return nil
	case err != nil:
		return err
	}
	log.Debug("model card", "checksum", in.card.Checksum())
	for _, w := range spec.check(in) {
		log.Warn(w)
	}
	if in.predictor != "" {
		log.Info("timing", "model", in.predictor)
	}
	return spec.serve(in, log, stop)
}

// serve opens the sockets of the process, launches its workers and waits for the end.
func (s *Spec) serve(in *inputs, log *slog.Logger, stop *Stop) error {
	registry := newRegistry()
	config := s.config(in, log, registry)
	openStore, closeStores := s.planes.discovery.stores(log)
	defer closeStores()
	config.OpenStore = openStore
	timeline, err := openTimeline(s.timeline)
	if err != nil {
		return err
	}
	defer timeline.discard()
	process, err := live.New(config)
	if err != nil {
		return runError{err}
	}
	status, err := startStatus(s.status, registry, process.Status)
	if err != nil {
		_ = process.Shutdown(stop.kill)
		return err
	}
	defer status.close()
	if status != nil {
		log.Info("status server", "address", status.address)
	}
	return errors.Join(s.waitFor(process, log, stop), timeline.write(process, log))
}

// waitFor launches the workers of a process and waits until they have ended.
func (s *Spec) waitFor(process *live.Process, log *slog.Logger, stop *Stop) error {
	err := process.Launch(stop.drain)
	if err == nil {
		log.Info("launched", "workers", s.workers.count, "model", s.model.name, "endpoint", s.workers.endpoint,
			"dynamo_release", s.model.release)
		select {
		case <-stop.drain.Done():
		case err = <-process.Failed(): // all workers have failed, or one could not start
		}
	}
	ctx, cancel := context.WithTimeout(stop.kill, s.workers.drain)
	defer cancel()
	if err != nil {
		cancel() // after an error requests are not waited for
	}
	if err = errors.Join(err, process.Shutdown(ctx)); err != nil {
		return runError{err}
	}
	return nil
}

// config returns what the workers themselves have to know, but for the stores of their records.
func (s *Spec) config(in *inputs, log *slog.Logger, registry *prometheus.Registry) live.Config {
	w, p, a := s.workers, s.planes, in.addresses
	c := live.Config{
		ModelName: s.model.name, Card: in.card, Endpoint: w.endpoint, Args: in.args, Timing: in.timing,
		Predict: in.predict,
		Workers: w.count, Pause: w.pause, EventsPorts: w.eventsPorts, ReplayPorts: w.replayPorts,
		BootstrapPorts: w.bootstrapPorts,
		BootstrapHost:  a.bootstrapHost, BootstrapListen: a.bootstrapListen, Listen: a.listen, Host: a.host,
		EventHost: a.events,
		Requests:  p.requests, NATS: p.nats, Events: p.events, KVEventLag: p.kvEventLag, Durable: p.durable,
		Device: w.device,
		Plane: plane.Config{
			Limits: p.limits, MaxMessageSize: p.maxMessageSize, Log: log, Metrics: plane.NewMetrics(registry, p.detail),
		},
		Timeline: s.timeline != "", StandardOutput: s.standardOutput, Recorded: in.recorded, Seed: s.seed, Log: log,
		Registry: registry,
	}
	if s.traceCache {
		c.CacheTrace = log
	}
	return c
}
