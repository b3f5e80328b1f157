package publish

import (
	"sync"
	"sync/atomic"
	"time"

	"dynosim/gocore/live/publish/events"
)

// unheard finds out whether anybody listens to KV events. A frontend that finds no records of them routes without a
// word.
type unheard struct {
	over  atomic.Bool // there is a subscriber, or the log says that there is none
	mu    sync.Mutex
	first time.Time // when the first events were published
}

// noteUnheard logs once that there is no subscriber to the KV events of any rank although they have been published for
// a while. Over NATS the subscribers are not known.
func (w *Worker) noteUnheard() {
	u := &w.unheard
	if u.over.Load() || w.config.Bus != nil || w.config.Stream != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.first.IsZero() {
		u.first = now
	}
	switch {
	case u.over.Load():
	case w.subscribed():
		u.over.Store(true)
	case now.Sub(u.first) >= w.config.Patience:
		u.over.Store(true)
		w.config.Log.Info("nobody has subscribed to the KV events: no frontend routes by what this worker has cached "+
			"(--router-mode kv does)",
			"seconds", int(now.Sub(u.first).Seconds()))
	}
}

// subscribed reports whether anybody listens to the KV events of a rank.
func (w *Worker) subscribed() bool {
	for _, r := range w.ranks {
		if r.channel != nil && r.channel.subscribed() || r.native != nil && r.native.pub.Subscribed("") {
			return true
		}
	}
	return false
}

// subscribed reports whether anybody listens at a socket of a channel.
func (c *channel) subscribed() bool {
	for _, out := range []outlet{c.out, c.lists} {
		if s, ok := out.(socket); ok && s.Subscribed(events.KVTopic) {
			return true
		}
	}
	return false
}
