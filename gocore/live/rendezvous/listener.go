package rendezvous

import (
	"bufio"
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/bootstrap"
)

// maxStrangers is how many connections may exist that have not introduced themselves. Destinations do so at once.
const maxStrangers = 1024

// Listener is where a prefill worker meets the decode workers of its requests.
type Listener struct {
	config   Config
	listener net.Listener
	started  time.Time
	closed   chan struct{}
	places   *places
	pending  sync.WaitGroup // goroutines

	mu        sync.Mutex
	table     *bootstrap.Table[*participant]
	strangers list.List // of net.Conn, oldest first
	conns     map[net.Conn]*peer
}

// participant is one half of a hand-off, as the table has it.
type participant struct {
	peer *peer        // a destination, nil for a source
	met  chan outcome // holds one
}

// outcome ends the wait of a participant for the other one.
type outcome struct {
	peer *peer // the destination, for a source
	err  error // why there is none, or why a destination is refused
}

var (
	errClosed = errors.New("the worker is shutting down")
	errAlone  = fmt.Errorf("the other side of the hand-off has not come within %v", patience)
)

// Listen accepts decode workers on an address.
func Listen(address string, c Config) (*Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		config: c, listener: listener, started: time.Now(), closed: make(chan struct{}), places: newPlaces(&c),
		table: bootstrap.NewTable[*participant](c.PerRank*c.Ranks, c.TimeoutMs),
		conns: map[net.Conn]*peer{},
	}
	l.pending.Go(guard.Func(l.accept))
	return l, nil
}

// Addr returns where the listener listens.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close ends all hand-offs, and waits for that.
func (l *Listener) Close() {
	l.mu.Lock()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	_ = l.listener.Close()
	for conn, p := range l.conns {
		if p == nil {
			_ = conn.Close()
		} else {
			p.hurry() // a hand-off may just have been completed, which the destination has to be told
		}
	}
	l.mu.Unlock()
	l.pending.Wait()
}

// Serve hands a request over, and returns when that is done: nil if the destination has it. The engine gets the request
// when the destination has connected. When the context ends, the hand-off is canceled.
func (l *Listener) Serve(ctx context.Context, identity bootstrap.Identity, rank int, held bootstrap.Held,
	engine Engine) error {
	leave, err := l.places.take(rank)
	if err != nil {
		return err
	}
	defer leave()
	p, err := l.meet(ctx, identity)
	if err != nil {
		return err
	}
	defer l.retire(identity)
	source := bootstrap.NewSource(l.config.Order, held, l.config.TimeoutMs)
	return p.converse(ctx, source, engine, l.started)
}

// meet returns the destination of a request.
func (l *Listener) meet(ctx context.Context, identity bootstrap.Identity) (*peer, error) {
	self := &participant{met: make(chan outcome, 1)}
	other, err := l.offer(identity, bootstrap.SourceSide, l.config.half(), self)
	var pair *bootstrap.PairError[*participant]
	switch {
	case err == nil:
		other.met <- outcome{}
		return other.peer, nil
	case errors.As(err, &pair):
		pair.Other.met <- outcome{err: err}
	case errors.Is(err, bootstrap.ErrWaiting):
		return l.await(ctx, identity, self)
	}
	return nil, err
}

// await waits for the destination of a request.
func (l *Listener) await(ctx context.Context, identity bootstrap.Identity, self *participant) (*peer, error) {
	var err error
	select {
	case e := <-self.met:
		return e.peer, e.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(patience):
		err = errAlone
	case <-l.closed:
		err = errClosed
	}
	if l.withdraw(identity) {
		return nil, err
	}
	e := <-self.met
	return e.peer, e.err
}

func (l *Listener) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			select {
			case <-l.closed:
				return
			case <-time.After(10 * time.Millisecond): // for example, no more file descriptors
				continue
			}
		}
		l.pending.Go(guard.Func(func() { l.welcome(conn) }))
	}
}

// welcome reads the introduction of a connection, and keeps it until a source takes it over.
func (l *Listener) welcome(conn net.Conn) {
	known, open := l.enter(conn)
	if !open {
		_ = conn.Close()
		return
	}
	in := bufio.NewReader(conn)
	p, register, err := introduce(conn, in)
	known()
	if err != nil {
		l.config.Log.Debug("a connection to the bootstrap port was none of a decode worker", "peer", conn.RemoteAddr(),
			"cause", err)
		_ = conn.Close()
		l.exit(conn)
		return
	}
	l.mu.Lock()
	l.conns[conn] = p
	l.mu.Unlock()
	l.pending.Go(guard.Func(func() {
		p.read(in)
		l.exit(conn)
	}))
	if refusal := l.receive(p, register); refusal != nil {
		_ = p.send([]bootstrap.Message{refusal})
		p.leave()
	}
}

// introduce reads the introduction of a destination.
func introduce(conn net.Conn, in *bufio.Reader) (*peer, bootstrap.Register, error) {
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if err := bootstrap.ReadHeader(in); err != nil {
		return nil, bootstrap.Register{}, err
	}
	f, err := bootstrap.ReadFrame(in)
	if err != nil {
		return nil, bootstrap.Register{}, err
	}
	register, ok := f.Message.(bootstrap.Register)
	if !ok {
		return nil, bootstrap.Register{}, fmt.Errorf("it began with %q", f.Message)
	}
	_ = conn.SetReadDeadline(time.Time{})
	return newPeer(conn, f.Identity), register, nil
}

// receive brings a destination to its source. It returns the refusal to send, nil if there is none.
func (l *Listener) receive(p *peer, r bootstrap.Register) (refusal bootstrap.Message) {
	self := &participant{peer: p, met: make(chan outcome, 1)}
	half := bootstrap.Half[*participant]{Order: r.Order, EngineType: r.EngineType}
	other, err := l.offer(p.identity, bootstrap.DestinationSide, half, self)
	var pair *bootstrap.PairError[*participant]
	switch {
	case err == nil:
		other.met <- outcome{peer: p}
		return nil
	case errors.As(err, &pair):
		pair.Other.met <- outcome{err: err}
	case errors.Is(err, bootstrap.ErrWaiting):
		err = l.stay(p, self)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bootstrap.ErrCapacity):
		return bootstrap.Overloaded{}
	default:
		return bootstrap.ProtocolError{Reason: err.Error()}
	}
}

// stay waits for the request of a destination. The error is nil if it has come.
func (l *Listener) stay(p *peer, self *participant) (err error) {
	select {
	case e := <-self.met:
		return e.err
	case <-p.gone:
		err = p.cause
	case <-time.After(patience):
		err = errAlone
	case <-l.closed:
		err = errClosed
	}
	if l.withdraw(p.identity) {
		return err
	}
	return (<-self.met).err
}

func (c *Config) half() bootstrap.Half[*participant] {
	return bootstrap.Half[*participant]{Order: c.Order, EngineType: c.EngineType}
}

func (l *Listener) offer(id bootstrap.Identity, side bootstrap.Side, half bootstrap.Half[*participant],
	self *participant) (*participant, error) {
	half.Identity, half.Side, half.Handle = id, side, self
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.Offer(half, l.nowMs())
}

func (l *Listener) withdraw(id bootstrap.Identity) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.Withdraw(id.HandoffID, l.nowMs())
}

func (l *Listener) retire(id bootstrap.Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.Retire(id.HandoffID, l.nowMs())
}

// enter counts a connection among the strangers until known is called. If there are too many, the oldest is closed.
func (l *Listener) enter(conn net.Conn) (known func(), open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil, false
	default:
	}
	l.conns[conn] = nil
	place := l.strangers.PushBack(conn)
	if l.strangers.Len() > maxStrangers {
		oldest := l.strangers.Remove(l.strangers.Front()).(net.Conn)
		_ = oldest.Close()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.strangers.Remove(place) // nothing happens if it was removed before
	}, true
}

func (l *Listener) exit(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

func (l *Listener) nowMs() float64 { return milliseconds(time.Since(l.started)) }

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
