package frontend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"dynosim/gocore/live/publish"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
)

// workerKey identifies a worker by its endpoint.
type workerKey struct {
	discovery.Endpoint
	id uint64
}

// roster is what the records say.
type roster struct {
	instances map[workerKey]discovery.Instance
	served    map[workerKey]discovery.Served
	adapters  map[workerKey][]string
	channels  []discovery.Channel
	sources   []discovery.Source
}

// readRoster reads all records. One that cannot be read is left out.
func readRoster(records Records) (*roster, error) {
	r := &roster{instances: map[workerKey]discovery.Instance{}, served: map[workerKey]discovery.Served{},
		adapters: map[workerKey][]string{}}
	for _, bucket := range discovery.Buckets {
		list, err := records.List(bucket)
		if err != nil {
			return nil, err
		}
		for _, record := range list {
			r.add(record)
		}
	}
	return r, nil
}

func (r *roster) add(record discovery.Record) {
	switch record.Bucket {
	case discovery.Instances:
		if i, err := discovery.ParseInstance(record); err == nil {
			r.instances[workerKey{i.Endpoint, i.ID}] = i
		}
	case discovery.EventChannels:
		if c, err := discovery.ParseChannel(record); err == nil {
			r.channels = append(r.channels, c)
		}
	case discovery.EventSources:
		if s, err := discovery.ParseSource(record); err == nil {
			r.sources = append(r.sources, s)
		}
	case discovery.Models:
		s, err := discovery.ParseServed(record)
		key := workerKey{s.Endpoint, s.ID}
		switch {
		case err != nil:
		case s.Suffix == "":
			r.served[key] = s
		default:
			var d struct {
				Name string `json:"display_name"`
			}
			if json.Unmarshal(s.Card, &d) == nil && d.Name != "" {
				r.adapters[key] = append(r.adapters[key], d.Name)
			}
		}
	}
}

// worker is a worker that requests can be sent to. Only hearing is changed, by the goroutine that follows the records.
type worker struct {
	key       workerKey
	transport map[string]string
	text      string // of its card
	card      card.Card
	group     *group
	pool      *pool
	gone      chan struct{} // closed when its record has gone
	hearing   hearing       // of its KV events
	load      load
}

// load is what this frontend has sent to a worker.
type load struct {
	open, begun atomic.Int64 // requests that it has; those that have tokens
	// tokens of prompts that it has computed, and those that were cached, as far as that is known
	lookedUp, reused atomic.Int64
}

// look reads the records and follows their changes. While they cannot be read, everything stays as it is.
func (f *Frontend) look() {
	r, err := readRoster(f.config.Records)
	if err != nil {
		if !f.failing {
			f.config.Log.Warn("the records of workers cannot be read; those that are known stay", "cause", err)
		}
		f.failing = true
		return
	}
	if f.failing {
		f.config.Log.Info("the records of workers can be read again")
	}
	f.failing = false
	for key, w := range f.workers {
		if !r.has(w) {
			f.removeWorker(key, w)
		}
	}
	maps.DeleteFunc(f.refused, func(key workerKey, _ string) bool { _, there := r.served[key]; return !there })
	var unknown []workerKey
	for key := range r.served {
		if _, known := f.workers[key]; !known {
			unknown = append(unknown, key)
		}
	}
	slices.SortFunc(unknown, compareWorkers)
	for _, key := range unknown {
		f.addWorker(key, r)
	}
	f.followChannels(r.channels)
	f.findRecovery(r)
	f.noteUnheard(r, time.Now())
	f.updateModels(r.adapters)
}

func compareWorkers(a, b workerKey) int {
	return cmp.Or(cmp.Compare(a.Endpoint.String(), b.Endpoint.String()), cmp.Compare(a.id, b.id))
}

// has reports whether a worker is there as it was.
func (r *roster) has(w *worker) bool {
	i, running := r.instances[w.key]
	return running && maps.Equal(i.Transport, w.transport) && string(r.served[w.key].Card) == w.text
}

// addWorker adds a worker that serves a model, if it fits those that are there.
func (f *Frontend) addWorker(key workerKey, r *roster) {
	i, running := r.instances[key]
	if !running {
		return // its record is about to come
	}
	s := r.served[key]
	c, err := card.Parse(s.Card)
	if err == nil && !reachable(i.Transport) {
		err = fmt.Errorf("its transport %v is none of tcp, nats_tcp and http", i.Transport)
	}
	w := &worker{key: key, transport: i.Transport, text: string(s.Card), card: c, gone: make(chan struct{})}
	if err == nil {
		err = f.join(w)
	}
	if err != nil {
		if f.refused[key] != err.Error() {
			f.config.Log.Warn("a worker is not used", "worker", discovery.Hex(key.id), "endpoint", key.Endpoint,
				"cause", err)
		}
		f.refused[key] = err.Error()
		return
	}
	delete(f.refused, key)
	f.workers[key] = w
	f.config.Log.Info("a worker has come", "worker", discovery.Hex(key.id), "endpoint", key.Endpoint, "model",
		c.DisplayName, "kind", c.WorkerType)
}

func (f *Frontend) removeWorker(key workerKey, w *worker) {
	delete(f.workers, key)
	close(w.gone)
	f.dropFeeds(w)
	w.pool.remove(w)
	w.group.workers--
	if w.group.workers == 0 { // those that come next may be of another kind
		delete(f.groups, w.group.key)
	}
	f.config.Log.Info("a worker has gone", "worker", discovery.Hex(key.id), "endpoint", key.Endpoint, "model",
		w.card.DisplayName)
}

// findRecovery finds where missed events can be asked for: at the endpoint that the record of an event source names, or
// under the name that workers of 1.3 give it.
func (f *Frontend) findRecovery(r *roster) {
	if !f.usesEvents() {
		return
	}
	sources := map[discovery.Endpoint]int{} // the rank for which an endpoint answers
	for _, s := range r.sources {
		if s.Topic == events.KVTopic && s.Recovery != "" {
			e := s.Endpoint
			e.Name = s.Recovery
			sources[e] = s.DPRank
		}
	}
	f.feedsMu.RLock()
	defer f.feedsMu.RUnlock()
	for key, i := range r.instances {
		rank, named := sources[key.Endpoint]
		for _, feed := range f.feeds[key.id] {
			if e := feed.worker.key; e.Namespace != key.Namespace || e.Component != key.Component {
				continue
			}
			if named && feed.rank == rank || key.Name == publish.RecoveryEndpoint(feed.rank) {
				feed.recoverAt(i.Transport)
			}
		}
	}
}
