package publish

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/zmtp"
	"dynosim/gocore/protocol/discovery"
)

// Config describes the worker whose events are published.
type Config struct {
	WorkerID uint64 // its instance id
	Ranks    int    // data-parallel ranks, at least 1
	// KVEvents is false for workers whose cache is no use to a router: without prefix caching, or decoding only.
	KVEvents bool
	// NativePort and ReplayPort are the first of Ranks ports for events in vLLM's own format, and for subscribers that
	// missed some; 0 is none. The former needs KVEvents and tables that keep tokens, the latter the former.
	NativePort, ReplayPort int
	BlockSize              int // tokens
	Groups                 Groups
	Host                   string             // to bind sockets to, "" for all addresses
	Endpoint               discovery.Endpoint // where the worker generates: subjects and records name it
	Bus                    *bus.Conn          // to publish over; nil if the worker has sockets of its own
	// keeps KV events for later subscribers; nil if they go to the current ones only
	Stream     *bus.Stream
	KVEventLag time.Duration // how long after a change of the cache it is published; 0 for at once
	// how long KV events may be published without a subscriber before that is logged
	Patience time.Duration
	Log      *slog.Logger
}

// Groups are the groups of layers of an engine beside the one of full attention, which are alike. The zero value has
// none.
type Groups struct {
	Beside int
	Linear bool
	Window int // tokens; 0 for linear attention
}

// listed describes all groups as events do; it is empty if there is one only.
func (g Groups) listed() []events.LayerGroup {
	if g.Beside == 0 {
		return nil
	}
	beside := events.LayerGroup{Kind: events.SlidingWindow, Window: g.Window}
	if g.Linear {
		beside = events.LayerGroup{Kind: events.Linear}
	}
	return append([]events.LayerGroup{{Kind: events.FullAttention}},
		slices.Repeat([]events.LayerGroup{beside}, g.Beside)...)
}

// Channel is what subscribers have to find: a socket, or a subject of a NATS server.
type Channel struct {
	Topic           string
	NamespaceScoped bool   // the topic is that of a namespace, not of a component in it
	PublisherID     uint64 // a random number
	// Port is that of the socket for frontends of 1.3, and ScopedPort for those of 1.6.
	Port, ScopedPort int
	// If there is no socket, the subject is this, a dot and the topic: SubjectPrefix for frontends of 1.3, ScopedPrefix
	// for those of 1.6.
	SubjectPrefix, ScopedPrefix string
}

// Worker publishes for one worker. Its methods may be called from any goroutine.
type Worker struct {
	config Config
	ranks  []*rank
	loads  *channel
	passes *channel
	start  time.Time

	unheard unheard

	mu     sync.Mutex // of gauges and counters, and of the order in which their messages are sent
	wake   chan struct{}
	stop   chan struct{}
	done   sync.WaitGroup
	closes []func()
}

// rank is what is kept for each data-parallel rank.
type rank struct {
	id       uint32
	workerID uint64
	gauge    events.LoadGauge
	counter  events.PassCounter

	mu      sync.Mutex // of the following
	late    []lateChanges
	feed    *events.Feed
	channel *channel // nil without KVEvents, or with a stream
	stream  *bus.Stream
	native  *Native // nil unless there is a port for it
}

// Start binds the sockets. After an error none is left open.
func Start(c Config) (*Worker, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	w := &Worker{config: c, start: time.Now(), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if err := w.bind(c); err != nil {
		w.closeSockets()
		return nil, err
	}
	w.done.Go(guard.Func(w.keepTime))
	return w, nil
}

func (c *Config) check() error {
	switch {
	case c.Ranks < 1:
		return fmt.Errorf("ranks: got %d, want at least 1", c.Ranks)
	case c.NativePort != 0 && !c.KVEvents:
		return errors.New("a port for KV events: this worker has none (prefix caching is off, or it decodes only)")
	case c.ReplayPort != 0 && c.NativePort == 0:
		return errors.New("a port to replay KV events: needs one to publish them")
	}
	return errors.Join(checkPorts("KV events", c.NativePort, c.Ranks),
		checkPorts("replays of KV events", c.ReplayPort, c.Ranks))
}

func checkPorts(what string, first, count int) error {
	if last := first + count - 1; first < 0 || first > 0 && last > 65535 {
		return fmt.Errorf("ports for %s: got %d to %d, want at most 65535", what, first, last)
	}
	return nil
}

func (w *Worker) bind(c Config) (err error) {
	if w.passes, err = w.listen(c, events.ForwardPassTopic, false); err != nil {
		return err
	}
	if w.loads, err = w.listen(c, events.LoadTopic, true); err != nil {
		return err
	}
	for i := range c.Ranks {
		r := &rank{
			id:       uint32(i),
			workerID: c.WorkerID,
			counter:  events.NewPassCounter(c.WorkerID, uint32(i), w.nowMs()),
			feed:     events.NewFeed(c.WorkerID, uint32(i)),
		}
		if c.KVEvents && c.Stream != nil {
			r.stream = c.Stream
		} else if c.KVEvents {
			if r.channel, err = w.listen(c, events.KVTopic, false); err != nil {
				return err
			}
		}
		if err = w.bindNative(c, r); err != nil {
			return err
		}
		w.ranks = append(w.ranks, r)
	}
	return nil
}

func (w *Worker) bindNative(c Config, r *rank) error {
	if c.NativePort == 0 {
		return nil
	}
	native := NativeConfig{Host: c.Host, Port: c.NativePort + int(r.id), BlockSize: c.BlockSize, DPRank: int(r.id),
		Groups: c.Groups, Log: c.Log}
	if c.ReplayPort != 0 {
		native.ReplayPort = c.ReplayPort + int(r.id)
	}
	var err error
	if r.native, err = OpenNative(native); err == nil {
		w.closes = append(w.closes, r.native.Close)
	}
	return err
}

func (c *Config) address(port int) string { return net.JoinHostPort(c.Host, strconv.Itoa(port)) }

// Channels lists the channels that discovery records have to contain: for loads and passes, and for the KV events of
// each rank.
func (w *Worker) Channels() []Channel {
	list := []Channel{w.passes.info, w.loads.info}
	for _, r := range w.ranks {
		if r.channel != nil {
			list = append(list, r.channel.info)
		}
	}
	return list
}

// Cache publishes what a rank has done to its cache, now or after the lag. It keeps the changes, which must not be
// written to any more.
func (w *Worker) Cache(dpRank int, changes []blocks.Change) {
	r := w.ranks[dpRank]
	if !w.config.KVEvents || len(changes) == 0 {
		return
	}
	if w.config.KVEventLag > 0 {
		w.postpone(r, changes)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.publishCache(r, changes)
}

// publishCache publishes changes of a rank, whose lock is held.
func (w *Worker) publishCache(r *rank, changes []blocks.Change) {
	w.noteUnheard()
	for _, e := range r.feed.Apply(changes) {
		if r.stream != nil {
			keep(r.stream, &e)
		} else {
			r.channel.publish(e.Append)
		}
	}
	if r.native != nil {
		r.native.Publish(changes)
	}
}

// Pass publishes what a pass of a rank did, at its end. wallTimeS is how long it took.
func (w *Worker) Pass(dpRank int, work engine.Work, wallTimeS float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.ranks[dpRank].counter.Next(work, wallTimeS, w.nowMs())
	w.passes.publish(f.Append)
}

// Load publishes, within a millisecond, how many blocks the running sequences of a rank use, if that has changed.
func (w *Worker) Load(dpRank, usedBlocks int) {
	w.mu.Lock()
	g := &w.ranks[dpRank].gauge
	_, before := g.DueMs()
	g.Set(uint64(usedBlocks), w.nowMs())
	_, after := g.DueMs()
	w.mu.Unlock()
	if after && !before {
		w.wakeUp()
	}
}

// wakeUp makes the sending goroutine check again what is due.
func (w *Worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Answer answers a recovery query to a rank.
func (w *Worker) Answer(dpRank int, q events.Query) events.Answer {
	r := w.ranks[dpRank]
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.feed.Answer(q)
}

// Dropped returns how many messages subscribers of sockets lost because they read too slowly.
func (w *Worker) Dropped() uint64 {
	n := w.loads.dropped() + w.passes.dropped()
	for _, r := range w.ranks {
		if r.channel != nil {
			n += r.channel.dropped()
		}
		if r.native != nil {
			n += r.native.pub.Dropped()
		}
	}
	return n
}

// Close sends queued messages to the subscribers that read them at once, and closes all sockets.
func (w *Worker) Close() {
	close(w.stop)
	w.done.Wait()
	w.closeSockets()
}

// closeSockets closes all sockets at the same time: each may take a while.
func (w *Worker) closeSockets() {
	var wait sync.WaitGroup
	for _, closeSocket := range w.closes {
		wait.Go(guard.Func(closeSocket))
	}
	wait.Wait()
}

// nowMs returns the time since Start.
func (w *Worker) nowMs() float64 { return float64(time.Since(w.start)) / float64(time.Millisecond) }

// channel is a publisher of the event plane. 1.6 sends a list of KV events in a message and 1.3 one event, so these go
// out in both ways.
type channel struct {
	info  Channel
	out   outlet
	lists outlet // of messages for 1.6; nil if out serves both

	mu       sync.Mutex
	sequence uint64
}

func (w *Worker) listen(c Config, topic string, namespaceScoped bool) (*channel, error) {
	ch := &channel{info: Channel{Topic: topic, NamespaceScoped: namespaceScoped, PublisherID: publisherID()}}
	twice := topic == events.KVTopic
	if c.Bus != nil {
		ch.info.SubjectPrefix, ch.info.ScopedPrefix = c.subjectPrefix(namespaceScoped), c.scopedPrefix()
		plain, scoped := ch.info.SubjectPrefix+"."+topic, ch.info.ScopedPrefix+"."+topic
		if twice {
			ch.out, ch.lists = &subject{c.Bus, []string{plain}}, &subject{c.Bus, []string{scoped}}
		} else {
			ch.out = &subject{c.Bus, []string{plain, scoped}}
		}
		return ch, nil
	}
	pub, err := w.openSocket(c, topic)
	if err != nil {
		return nil, err
	}
	ch.out, ch.info.Port, ch.info.ScopedPort = socket{pub}, pub.Port(), pub.Port()
	if twice {
		if pub, err = w.openSocket(c, topic); err != nil {
			return nil, err
		}
		ch.lists, ch.info.ScopedPort = socket{pub}, pub.Port()
	}
	return ch, nil
}

func (w *Worker) openSocket(c Config, topic string) (*zmtp.Pub, error) {
	pub, err := zmtp.ListenPub(c.address(0), c.Log)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	w.closes = append(w.closes, pub.Close)
	return pub, nil
}

// publish sends an event, which is encoded only if there may be subscribers.
func (c *channel) publish(encode func(b []byte) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := events.Envelope{
		PublisherID: c.info.PublisherID,
		Sequence:    c.sequence,
		PublishedAt: uint64(time.Now().UnixMilli()),
		Topic:       c.info.Topic,
	}
	c.sequence++
	c.out.send(&e, encode)
	if c.lists != nil {
		c.lists.send(&e, func(b []byte) []byte { return encode(events.AppendListOfOne(b)) })
	}
}

// dropped returns how many messages subscribers have lost.
func (c *channel) dropped() uint64 {
	n := c.out.Dropped()
	if c.lists != nil {
		n += c.lists.Dropped()
	}
	return n
}
