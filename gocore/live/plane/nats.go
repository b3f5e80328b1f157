package plane

import (
	"sync"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/protocol/wire"
)

// NATS takes requests from a NATS server, which has a subject for each endpoint. Answers take the same way as with
// [TCP]: the worker dials back.
type NATS struct {
	plane    *Plane
	bus      *bus.Conn
	refusals chan struct{} // one item for each refusal that is being sent

	mu    sync.Mutex
	stops map[string]func() // by path
}

// ListenNATS opens the plane to frontends that send requests over a NATS server.
func (p *Plane) ListenNATS(b *bus.Conn) *NATS {
	return &NATS{plane: p, bus: b, refusals: make(chan struct{}, 64), stops: map[string]func(){}}
}

// Serve takes requests for a path, which has been registered, from a subject.
func (n *NATS) Serve(path, subject string, s bus.Service) error {
	stop, err := n.bus.Serve(subject, s, func(payload []byte,
		acknowledge func()) {
		n.take(path, payload, acknowledge)
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stops[path] = stop
	return nil
}

// Withdraw ends what Serve began; requests that have been accepted go on.
func (n *NATS) Withdraw(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stop, ok := n.stops[path]; ok {
		stop()
		delete(n.stops, path)
	}
}

// Close withdraws all paths.
func (n *NATS) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, stop := range n.stops {
		stop()
	}
	clear(n.stops)
}

// take hands a request over to its endpoint. The acknowledgement of this plane only says that the request has arrived:
// a refusal goes where the answer would have gone.
func (n *NATS) take(path string, payload []byte, acknowledge func()) {
	received := time.Now()
	release, err := n.plane.hold(len(payload), received.Add(n.plane.bounds.frame))
	if err != nil {
		n.plane.config.Log.Warn("a request is dropped: too many large ones are waiting", "path", path)
		return // it is not acknowledged, so it fails at the frontend
	}
	e, known := n.plane.lookup(path)
	accepted := known && n.plane.submit(func() {
		defer release()
		n.plane.answer(e, payload, received, release)
	})
	acknowledge()
	switch {
	case !known:
		n.refuse(payload, "unknown endpoint "+path, release)
	case !accepted:
		n.refuse(payload, wire.Overloaded, release)
	}
}

// refuse sends the frontend a refusal. It waits while too many refusals are being sent.
func (n *NATS) refuse(payload []byte, reason string, release func()) {
	n.refusals <- struct{}{}
	if !n.plane.streams.begin() {
		<-n.refusals
		release()
		return
	}
	go guard.Func(func() {
		defer n.plane.streams.running.Done()
		defer func() { <-n.refusals }()
		defer release()
		n.plane.refuse(payload, reason)
	})()
}
