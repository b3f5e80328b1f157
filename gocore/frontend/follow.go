package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/zmtp"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
)

// source is where KV events are published. Over NATS the workers of a component share one.
type source struct {
	namespace, component, kind string
	address                    string // of a ZeroMQ socket, or a NATS subject
}

// sourceOf returns where the events of a channel are published.
func sourceOf(c discovery.Channel) source {
	s := source{namespace: c.Namespace, component: c.Component, kind: c.Transport.Kind}
	switch s.kind {
	case "Zmq":
		s.address = strings.TrimPrefix(c.Transport.Config["endpoint"], "tcp://")
	case "Nats":
		s.address = c.Transport.Config["subject_prefix"] + "." + c.Topic
	}
	return s
}

// heardOnce returns the channels of KV events without the second ones of publishers that announce theirs to 1.3 and to
// 1.6.
func heardOnce(channels []discovery.Channel) (list []discovery.Channel) {
	scoped := map[uint64]bool{}
	for _, c := range channels {
		if c.Topic == events.KVTopic && c.Name != "" {
			scoped[c.Publisher] = true
		}
	}
	for _, c := range channels {
		if c.Topic == events.KVTopic && (c.Name != "" || !scoped[c.Publisher]) {
			list = append(list, c)
		}
	}
	return list
}

// followChannels subscribes to the KV events of all workers that are there, and to no others.
func (f *Frontend) followChannels(channels []discovery.Channel) {
	if !f.usesEvents() {
		return
	}
	there := map[source]bool{}
	for _, c := range heardOnce(channels) {
		there[sourceOf(c)] = true
	}
	for s, held := range f.subscribed {
		if !there[s] {
			held.end()
			delete(f.subscribed, s)
		}
	}
	maps.DeleteFunc(f.unheard, func(s source, _ string) bool { return !there[s] })
	for s := range there {
		if _, known := f.subscribed[s]; known {
			continue
		}
		held, err := f.subscribe(s)
		if err != nil { // tried again with the next look
			if f.unheard[s] != err.Error() {
				f.config.Log.Warn("KV events cannot be heard", "component", s.namespace+"."+s.component, "cause", err)
			}
			f.unheard[s] = err.Error()
			continue
		}
		delete(f.unheard, s)
		f.subscribed[s] = held
	}
}

// subscription is one to KV events.
type subscription struct {
	end func()
	err func() error // why nothing is heard now; nil in it, or itself, if something is
}

// broken returns why nothing is heard, nil if something is.
func (s *subscription) broken() error {
	if s.err == nil {
		return nil
	}
	return s.err()
}

func (f *Frontend) subscribe(s source) (*subscription, error) {
	switch s.kind {
	case "Zmq":
		socket := zmtp.Subscribe(s.address, events.KVTopic, f.config.Log, func() { f.catchUp(s) }, f.hearFrames)
		return &subscription{end: socket.Close, err: socket.Err}, nil
	case "Nats":
		nats, err := f.connectedBus()
		if err != nil {
			return nil, err
		}
		unsubscribe, err := nats.Subscribe(s.address, func(data []byte) { f.hear(events.ParseEnvelope(data)) })
		if err != nil {
			return nil, err
		}
		f.catchUp(s)
		return &subscription{end: unsubscribe}, nil
	default:
		return nil, fmt.Errorf("their transport %s is none of Zmq and Nats", s.kind)
	}
}

// A publisher may take a moment to note a subscription: then what it sends is still lost.
var catchUpDelays = []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second}

// catchUp asks the workers of a component for the events that were sent before a subscription.
func (f *Frontend) catchUp(s source) {
	f.running.Go(guard.Func(func() {
		for _, delay := range catchUpDelays {
			select {
			case <-f.life.Done():
				return
			case <-time.After(delay):
			}
			f.feedsMu.RLock()
			for _, feeds := range f.feeds {
				for _, feed := range feeds {
					if e := feed.worker.key; e.Namespace == s.namespace && e.Component == s.component {
						feed.check()
					}
				}
			}
			f.feedsMu.RUnlock()
		}
	}))
}

// hearFrames takes a message of a ZeroMQ socket.
func (f *Frontend) hearFrames(frames [][]byte) { f.hear(events.ParseFrames(frames)) }

// hear takes a message with events.
func (f *Frontend) hear(envelope events.Envelope, err error) {
	var list []events.RouterEvent
	if err == nil {
		list, err = events.ParseRouterEvents(envelope.Payload)
	}
	if err != nil {
		f.config.Log.Debug("events cannot be read", "cause", err)
		return
	}
	f.feedsMu.RLock()
	defer f.feedsMu.RUnlock()
	for _, event := range list {
		for _, feed := range f.feeds[event.WorkerID] {
			if feed.rank == int(event.Event.DPRank) {
				feed.hear(event)
			}
		}
	}
}

// feed is what is heard of the cache of one rank. Events are numbered; if some are missing, the worker is asked for
// them, and those that come meanwhile wait.
type feed struct {
	frontend *Frontend
	worker   *worker
	rank     int
	recovers bool // the worker answers questions about its events

	mu        sync.Mutex
	transport map[string]string // where to ask, nil before that is known
	asking    bool
	heard     bool   // an event has come
	failure   error  // of the last question, nil if it was answered
	complete  bool   // all events up to last are known
	last      uint64 // event
	held      []events.RouterEvent
}

// maxHeld is how many events may wait for an answer. If there are more, everything is asked for.
const maxHeld = 1 << 14

// openFeeds subscribes to the cache events of a worker. Decode workers are not chosen by what they have cached.
func (f *Frontend) openFeeds(w *worker) {
	if !f.usesEvents() || w.card.WorkerType == card.Decode {
		return
	}
	r := &w.card.RuntimeConfig
	f.feedsMu.Lock()
	defer f.feedsMu.Unlock()
	for rank := range r.DataParallelSize {
		f.feeds[w.key.id] = append(f.feeds[w.key.id],
			&feed{frontend: f, worker: w, rank: r.DataParallelStartRank + rank, recovers: r.EnableLocalIndexer})
	}
}

// dropFeeds ends that.
func (f *Frontend) dropFeeds(w *worker) {
	f.feedsMu.Lock()
	defer f.feedsMu.Unlock()
	// another endpoint may have the same id
	left := slices.DeleteFunc(f.feeds[w.key.id], func(d *feed) bool { return d.worker == w })
	if f.feeds[w.key.id] = left; len(left) == 0 {
		delete(f.feeds, w.key.id)
	}
}

// recoverAt tells where the worker answers questions, and asks for everything that it has cached.
func (d *feed) recoverAt(transport map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.transport == nil {
		d.transport = transport
		d.ask()
	}
}

// check asks the worker whether events are missing.
func (d *feed) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.transport != nil {
		d.ask()
	}
}

// hear takes an event in its turn.
func (d *feed) hear(e events.RouterEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = true
	switch {
	case !d.recovers:
		d.apply(e)
	case d.asking || !d.complete:
		d.hold(e)
	case e.Event.ID == d.last+1:
		d.last = e.Event.ID
		d.apply(e)
	case e.Event.ID > d.last:
		d.hold(e)
		d.ask()
	}
}

func (d *feed) hold(e events.RouterEvent) {
	if len(d.held) == maxHeld {
		d.held, d.complete = nil, false
	}
	d.held = append(d.held, e)
}

// apply tells the router.
func (d *feed) apply(e events.RouterEvent) {
	change, counts := routing.EventOf(e.StorageTier)
	if !counts {
		return
	}
	data := e.Event.Data
	change.Cleared = data.Cleared
	if s := data.Stored; s != nil {
		change.Parent = s.ParentHash
		for _, b := range s.Blocks {
			change.Stored = append(change.Stored, routing.Block{Hash: b.BlockHash, TokensHash: b.TokensHash})
		}
	}
	if data.Removed != nil {
		change.Removed = data.Removed.BlockHashes
	}
	p := d.worker.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routing.Apply(d.worker.key.id, d.rank, change)
}

// ask asks the worker for what is missing, in a goroutine of its own. d is locked.
func (d *feed) ask() {
	if d.asking {
		return
	}
	d.asking = true
	d.frontend.running.Go(guard.Func(func() {
		pause := time.Duration(0)
		for {
			select {
			case <-d.worker.gone:
				return
			case <-d.frontend.life.Done():
				return
			case <-time.After(pause):
			}
			err := d.recover()
			d.mu.Lock()
			d.failure = err
			d.mu.Unlock()
			if err == nil && d.settled() {
				return
			}
			if err != nil {
				d.frontend.config.Log.Debug("missed events cannot be had", "worker", discovery.Hex(d.worker.key.id),
					"cause", err)
			}
			pause = time.Second
		}
	}))
}

// recoveryTimeout is how long a worker may take to answer.
const recoveryTimeout = 10 * time.Second

// recover asks once.
func (d *feed) recover() error {
	d.mu.Lock()
	query := events.Query{WorkerID: d.worker.key.id, DPRank: uint32(d.rank)}
	if next := d.last + 1; d.complete {
		query.StartEventID = &next
	}
	transport := d.transport
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(d.frontend.life, recoveryTimeout)
	defer cancel()
	body, _ := json.Marshal(query) // plain values
	answer, err := d.frontend.send(ctx, transport, uuid.NewString(), body)
	if err != nil {
		return err
	}
	defer answer.Close()
	defer context.AfterFunc(ctx, guard.Func(answer.Close))()
	text, err := answer.Body()
	if err != nil {
		return err
	}
	var got struct {
		Data events.Answer `json:"data"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	return d.take(&got.Data)
}

// take takes the answer of a worker.
func (d *feed) take(a *events.Answer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case a.TreeDump != nil:
		d.apply(events.RouterEvent{Event: events.CacheEvent{Data: events.Data{Cleared: true}}})
		for _, e := range a.TreeDump.Events {
			d.apply(e)
		}
		d.last, d.complete = a.TreeDump.LastEventID, true
	case a.Events != nil:
		for _, e := range a.Events.Events {
			if e.Event.ID > d.last {
				d.apply(e)
				d.last = e.Event.ID
			}
		}
	case a.TooNew != nil && a.TooNew.NewestAvailable == d.last: // none is missing
	case a.TooNew != nil: // its numbers have begun anew
		d.complete, d.last = false, 0
		return fmt.Errorf("it has events up to %d only", a.TooNew.NewestAvailable)
	case a.Error != "":
		return fmt.Errorf("%s", a.Error)
	default:
		return fmt.Errorf("got an answer without events")
	}
	return nil
}

// settled takes the events that have waited, and reports whether none is missing any more.
func (d *feed) settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.held
	d.held = nil
	for i, e := range held {
		switch {
		case e.Event.ID == d.last+1:
			d.last = e.Event.ID
			d.apply(e)
		case e.Event.ID > d.last:
			d.held = held[i:]
			return false
		}
	}
	d.asking = !d.complete
	return d.complete
}
