package zmtp

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"dynosim/gocore/guard"

	"github.com/gammazero/deque"
)

// The high-water mark: what may wait for a subscriber that reads too slowly. It does not get messages beyond either
// limit.
const (
	maxQueuedMessages = 100_000
	maxQueuedBytes    = 16 << 20
)

// maxTopics is how many topics a subscriber may subscribe to.
const maxTopics = 64

// Pub is a PUB socket: subscribers connect and get the messages whose first frame begins with a topic they named. Its
// methods may be called from any goroutine.
type Pub struct {
	server  *server
	mu      sync.RWMutex
	subs    map[*subscriber]struct{}
	dropped atomic.Uint64
}

// ListenPub binds a PUB socket to a TCP address; port 0 is any free one.
func ListenPub(address string, log *slog.Logger) (*Pub, error) {
	s, err := listen(address, log, "PUB", "SUB", "XSUB")
	if err != nil {
		return nil, err
	}
	p := &Pub{server: s, subs: make(map[*subscriber]struct{})}
	s.start(p.serve)
	return p, nil
}

// Port returns the TCP port that the socket is bound to.
func (p *Pub) Port() int { return p.server.listener.Addr().(*net.TCPAddr).Port }

// Dropped returns how many messages were lost because subscribers read too slowly.
func (p *Pub) Dropped() uint64 { return p.dropped.Load() }

// Subscribed reports whether there is a subscriber of a topic.
func (p *Pub) Subscribed(topic string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for s := range p.subs {
		if s.wants(topic) {
			return true
		}
	}
	return false
}

// Send queues a message for all subscribers of its topic. It never waits. The frames are copied if there are any.
func (p *Pub) Send(frames [][]byte) {
	p.SendLazily(string(frames[0]), func() [][]byte { return frames })
}

// SendLazily does what Send does, for a message that is made only if its topic has subscribers.
func (p *Pub) SendLazily(topic string, frames func() [][]byte) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var message []byte
	for s := range p.subs {
		if !s.wants(topic) {
			continue
		}
		if message == nil {
			message = appendMessage(nil, frames())
		}
		if !s.push(message) {
			p.dropped.Add(1)
		}
	}
}

// Close sends queued messages to the subscribers that read them at once, and closes all connections.
func (p *Pub) Close() { p.server.close() }

func (p *Pub) serve(conn net.Conn, r *bufio.Reader) error {
	s := newSubscriber(conn)
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	written := make(chan struct{})
	go guard.Func(func() {
		defer close(written)
		defer conn.Close() // ends read
		s.write(func() error { return p.server.mayWrite(conn) })
	})()
	err := s.read(r)
	p.mu.Lock()
	delete(p.subs, s)
	p.mu.Unlock()
	s.finish()
	<-written
	return err
}

// subscriber is one connection to a Pub: read on one goroutine, written on another.
type subscriber struct {
	conn   net.Conn
	mu     sync.Mutex
	ready  sync.Cond // something is queued, or finished
	topics map[string]int
	queue  deque.Deque[[]byte]
	bytes  int // queued
	ended  bool
}

func newSubscriber(conn net.Conn) *subscriber {
	s := &subscriber{conn: conn, topics: make(map[string]int)}
	s.ready.L = &s.mu
	return s
}

func (s *subscriber) wants(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix := range s.topics {
		if strings.HasPrefix(topic, prefix) {
			return true
		}
	}
	return false
}

// push queues a message, unless too much is queued already.
func (s *subscriber) push(message []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return true // gone: nothing is lost
	}
	if s.queue.Len() >= maxQueuedMessages || s.bytes+len(message) > maxQueuedBytes && s.queue.Len() > 0 {
		return false
	}
	s.queue.PushBack(message)
	s.bytes += len(message)
	s.ready.Signal()
	return true
}

// finish makes write end after everything queued is sent.
func (s *subscriber) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.ready.Signal()
}

// batchBytes is about how much write hands over to the system at once.
const batchBytes = 64 << 10

// next takes the messages off the queue that fit a batch. An empty result means the end.
func (s *subscriber) next() net.Buffers {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queue.Len() == 0 && !s.ended {
		s.ready.Wait()
	}
	var batch net.Buffers
	for size := 0; s.queue.Len() > 0 && size < batchBytes; {
		message := s.queue.PopFront()
		s.bytes -= len(message)
		size += len(message)
		batch = append(batch, message)
	}
	return batch
}

// write sends what is queued until the end, or until it takes too long. mayWrite sets the deadline of each batch.
func (s *subscriber) write(mayWrite func() error) {
	for {
		batch := s.next()
		if len(batch) == 0 || mayWrite() != nil {
			return
		}
		if _, err := batch.WriteTo(s.conn); err != nil {
			return
		}
	}
}

// read takes subscriptions until the connection ends.
func (s *subscriber) read(r *bufio.Reader) error {
	for {
		f, err := readFrame(r, maxFrameBytes)
		if err != nil {
			return err
		}
		if f.command {
			err = s.command(f.body)
		} else {
			err = s.message(r, f)
		}
		if err != nil {
			return err
		}
	}
}

// command handles a subscription as peers of ZMTP 3.1 send it, or a ping.
func (s *subscriber) command(body []byte) error {
	name, data, err := splitCommand(body)
	switch {
	case err != nil:
		return err
	case name == "SUBSCRIBE":
		return s.subscribe(string(data))
	case name == "CANCEL":
		s.cancel(string(data))
	case name == "PING" && len(data) >= 2:
		s.push(appendCommand(nil, "PONG", data[2:])) // after the time-out comes the context, which goes back
	case name == "ERROR":
		return fmt.Errorf("the peer reports %q", data)
	}
	return nil
}

// message handles a subscription as peers of ZMTP 3.0 send it. Other messages are ignored.
func (s *subscriber) message(r *bufio.Reader, first frame) error {
	message, err := readMessage(r, first, maxFrameBytes)
	if err != nil || len(message) != 1 || len(message[0]) == 0 {
		return err
	}
	topic := string(message[0][1:])
	switch message[0][0] {
	case 0:
		s.cancel(topic)
	case 1:
		return s.subscribe(topic)
	}
	return nil
}

func (s *subscriber) subscribe(topic string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.topics[topic]; !known && len(s.topics) == maxTopics {
		return errors.New("too many topics")
	}
	s.topics[topic]++
	return nil
}

func (s *subscriber) cancel(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[topic]--; s.topics[topic] <= 0 {
		delete(s.topics, topic)
	}
}
