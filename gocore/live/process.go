package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/cachetrace"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/timing"
)

// Config describes a process.
type Config struct {
	ModelName string
	Card      card.Card
	Endpoint  discovery.Endpoint
	Args      engineargs.Args
	Timing    timing.Model // nil for the polynomial
	Predict   Predictor    // instead

	Workers int
	// Pause is how long to wait after the launch of worker i. It is not called for the last one.
	Pause func(i int) time.Duration
	// EventsPorts and ReplayPorts are the first ports of each worker for events in vLLM's own format; nil for none.
	EventsPorts, ReplayPorts []int
	// BootstrapPorts are where each prefill worker hands requests over, 0 for any; nil if none does. BootstrapHost is
	// the host under which decode workers reach them, BootstrapListen the address that they are bound to, "" for all.
	BootstrapPorts                 []int
	BootstrapHost, BootstrapListen string

	OpenStore func(context.Context) (discovery.Store, error) // for each worker
	Plane     plane.Config
	Requests  RequestPlane
	Listen    string      // HOST:PORT of the request plane, unless that is NATS
	Host      string      // under which others reach this one
	EventHost string      // that ZeroMQ sockets are bound to, "" for all addresses
	NATS      *bus.Config // the server for what follows and requests over NATS, nil if none of them is
	Events    EventPlane
	// KVEventLag is how long after a change of a cache its events are sent.
	KVEventLag time.Duration
	Durable    bool   // KV events go to a stream that keeps them
	Device     string // "cuda" or "cpu", as records have it

	StandardOutput int                 // tokens of requests that ask for no number
	Recorded       map[string][]uint32 // answers to repeat
	Seed           uint64
	Log            *slog.Logger
	CacheTrace     *slog.Logger // of every change of a cache; nil for none
	Registry       prometheus.Registerer
	Timeline       bool // keep one, for Process.WriteTimeline
}

// Predictor answers questions about the durations of passes. The zero value answers none.
type Predictor struct {
	Ask     func([]timing.Question) ([]timing.Answer, error) // called from several goroutines
	Experts bool                                             // it knows those of expert layers apart
}

// setup returns what an engine gets besides its arguments. dpRank is its first data-parallel rank.
func (c *Config) setup(worker, dpRank int) engine.Setup {
	s := EngineSetup(&c.Args, c.Timing, c.Predict, worker, dpRank)
	s.Explain, s.Trace = c.Timeline, cachetrace.New(c.CacheTrace, c.Args, dpRank)
	return s
}

// EngineSetup returns what an engine gets besides its arguments: a model of durations, which asks predict if that
// answers, and the draft tokens that are accepted.
func EngineSetup(args *engineargs.Args, model timing.Model, predict Predictor, worker, dpRank int) engine.Setup {
	s := engine.Setup{Model: model, Role: args.Role, Drafts: args.NewDrafts(worker, dpRank), LowerTiers: true,
		Names: true}
	if predict.Ask != nil {
		asked := timing.NewAsked(1, predict.Ask)
		asked.Experts = predict.Experts
		s.Model = asked
	}
	return s
}

// Process is a request plane and the workers behind it.
type Process struct {
	config  Config
	plane   *plane.Plane
	ingress ingress
	bus     *bus.Conn   // nil without a NATS server
	stream  *bus.Stream // nil if KV events are not kept
	outputs outputs
	tokens  tokens
	metrics *enginemetrics.Metrics
	events  *eventMetrics
	log     *slog.Logger
	failed  chan error // of a worker that could not start; holds one

	timeline *timeline // nil unless one is kept

	mu       sync.Mutex
	workers  []*Worker
	launched bool // all of them
	draining bool
}

// New opens the request plane of a process that has no workers yet.
func New(c Config) (*Process, error) {
	p := &Process{
		config: c,
		plane:  plane.New(c.Plane),
		outputs: outputs{standardLength: c.StandardOutput, reasoning: c.Args.Live.Reasoning, recorded: c.Recorded,
			engine: c.Args},
		tokens:  newTokens(maxTokens),
		metrics: enginemetrics.New(c.Registry, c.Args, c.Plane.Metrics.Detail() == plane.PerWorker),
		events:  newEventMetrics(c.Registry),
		log:     c.Log,
		failed:  make(chan error, 1),
	}
	if c.Timeline {
		p.timeline = newTimeline(&c)
	}
	if err := p.connect(); err != nil {
		return nil, err
	}
	ingress, err := p.openIngress()
	if err != nil {
		p.disconnect()
		return nil, fmt.Errorf("request plane: %w", err)
	}
	p.ingress = ingress
	return p, nil
}

// Launch starts the workers, one after the other. It stops early without an error if the context ends. Shutdown must be
// called in any case.
func (p *Process) Launch(ctx context.Context) error {
	for i := range p.config.Workers {
		if err := p.launch(ctx, i); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("worker %d: %w", i, err)
		}
		if i+1 == p.config.Workers {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.config.Pause(i)):
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.launched = true
	return nil
}

func (p *Process) launch(ctx context.Context, i int) error {
	store, err := p.config.OpenStore(ctx)
	if err != nil {
		return err
	}
	w := newWorker(p, i, store)
	p.mu.Lock()
	p.workers = append(p.workers, w)
	p.mu.Unlock()
	err = w.announce()
	go guard.Func(func() { // also after an error: close waits until start has returned
		if startErr := w.start(); startErr != nil {
			select {
			case p.failed <- fmt.Errorf("worker %d: %w", i, startErr):
			default:
			}
		}
	})()
	return err
}

// abandon withdraws a worker that cannot serve any more from discovery. The others go on without it.
func (p *Process) abandon(w *Worker, reason string) {
	p.mu.Lock()
	draining := p.draining
	othersLeft := slices.ContainsFunc(p.workers, func(other *Worker) bool { return !other.failed() })
	p.mu.Unlock()
	if draining {
		return
	}
	w.log.Error("a worker is withdrawn", "cause", reason)
	err := w.withdraw()
	if othersLeft {
		return
	}
	select {
	case p.failed <- errors.Join(fmt.Errorf("worker %d: %s", w.index, reason), err):
	default:
	}
}

// goodbyeTimeout bounds the wait for frontends that cannot be reached.
const goodbyeTimeout = 5 * time.Second

// Failed receives the error of a worker that could not start its engines, or the error that no worker is left.
func (p *Process) Failed() <-chan error { return p.failed }

// Shutdown withdraws all workers from discovery, waits until their requests are answered or the context ends, and
// closes everything.
func (p *Process) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.draining = true
	workers := p.workers
	p.mu.Unlock()
	errs := make([]error, len(workers))
	var leaving sync.WaitGroup
	for i, w := range workers {
		leaving.Go(guard.Func(func() { errs[i] = w.withdraw() })) // at once, as a discovery service may be slow or away
	}
	leaving.Wait()
	if n := p.plane.InFlight(); n > 0 {
		p.log.Info("draining", "requests", n)
	}
	if p.plane.Wait(ctx) != nil {
		p.log.Warn("requests are cut off", "requests", p.plane.InFlight())
	}
	for _, w := range workers {
		w.close()
	}
	p.ingress.close()
	p.sayGoodbye()
	p.disconnect()
	return errors.Join(errs...)
}

// sayGoodbye tells frontends which of their requests will not be served, and closes their connections.
func (p *Process) sayGoodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	_ = p.plane.Wait(ctx)
	p.plane.Close()
}

// Status is the health of a process.
type Status struct {
	Ready    bool
	Draining bool
	Workers  int // launched
	Serving  int // of them
	InFlight int // requests
}

// Status returns the health of the process.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Draining: p.draining, Workers: len(p.workers), InFlight: p.plane.InFlight()}
	for _, w := range p.workers {
		if w.healthy() {
			s.Serving++
		}
	}
	s.Ready = p.launched && !p.draining && s.Serving == p.config.Workers
	return s
}
