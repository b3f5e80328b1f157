package live

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/publish"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
)

// Worker is one simulated worker: an identity in discovery, and an engine for each of its ranks, or for all of them.
type Worker struct {
	process *Process
	index   int
	id      uint64
	args    engineargs.Args
	store   discovery.Store
	log     *slog.Logger

	generator *generator
	handoffs  *handoffs
	runners   []*runner
	observers [][]Observer // of each rank, besides the publisher
	publisher *publish.Worker
	paths     []string // registered

	serving atomic.Bool // engines run
	leaving sync.Once
	left    error // of withdraw
	quit    chan struct{}
	started chan struct{} // closed when start is over
}

// newWorker makes a worker that is not announced yet.
func newWorker(p *Process, index int, store discovery.Store) *Worker {
	c := &p.config
	w := &Worker{
		process: p, index: index, id: store.InstanceID(), args: c.Args, store: store,
		quit: make(chan struct{}), started: make(chan struct{}),
	}
	w.log = c.Log.With("worker", index, "instance", discovery.Hex(w.id))
	w.generator = &generator{args: &w.args, outputs: &p.outputs, tokens: p.tokens, seed: c.Seed + uint64(index),
		log: w.log}
	engines := w.args.Engines()
	for i := range engines {
		log := w.log
		if engines == w.args.Live.Ranks {
			log = log.With("dp_rank", i)
		}
		r := newRunner(&w.args, c.setup(index, i), log)
		p.timeline.follow(r, index*engines+i)
		r.onFailure = func(reason string) { go guard.Func(func() { p.abandon(w, reason) })() }
		w.runners = append(w.runners, r)
	}
	for i, k := range w.ranks() {
		w.watch(k, i)
	}
	w.generator.runners = w.runners
	return w
}

// ranks returns the data-parallel ranks of all engines.
func (w *Worker) ranks() (all []*rank) {
	for _, r := range w.runners {
		all = append(all, r.ranks...)
	}
	return all
}

// watch gives a rank that does not run yet its metrics.
func (w *Worker) watch(k *rank, dpRank int) {
	p, c := w.process, &w.process.config
	native := w.publisherConfig().NativePort != 0
	if native {
		k.names.KeepTokens()
	}
	load, requests := p.metrics.Rank(c.ModelName, discovery.Hex(w.id), dpRank, &w.args)
	events := p.events.rank(c.Endpoint, discovery.Hex(w.id), native)
	w.observers = append(w.observers, []Observer{loadObserver{load}, events})
	if w.args.Role != engine.Prefill { // its requests end with their first token
		k.metrics = requests
	}
}

// announce registers the worker in discovery: from now on frontends send it requests. They wait until the engines run.
func (w *Worker) announce() error {
	c := &w.process.config
	if err := w.openHandoffs(); err != nil {
		return err
	}
	made := c.Card
	if w.handoffs.listener != nil {
		made.RuntimeConfig.DisaggregatedEndpoint = &card.DisaggregatedEndpoint{Host: c.BootstrapHost,
			Port: w.handoffs.port()}
	}
	if err := w.store.Put(discovery.ModelRecord(c.Endpoint, w.id, made.JSON())); err != nil {
		return err
	}
	_, err := w.serve(c.Endpoint, w.generator)
	return err
}

// openHandoffs prepares the worker for hand-offs before frontends can send it one.
func (w *Worker) openHandoffs() (err error) {
	config := rendezvousConfig(&w.args)
	config.Log = w.log
	address := ""
	if c := &w.process.config; w.index < len(c.BootstrapPorts) {
		address = net.JoinHostPort(c.BootstrapListen, strconv.Itoa(c.BootstrapPorts[w.index]))
	}
	w.handoffs, err = openHandoffs(&w.args, address, config)
	w.generator.handoffs = w.handoffs
	return err
}

// serve registers an endpoint of the worker and publishes its address. It returns the record that says so.
func (w *Worker) serve(e discovery.Endpoint, h plane.Handler) (discovery.Record, error) {
	return w.serveAs(e, e.Name, h)
}

// serveAs does what serve does, with another name of the endpoint in metrics.
func (w *Worker) serveAs(e discovery.Endpoint, shown string, h plane.Handler) (discovery.Record, error) {
	p := w.process
	path := e.Path(w.id)
	if p.config.Requests == RequestsOverHTTP { // which Dynamo does not have
		path = discovery.Hex(w.id) + "/" + e.Name
	}
	p.plane.Register(path, plane.Labels{
		Namespace: e.Namespace, Component: e.Component, Endpoint: shown, WorkerID: discovery.Hex(w.id),
	}, h)
	w.paths = append(w.paths, path)
	transport, err := p.ingress.open(e, w.id, path)
	if err != nil {
		return discovery.Record{}, err
	}
	r := discovery.EndpointRecord(e, w.id, transport, p.config.Device)
	return r, w.store.Put(r)
}

// start runs the engines after the start-up time, and publishes their events for routers.
func (w *Worker) start() error {
	defer close(w.started)
	select {
	case <-time.After(time.Duration(w.args.StartupSeconds * 1e9)):
	case <-w.quit:
		return nil
	}
	publisher, err := publish.Start(w.publisherConfig())
	if err != nil {
		return err
	}
	w.publisher = publisher
	for i := range w.observers {
		w.observers[i] = append([]Observer{&announcer{publisher, i}}, w.observers[i]...)
	}
	each := w.args.Live.Ranks / len(w.runners)
	for i, r := range w.runners {
		r.start(w.observers[i*each : (i+1)*each]...)
	}
	if err := w.announceEvents(); err != nil {
		return err
	}
	w.serving.Store(true)
	w.log.Info("serving", "dp_size", len(w.observers))
	return nil
}

// unheardPatience is how long KV events may be published without a subscriber before the log says so.
const unheardPatience = time.Minute

func (w *Worker) publisherConfig() publish.Config {
	c := &w.process.config
	config := publish.Config{
		WorkerID: w.id, Ranks: w.args.Live.Ranks, KVEvents: w.hasKVEvents(), BlockSize: w.args.BlockSize, Host: c.EventHost,
		Endpoint: c.Endpoint, Stream: w.process.stream, KVEventLag: c.KVEventLag, Patience: unheardPatience, Log: w.log,
	}
	if c.Events == EventsOverNATS {
		config.Bus = w.process.bus
	}
	groups := w.args.LayerGroups()
	config.Groups = publish.Groups{Beside: groups.Beside, Linear: groups.Linear, Window: groups.Window}
	if w.index < len(c.EventsPorts) {
		config.NativePort = c.EventsPorts[w.index]
	}
	if w.index < len(c.ReplayPorts) {
		config.ReplayPort = c.ReplayPorts[w.index]
	}
	return config
}

// hasKVEvents reports whether routers follow the caches. For decode workers they do not, as they are not chosen by
// cache content.
func (w *Worker) hasKVEvents() bool {
	return w.args.PrefixCaching && w.args.Role != engine.Decode
}

// announceEvents publishes where events are sent, and where routers that have missed some can ask for them.
func (w *Worker) announceEvents() error {
	for _, r := range w.publisher.Records(w.process.config.Host) {
		if err := w.store.Put(r); err != nil {
			return err
		}
	}
	if !w.hasKVEvents() {
		return nil
	}
	for i := range w.observers {
		if err := w.announceRank(i); err != nil {
			return err
		}
	}
	return nil
}

// announceRank publishes where the KV events of a rank are: to routers of 1.3 an endpoint with a name that they know,
// to those of 1.6 the record of a source, which names the endpoint.
func (w *Worker) announceRank(dpRank int) error {
	e := w.process.config.Endpoint
	at := func(name string) discovery.Endpoint {
		return discovery.Endpoint{Namespace: e.Namespace, Component: e.Component, Name: name}
	}
	answers := w.args.Live.LocalIndexer
	if answers {
		if _, err := w.serve(at(publish.RecoveryEndpoint(dpRank)), w.publisher.Recovery(dpRank)); err != nil {
			return err
		}
	}
	publisher, ok := w.publisher.Publisher(dpRank)
	if !ok {
		return nil
	}
	var target *discovery.Record
	if answers {
		// Its name is its own, but workers share histograms of an endpoint.
		shown := fmt.Sprintf("worker_kv_query_source_dp%d", dpRank)
		record, err := w.serveAs(at(publish.SourceEndpoint(publisher)), shown, w.publisher.Recovery(dpRank))
		if err != nil {
			return err
		}
		target = &record
	}
	return w.store.Put(w.publisher.SourceRecord(dpRank, publisher, target))
}

// withdraw removes the worker from discovery, once. Its requests go on.
func (w *Worker) withdraw() error {
	w.leaving.Do(func() { w.left = w.leave() })
	return w.left
}

func (w *Worker) leave() error {
	close(w.quit)
	<-w.started
	for _, path := range w.paths {
		w.process.ingress.shut(path)
		w.process.plane.Unregister(path)
	}
	return w.store.Close()
}

// close ends the engines. withdraw must have been called.
func (w *Worker) close() {
	w.handoffs.close()
	for _, r := range w.runners {
		if w.publisher == nil { // the engines have never run
			r.start()
		}
		r.close()
	}
	if w.publisher != nil {
		w.publisher.Close()
	}
}

// healthy reports whether all engines run.
func (w *Worker) healthy() bool { return w.serving.Load() && !w.failed() }

// failed reports whether an engine has stopped for good.
func (w *Worker) failed() bool {
	return slices.ContainsFunc(w.runners, func(r *runner) bool { return r.failed.Load() })
}

// announcer publishes what one rank does; it implements [Observer].
type announcer struct {
	publisher *publish.Worker
	dpRank    int
}

// CacheChanged implements [Observer].
func (a *announcer) CacheChanged(c []blocks.Change) { a.publisher.Cache(a.dpRank, c) }

// PassEnded implements [Observer].
func (a *announcer) PassEnded(w engine.Work, ms float64) { a.publisher.Pass(a.dpRank, w, ms/1000) }

// LoadChanged implements [Observer].
func (a *announcer) LoadChanged(l Load) { a.publisher.Load(a.dpRank, l.UsedBlocks) }

// loadObserver shows the load of one rank in metrics; it implements [Observer].
type loadObserver struct{ metrics *enginemetrics.LoadMetrics }

// CacheChanged implements [Observer].
func (loadObserver) CacheChanged([]blocks.Change) {}

// PassEnded implements [Observer].
func (loadObserver) PassEnded(engine.Work, float64) {}

// LoadChanged implements [Observer].
func (o loadObserver) LoadChanged(l Load) { o.metrics.LoadChanged(l) }
