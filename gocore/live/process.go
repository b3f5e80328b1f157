package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/cachetrace"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/live/discovery"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
)

// Config describes a process.
type Config struct {
	ModelName string
	Card      []byte // JSON of the model card
	Endpoint  discovery.Endpoint
	Args      engineargs.Args
	Timing    timing.Model // nil for the polynomial

	Workers int
	// Pause is how long to wait after the launch of worker i of all but the last.
	Pause func(i int) time.Duration
	// EventsPorts and ReplayPorts are the first ports of each worker for events in vLLM's own format; nil for none.
	EventsPorts, ReplayPorts []int

	OpenStore func() (discovery.Store, error) // for each worker
	Plane     plane.Config
	Listen    string // HOST:PORT of the request plane
	Host      string // under which others reach this one
	HTTP      bool   // the request plane, instead of TCP
	Device    string // "cuda" or "cpu", as records have it

	StandardOutput int                 // tokens of requests that ask for no number
	Recorded       map[string][]uint32 // answers to repeat
	Seed           uint64
	Log            *slog.Logger
	CacheTrace     *slog.Logger // of every change of a cache; nil for none
	Registry       prometheus.Registerer
}

// setup is what an engine gets besides its arguments.
func (c *Config) setup(worker, dpRank int) engine.Setup {
	s := engine.Setup{Model: c.Timing, Trace: cachetrace.New(c.CacheTrace, c.Args, dpRank)}
	if c.Args.Drafts > 0 {
		rates, _ := speculation.ParseRates(c.Args.AcceptRates, c.Args.Drafts) // they have been checked
		s.Drafts = speculation.New(rates, c.Args.DraftSeed+uint64(worker)+uint64(dpRank)<<32)
	}
	return s
}

// Process is a request plane and the workers behind it.
type Process struct {
	config  Config
	plane   *plane.Plane
	server  server
	outputs outputs
	metrics *metrics
	log     *slog.Logger
	failed  chan error // of a worker that could not start; holds one

	mu       sync.Mutex
	workers  []*Worker
	launched bool // all of them
	draining bool
}

// server is the request plane's way in.
type server interface {
	Addr() *net.TCPAddr
	Close()
}

// New opens the request plane of a process that has no workers yet.
func New(c Config) (*Process, error) {
	p := &Process{
		config:  c,
		plane:   plane.New(c.Plane),
		outputs: outputs{standardLength: c.StandardOutput, reasoning: c.Args.Live.Reasoning, recorded: c.Recorded},
		metrics: newMetrics(c.Registry, c.Args.EngineType),
		log:     c.Log,
		failed:  make(chan error, 1),
	}
	listen := func() (server, error) { return p.plane.ListenTCP(c.Listen) }
	if c.HTTP {
		listen = func() (server, error) { return p.plane.ListenHTTP(c.Listen) }
	}
	s, err := listen()
	if err != nil {
		return nil, fmt.Errorf("request plane: %w", err)
	}
	p.server = s
	return p, nil
}

// Launch starts the workers, one after the other. It stops early without an error if the context ends. Whatever happens,
// Shutdown has to follow.
func (p *Process) Launch(ctx context.Context) error {
	for i := range p.config.Workers {
		if err := p.launch(i); err != nil {
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

func (p *Process) launch(i int) error {
	store, err := p.config.OpenStore()
	if err != nil {
		return err
	}
	w := newWorker(p, i, store)
	p.mu.Lock()
	p.workers = append(p.workers, w)
	p.mu.Unlock()
	err = w.announce()
	go func() { // also after an error: others wait for its end
		if startErr := w.start(); startErr != nil {
			select {
			case p.failed <- fmt.Errorf("worker %d: %w", i, startErr):
			default:
			}
		}
	}()
	return err
}

// Failed hands out the error of a worker that could not start its engines.
func (p *Process) Failed() <-chan error { return p.failed }

// Shutdown makes all workers invisible, waits until the requests that they have are answered or the context ends, and ends
// everything.
func (p *Process) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.draining = true
	workers := p.workers
	p.mu.Unlock()
	var errs []error
	for _, w := range workers {
		errs = append(errs, w.withdraw())
	}
	if n := p.plane.InFlight(); n > 0 {
		p.log.Info("draining", "requests", n)
	}
	if p.plane.Wait(ctx) != nil {
		p.log.Warn("requests are cut off", "requests", p.plane.InFlight())
	}
	for _, w := range workers {
		w.close()
	}
	p.server.Close()
	return errors.Join(errs...)
}

// transport is where an endpoint record says that a path is served.
func (p *Process) transport(path string) map[string]string {
	address := net.JoinHostPort(p.config.Host, strconv.Itoa(p.server.Addr().Port))
	if p.config.HTTP {
		return map[string]string{"http": "http://" + address + plane.HTTPRoot + path}
	}
	return map[string]string{"tcp": address + "/" + path}
}

// Status is the health of a process.
type Status struct {
	Ready    bool
	Draining bool
	Workers  int // launched
	Serving  int // of them
	InFlight int // requests
}

// Status tells how the process is.
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
