package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/live/guard"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/zmtp"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
)

// channelKey identifies an event channel.
type channelKey struct {
	namespace, component string
	publisher            uint64
}

// subscription is to the KV events of one channel.
type subscription struct {
	transport discovery.Transport
	close     func()
}

// followChannels subscribes to the KV events of all workers that are there, and to no others.
func (f *Frontend) followChannels(channels []discovery.Channel) {
	if f.config.Mode != routing.KV {
		return
	}
	there := map[channelKey]discovery.Channel{}
	for _, c := range channels {
		if c.Topic == events.KVTopic {
			there[channelKey{c.Namespace, c.Component, c.Publisher}] = c
		}
	}
	for key, s := range f.channels {
		if c, stays := there[key]; !stays || fmt.Sprint(c.Transport) != fmt.Sprint(s.transport) {
			s.close()
			delete(f.channels, key)
		}
	}
	for key, c := range there {
		if _, known := f.channels[key]; known {
			continue
		}
		s, err := f.subscribe(c)
		if err != nil {
			f.config.Log.Warn("KV events of a worker cannot be heard", "publisher", discovery.Hex(key.publisher), "cause", err)
			continue // tried again with the next look
		}
		f.channels[key] = s
	}
}

func (f *Frontend) subscribe(c discovery.Channel) (*subscription, error) {
	switch t := c.Transport; t.Kind {
	case "Zmq":
		s := zmtp.Subscribe(strings.TrimPrefix(t.Config["endpoint"], "tcp://"), c.Topic, f.config.Log, func() { f.catchUp(c) }, f.hearFrames)
		return &subscription{t, s.Close}, nil
	case "Nats":
		nats, err := f.connectedBus()
		if err != nil {
			return nil, err
		}
		stop, err := nats.Subscribe(t.Config["subject_prefix"]+"."+c.Topic, func(data []byte) { f.hear(events.ParseEnvelope(data)) })
		if err == nil {
			f.catchUp(c)
		}
		return &subscription{t, stop}, err
	default:
		f.config.Log.Warn("KV events of a worker cannot be heard", "publisher", discovery.Hex(c.Publisher), "transport", t.Kind)
		return &subscription{t, func() {}}, nil
	}
}

// A publisher may take a moment to note a subscription: then what it sends is still lost.
var catchUpDelays = []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second}

// catchUp asks workers for the events that were sent before the subscription to a channel.
func (f *Frontend) catchUp(c discovery.Channel) {
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
					if e := feed.worker.key; e.Namespace == c.Namespace && e.Component == c.Component {
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

// hear takes an event.
func (f *Frontend) hear(envelope events.Envelope, err error) {
	var event events.RouterEvent
	if err == nil {
		event, err = events.ParseRouterEvent(envelope.Payload)
	}
	if err != nil {
		f.config.Log.Debug("an event cannot be read", "cause", err)
		return
	}
	f.feedsMu.RLock()
	defer f.feedsMu.RUnlock()
	for _, feed := range f.feeds[event.WorkerID] {
		if feed.rank == int(event.Event.DPRank) {
			feed.hear(event)
		}
	}
}

// feed is what is heard of the cache of one rank. Events are numbered; if some are missing, the worker is asked for them, and those
// that come meanwhile wait.
type feed struct {
	frontend *Frontend
	worker   *worker
	rank     int
	recovers bool // the worker answers questions about its events

	mu        sync.Mutex
	transport map[string]string // where to ask, nil before that is known
	asking    bool
	complete  bool   // all events up to last are known
	last      uint64 // event
	held      []events.RouterEvent
}

// maxHeld is how many events may wait for an answer. If there are more, everything is asked for.
const maxHeld = 1 << 14

// openFeeds begins to hear of the caches of a worker. Decode workers are not chosen by what they have cached.
func (f *Frontend) openFeeds(w *worker) {
	if f.config.Mode != routing.KV || w.card.WorkerType == card.Decode {
		return
	}
	r := &w.card.RuntimeConfig
	f.feedsMu.Lock()
	defer f.feedsMu.Unlock()
	for rank := range r.DataParallelSize {
		f.feeds[w.key.id] = append(f.feeds[w.key.id], &feed{frontend: f, worker: w, rank: r.DataParallelStartRank + rank, recovers: r.EnableLocalIndexer})
	}
}

// dropFeeds ends that.
func (f *Frontend) dropFeeds(w *worker) {
	f.feedsMu.Lock()
	defer f.feedsMu.Unlock()
	delete(f.feeds, w.key.id)
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
	if e.StorageTier != "device" && e.StorageTier != "" {
		return
	}
	data := e.Event.Data
	change := routing.Event{Cleared: data.Cleared}
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
			if err == nil && d.settled() {
				return
			}
			if err != nil {
				d.frontend.config.Log.Debug("missed events cannot be had", "worker", discovery.Hex(d.worker.key.id), "cause", err)
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
