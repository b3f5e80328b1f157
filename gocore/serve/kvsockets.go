package serve

import (
	"errors"
	"fmt"
	"log/slog"

	"dynosim/gocore/engine"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish"
	"dynosim/gocore/server/cluster"
	"dynosim/gocore/strictjson"
)

// parseEventPorts reads where the KV events of the workers of a server are published: of those that compute prompts.
func (m *servedModel) parseEventPorts(o *strictjson.Object) (err error) {
	args := &m.pools[0].Args
	ranks := max(1, args.Live.Ranks)
	workers := m.pools[0].Workers
	if args.Ranks <= 1 {
		workers /= ranks
	}
	if m.eventsPorts, err = ports(o, "zmq_kv_events_ports", ranks, workers); err != nil {
		return err
	}
	if m.replayPorts, err = ports(o, "zmq_replay_ports", ranks, workers); err != nil {
		return err
	}
	switch {
	case m.eventsPorts == nil && m.replayPorts != nil:
		return errors.New("zmq_replay_ports: requires zmq_kv_events_ports")
	case m.eventsPorts == nil:
		return nil
	case !args.PrefixCaching:
		return errors.New("zmq_kv_events_ports: there are no KV events without enable_prefix_caching")
	case args.Ranks > 1:
		return fmt.Errorf("zmq_kv_events_ports: got %s, want it left out with ranks that run their passes together",
			o.Shown("zmq_kv_events_ports"))
	}
	return nil
}

// kvSockets are the sockets by which the workers of a model publish their KV events, by worker.
type kvSockets []*publish.Native

// openKVSockets opens those of the first pool, or of one rank of its only worker if a server is one rank. After an
// error none is left open.
func (m *servedModel) openKVSockets(rank *int, log *slog.Logger) (sockets kvSockets, err error) {
	if m.eventsPorts == nil {
		return nil, nil
	}
	ranks := max(1, m.pools[0].Args.Live.Ranks)
	for worker, port := range m.eventsPorts {
		for r := range ranks {
			if rank != nil && r != *rank {
				continue
			}
			c := publish.NativeConfig{Host: m.eventsHost, Port: port + r, BlockSize: m.pools[0].Args.BlockSize,
				DPRank: r, Log: log}
			if m.replayPorts != nil {
				c.ReplayPort = m.replayPorts[worker] + r
			}
			socket, err := publish.OpenNative(c)
			if err != nil {
				sockets.close()
				return nil, fmt.Errorf("zmq_kv_events_ports: %w", err)
			}
			sockets = append(sockets, socket)
		}
	}
	return sockets, nil
}

// listen makes a cluster publish what its workers store and remove.
func (s kvSockets) listen(c *cluster.Config) {
	if s == nil {
		return
	}
	c.CacheChanged = func(pool, worker int, changes []blocks.Change) {
		if pool == 0 {
			s[worker].Publish(changes)
		}
	}
}

func (s kvSockets) close() {
	for _, socket := range s {
		socket.Close()
	}
}

// rankPorts makes each data-parallel rank a server of its own.
const rankPorts = "data_parallel_ports"

// parseRankPorts finds out how many servers a process is.
func (s *serverSpec) parseRankPorts(o *strictjson.Object) error {
	s.ranks = 1
	if !o.Bool(rankPorts) {
		return nil
	}
	wrong := func(want string) error { return &strictjson.FieldError{Field: rankPorts, Got: "true", Want: want} }
	if o.Given("models") {
		return wrong("it left out with models")
	}
	m := &s.models[0]
	args := &m.pools[0].Args
	ranks := args.Live.Ranks
	switch {
	case args.Ranks > 1:
		return wrong("it left out with ranks that run their passes together: they are one server")
	case len(m.pools) != 1 || args.Role != engine.Aggregated || m.pools[0].Workers != ranks:
		return wrong("one worker, whose ranks are the servers")
	case ranks < 2:
		return wrong("data_parallel_size of 2 or more with it")
	case m.record != "":
		return wrong("record left out with it: each rank has requests of its own")
	case m.asked != "":
		return wrong("router left out with it: there is one worker behind each port")
	}
	port := o.Int("http_port")
	if port > 0 && port+ranks-1 > 65535 {
		return &strictjson.FieldError{Field: "http_port", Got: fmt.Sprint(port),
			Want: fmt.Sprintf("at most %d for %d ranks", 65536-ranks, ranks)}
	}
	s.ranks = ranks
	m.pools[0].Workers = 1
	return nil
}
