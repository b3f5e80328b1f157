package publish

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/zmtp"
	"dynosim/gocore/protocol/discovery"
)

// outlet carries the messages of one topic to their subscribers, without waiting for them.
type outlet interface {
	// send sends an envelope. encode appends its payload, and is called only if there may be subscribers.
	send(e *events.Envelope, encode func(b []byte) []byte)
	// Dropped is how many messages subscribers have lost.
	Dropped() uint64
}

// socket is a ZeroMQ socket of the worker.
type socket struct{ *zmtp.Pub }

func (s socket) send(e *events.Envelope, encode func(b []byte) []byte) {
	s.SendLazily(e.Topic, func() [][]byte {
		e.Payload = encode(nil)
		return e.Frames()
	})
}

// subject is the subjects of a NATS server on which each message is sent. The server does not tell whether there are
// subscribers. The connection counts messages that are lost.
type subject struct {
	bus   *bus.Conn
	names []string
}

func (s *subject) send(e *events.Envelope, encode func(b []byte) []byte) {
	e.Payload = encode(nil)
	message := e.Append(nil)
	for _, name := range s.names {
		s.bus.Publish(name, message)
	}
}

// Dropped implements outlet.
func (s *subject) Dropped() uint64 { return 0 }

// subjectPrefix begins the subjects of topics, as 1.3 names them.
func (c *Config) subjectPrefix(namespaceScoped bool) string {
	prefix := "namespace." + c.Endpoint.Namespace
	if !namespaceScoped {
		prefix += ".component." + c.Endpoint.Component
	}
	return prefix
}

// scopedPrefix returns what 1.6 has in its place.
func (c *Config) scopedPrefix() string {
	return c.subjectPrefix(false) + ".endpoint." + c.Endpoint.Name
}

// publisherID returns a random number that JSON readers without integers can represent.
func publisherID() uint64 { return rand.Uint64N(1 << 53) }

// OpenStream opens the stream where the KV events of a component are kept, for [Config.Stream].
func OpenStream(c *bus.Conn, e discovery.Endpoint) (*bus.Stream, error) {
	config := Config{Endpoint: e}
	name := strings.NewReplacer(".", "-", "_", "-").Replace(config.subjectPrefix(false) + "." + events.KVTopic)
	return c.OpenStream(name, events.KVTopic)
}

// keep sends an event to a stream, which stores it once.
func keep(s *bus.Stream, e *events.RouterEvent) {
	e.Domain = "" // there are such streams in 1.3 only
	text, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("publish: %v", err)) // it is all plain values
	}
	s.Publish(fmt.Sprintf("%x-%d-%d", e.WorkerID, e.Event.DPRank, e.Event.ID), text)
}
