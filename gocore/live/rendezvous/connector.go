package rendezvous

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/bootstrap"
)

// Connector is how a decode worker meets the prefill workers of its requests.
type Connector struct {
	config  Config
	started time.Time
	places  *places
}

// NewConnector returns the connector of a worker.
func NewConnector(c Config) *Connector {
	return &Connector{config: c, started: time.Now(), places: newPlaces(&c)}
}

// Run takes a request over, and returns when that is done: nil if the engine has the request, which may emit tokens
// before that. When the context ends, the hand-off is canceled.
func (c *Connector) Run(ctx context.Context, address string, identity bootstrap.Identity, rank int,
	engine Engine) error {
	leave, err := c.places.take(rank)
	if err != nil {
		return err
	}
	defer leave()
	p, err := dial(ctx, address, identity)
	if err != nil {
		return fmt.Errorf("the prefill worker cannot be reached: %w", err)
	}
	go guard.Func(func() { p.read(bufio.NewReader(p.conn)) })()
	register := bootstrap.Register{Rank: uint32(rank), Order: c.config.Order, EngineType: c.config.EngineType}
	destination := bootstrap.NewDestination(register, c.config.TimeoutMs)
	return p.converse(ctx, destination, engine, c.started)
}

func dial(ctx context.Context, address string, identity bootstrap.Identity) (*peer, error) {
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := conn.Write(bootstrap.Header[:]); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return newPeer(conn, identity), nil
}

// Address returns HOST:PORT. The host may be an IPv6 address, in brackets or not.
func Address(host string, port uint16) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
}
