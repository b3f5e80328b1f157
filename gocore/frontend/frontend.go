package frontend

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/router"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/tokens"
)

// Records are what discovery knows of all workers.
type Records interface {
	List(discovery.Bucket) ([]discovery.Record, error)
}

// Config describes a frontend.
type Config struct {
	Records Records
	// Interval is the time between two looks at the records. Changed, which may be nil, tells that they may have
	// changed.
	Interval time.Duration
	Changed  <-chan struct{}

	Caller *plane.Caller
	// Bus connects to the NATS server, when a record first asks for it.
	Bus func() (*bus.Conn, error)

	Mode  routing.Mode
	Rule  routing.Rule // of the mode Ruled
	Rules routing.Rules
	// Patience is how long the KV events of a worker may not be heard before that is logged.
	Patience       time.Duration
	Router         router.Config
	Seed           uint64
	MigrationLimit int // how often a request may go on at another worker after its first token
	Standard       int // tokens of an answer if the request names no number

	// Folder finds the files of a model, and Tokenizer opens those in a folder.
	Folder    func(*card.Card) (string, error)
	Tokenizer func(folder string) (tokens.Tokenizer, error)
	Served    Served
	Log       *slog.Logger
	// Failed is called when a router outside of the program has failed, after which nothing can be answered. Nil for
	// routers that are part of it.
	Failed func(error)
}

// Served is called with the models that there are. One goroutine calls it.
type Served interface {
	Add(Model)
	Remove(name string)
	// Adapters tells which LoRA adapters a model has from now on.
	Adapters(name string, adapters []string)
}

// Model is a model that can be served.
type Model struct {
	Name      string
	Tokenizer tokens.Tokenizer
	EndTokens []uint32
	MaxLength int // tokens of a prompt and its answer together
	Backend   backend.Backend
}

// Frontend serves the models of workers that it finds.
type Frontend struct {
	config  Config
	client  *http.Client
	started time.Time
	life    context.Context
	stop    context.CancelFunc
	done    chan struct{}
	running sync.WaitGroup
	failing bool // the records cannot be read

	busMu sync.Mutex
	bus   *bus.Conn

	tokenizers tokenizers
	opened     chan *tokenizer // that can be used now, or not

	// What follows belongs to the goroutine that follows the records.
	models     map[string]*model
	groups     map[groupKey]*group
	made       uint64 // groups
	workers    map[workerKey]*worker
	refused    map[workerKey]string // why
	subscribed map[source]*subscription
	unheard    map[source]string // why there is no subscription

	feedsMu sync.RWMutex
	feeds   map[uint64][]*feed // of the ranks of a worker
}

// Start follows the records until Close.
func Start(c Config) *Frontend {
	life, stop := context.WithCancel(context.Background())
	f := &Frontend{
		config: c, client: newClient(), started: time.Now(), life: life, stop: stop, done: make(chan struct{}),
		opened: make(chan *tokenizer), models: map[string]*model{}, groups: map[groupKey]*group{},
		workers: map[workerKey]*worker{},
		refused: map[workerKey]string{}, subscribed: map[source]*subscription{}, unheard: map[source]string{},
		feeds: map[uint64][]*feed{},
	}
	f.tokenizers.known = map[string]*kept{}
	go guard.Func(f.run)()
	return f
}

// Close ends everything, requests included. Tokenizers may not be asked any more.
func (f *Frontend) Close() {
	f.stop()
	<-f.done
	for _, held := range f.subscribed {
		held.end()
	}
	f.running.Wait()
	f.client.CloseIdleConnections()
	f.busMu.Lock()
	if f.bus != nil {
		f.bus.Close()
	}
	f.busMu.Unlock()
	f.tokenizers.close()
}

// run follows the records.
func (f *Frontend) run() {
	defer close(f.done)
	ticker := time.NewTicker(f.config.Interval)
	defer ticker.Stop()
	for {
		f.look()
		select {
		case <-f.life.Done():
			return
		case <-ticker.C:
		case <-f.config.Changed:
		case t := <-f.opened:
			f.tokenizerOpened(t)
		}
	}
}

// usesEvents reports whether routers go by KV events.
func (f *Frontend) usesEvents() bool { return f.config.Mode.UsesEvents(f.config.Rule) }

// nowMs returns the time since the start in milliseconds.
func (f *Frontend) nowMs() float64 { return float64(time.Since(f.started)) / 1e6 }

// random makes the generator of a pool; equal seeds and names give equal ones.
func (f *Frontend) random(pool uint64) *rand.Rand { return rand.New(rand.NewPCG(f.config.Seed, pool)) }

// connectedBus returns the connection to the NATS server.
func (f *Frontend) connectedBus() (*bus.Conn, error) {
	f.busMu.Lock()
	defer f.busMu.Unlock()
	if f.bus != nil {
		return f.bus, nil
	}
	b, err := f.config.Bus()
	if err != nil {
		return nil, err
	}
	f.bus = b
	return b, nil
}
