package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dynosim/gocore/guard"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamAge      = time.Hour       // how long a stream keeps messages
	requestTimeout = 5 * time.Second // for JetStream to answer
)

// Stream is a stream of JetStream: the server keeps its messages for later subscribers. Each arrives once, in order.
type Stream struct {
	conn    *Conn
	js      jetstream.JetStream
	subject string
	queue   chan streamMessage
}

type streamMessage struct {
	id   string
	data []byte
}

// OpenStream opens the stream of a name, which is made if it does not exist. Messages go to the subject NAME.topic.
func (c *Conn) OpenStream(name, topic string) (*Stream, error) {
	js, err := jetstream.New(c.nats)
	if err != nil {
		return nil, fmt.Errorf("NATS stream %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".*"}, MaxAge: streamAge, Storage: jetstream.FileStorage,
	})
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("NATS stream %s: the server has no JetStream; start it with -js", name)
	case err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // a stream with other settings will do
		return nil, fmt.Errorf("NATS stream %s: %w", name, err)
	}
	s := &Stream{conn: c, js: js, subject: name + "." + topic, queue: make(chan streamMessage, queueLimit)}
	c.running.Go(guard.Func(s.send))
	return s, nil
}

// Publish adds a message. It never waits: messages queue up, also while the server is away, and those that do not fit
// the queue are lost. The id, which must be unique, keeps a message from being stored twice.
func (s *Stream) Publish(id string, data []byte) {
	select {
	case s.queue <- streamMessage{id, data}:
	default:
		s.conn.lost.Add(1)
	}
}

// send sends one message after the other, each until the server has it. When the stream closes, it tries for a while to
// send those that are left.
func (s *Stream) send() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go guard.Func(func() {
		select {
		case <-s.conn.stop:
			time.AfterFunc(flushTimeout, guard.Func(cancel))
		case <-ctx.Done():
		}
	})()
	for {
		select {
		case m := <-s.queue:
			s.store(ctx, m)
			continue
		case <-s.conn.stop:
		}
		for len(s.queue) > 0 {
			s.store(ctx, <-s.queue)
		}
		return
	}
}

// store sends a message until the server has it or the context ends.
func (s *Stream) store(ctx context.Context, m streamMessage) {
	for failures := 0; ; failures++ {
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		_, err := s.js.Publish(attempt, s.subject, m.data, jetstream.WithMsgID(m.id))
		cancel()
		switch {
		case err == nil:
			return
		case ctx.Err() != nil, errors.Is(err, nats.ErrMaxPayload):
			s.conn.lost.Add(1)
			s.conn.log.Warn("NATS: a message is lost", "subject", s.subject, "bytes", len(m.data), "cause", err)
			return
		case failures == 0:
			s.conn.log.Warn("NATS: a message is not stored; trying again", "subject", s.subject, "cause", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
	}
}
