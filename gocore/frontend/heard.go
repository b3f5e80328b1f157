package frontend

import (
	"cmp"
	"fmt"
	"time"

	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/protocol/discovery"
)

// hearing is what has been said about the KV events of a worker. Nothing else shows that they do not arrive: its
// requests are answered, but are routed as if it had nothing cached.
type hearing struct {
	heard   bool
	unheard time.Time // since when, zero if they are heard
	warned  bool      // that they are not
}

// noteUnheard logs, for each worker whose KV events have not been heard for a while, why; and when they are heard.
func (f *Frontend) noteUnheard(r *roster, now time.Time) {
	if !f.usesEvents() {
		return
	}
	c := f.connections(r)
	f.feedsMu.RLock()
	defer f.feedsMu.RUnlock()
	for _, w := range f.workers {
		feeds := f.feedsOf(w)
		if len(feeds) == 0 {
			continue
		}
		cause := ""
		for _, d := range feeds {
			cause = cmp.Or(cause, c.cause(d))
		}
		f.noteHearing(w, cause, now)
	}
}

// feedsOf returns the feeds of a worker. feedsMu is locked.
func (f *Frontend) feedsOf(w *worker) (list []*feed) {
	for _, d := range f.feeds[w.key.id] {
		if d.worker == w { // another endpoint may have the same id
			list = append(list, d)
		}
	}
	return list
}

// noteHearing logs what has changed for a worker. cause is why its events are not heard, "" if they are.
func (f *Frontend) noteHearing(w *worker, cause string, now time.Time) {
	h := &w.hearing
	log := f.config.Log.With("worker", discovery.Hex(w.key.id), "endpoint", w.key.Endpoint)
	switch {
	case cause == "":
		if !h.heard {
			log.Info("KV events of a worker are heard")
		}
		*h = hearing{heard: true}
	case h.unheard.IsZero():
		h.unheard = now
	case !h.warned && now.Sub(h.unheard) >= f.config.Patience:
		h.warned, h.heard = true, false
		log.Warn("KV events of a worker are not heard: requests are routed as if it had nothing cached",
			"seconds", int(now.Sub(h.unheard).Seconds()), "cause", cause)
	}
}

// rankKey is a rank of a worker.
type rankKey struct {
	worker uint64
	rank   int
}

// place is a component, whose workers share what records of 1.3 say about channels.
type place struct{ namespace, component string }

// connections is from where KV events come. The records of 1.6 say which rank publishes on a channel, those of 1.3 only
// which component.
type connections struct {
	own    map[rankKey]string // why nothing comes from the channel of a rank, "" if something does
	shared map[place]*string  // as above for channels of which only the component is known: the last one that fails
}

func (f *Frontend) connections(r *roster) connections {
	type publisherKey struct {
		place
		publisher uint64
	}
	endpoints := map[discovery.Endpoint]discovery.Source{} // by the endpoint that answers questions
	for _, s := range r.sources {
		if s.Topic == events.KVTopic && s.Recovery != "" {
			endpoints[discovery.Endpoint{Namespace: s.Namespace, Component: s.Component, Name: s.Recovery}] = s
		}
	}
	ranks := map[publisherKey]rankKey{}
	for key := range r.instances {
		if s, named := endpoints[key.Endpoint]; named {
			ranks[publisherKey{place{s.Namespace, s.Component}, s.Publisher}] = rankKey{key.id, s.DPRank}
		}
	}
	c := connections{own: map[rankKey]string{}, shared: map[place]*string{}}
	for _, channel := range heardOnce(r.channels) {
		at := place{channel.Namespace, channel.Component}
		cause := f.channelCause(sourceOf(channel))
		if rank, known := ranks[publisherKey{at, channel.Publisher}]; known {
			c.own[rank] = cause
			continue
		}
		if c.shared[at] == nil {
			c.shared[at] = new(string)
		}
		*c.shared[at] = cmp.Or(cause, *c.shared[at])
	}
	return c
}

// channelCause returns why nothing comes from a channel, "" if something may.
func (f *Frontend) channelCause(s source) string {
	held := f.subscribed[s]
	if held == nil {
		return f.unheard[s]
	}
	if err := held.broken(); err != nil {
		return fmt.Sprintf("they are published at %s: %v", s.address, err)
	}
	return ""
}

// cause returns why the events of a rank are not heard, "" if they are.
func (c *connections) cause(d *feed) string {
	if says := d.worker.card.RuntimeConfig.PublishesKVEvents; says != nil && !*says {
		return "its card says that it publishes none (kv_event_publishing_enabled: false)"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.recovers && !d.complete {
		switch {
		case d.transport == nil:
			return "no record says where to ask for those before (worker_kv_query_source_ID or " +
				"worker_kv_indexer_query_dpRANK)"
		case d.failure != nil:
			return fmt.Sprintf("asked for those before: %v", d.failure)
		default:
			return "it has not told those before yet"
		}
	}
	key := d.worker.key
	if cause, known := c.own[rankKey{key.id, d.rank}]; known {
		return cause
	}
	if d.heard || d.worker.hearing.heard { // a channel that fails is another one's
		return ""
	}
	if cause := c.shared[place{key.Namespace, key.Component}]; cause != nil {
		return *cause
	}
	return "no record says where they are published (topic kv-events)"
}
