package publish

import (
	"iter"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/zmtp"
)

// Native is the sockets of one rank for KV events in vLLM's own format. It may be used from several goroutines.
type Native struct {
	mu     sync.Mutex
	events *events.Native
	pub    *zmtp.Pub
	closes []func()
}

// NativeConfig describes these sockets.
type NativeConfig struct {
	Host              string // to bind to, "" for all addresses
	Port, ReplayPort  int    // the latter, which may be 0, is for subscribers that missed some
	BlockSize, DPRank int
	Groups            Groups
	Log               *slog.Logger
}

// OpenNative binds the sockets. After an error none is left open.
func OpenNative(c NativeConfig) (*Native, error) {
	address := func(port int) string { return net.JoinHostPort(c.Host, strconv.Itoa(port)) }
	n := &Native{events: events.NewNative(c.BlockSize, uint32(c.DPRank))}
	n.events.Group(c.Groups.listed())
	var err error
	if n.pub, err = zmtp.ListenPub(address(c.Port), c.Log); err != nil {
		return nil, err
	}
	n.closes = append(n.closes, n.pub.Close)
	if c.ReplayPort == 0 {
		return n, nil
	}
	n.events.KeepForReplay()
	router, err := zmtp.ListenRouter(address(c.ReplayPort), c.Log, n.replay)
	if err != nil {
		n.Close()
		return nil, err
	}
	n.closes = append(n.closes, router.Close)
	return n, nil
}

// Publish sends changes of the cache, whose blocks must have tokens.
func (n *Native) Publish(changes []blocks.Change) {
	unixS := float64(time.Now().UnixMicro()) / 1e6
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range changes {
		if changes[i].To != blocks.Routers {
			n.pub.Send(n.events.Message(&changes[i], unixS).Frames())
		}
	}
}

// replay answers a subscriber that has missed messages.
func (n *Native) replay(request [][]byte) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		start, ok := events.ParseReplay(request)
		if !ok {
			return
		}
		n.mu.Lock()
		missed := n.events.From(start)
		n.mu.Unlock()
		for _, m := range missed {
			if !yield(m.Frames()) {
				return
			}
		}
		yield(events.EndOfReplay())
	}
}

// Close sends queued messages to the subscribers that read them at once, and closes the sockets.
func (n *Native) Close() {
	for _, closeSocket := range n.closes {
		closeSocket()
	}
}
