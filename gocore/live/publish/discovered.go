package publish

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"
)

// Records returns the discovery records of the channels, for frontends of 1.3 and for those of 1.6. host is an address
// of this host that subscribers can reach.
func (w *Worker) Records(host string) []discovery.Record {
	var list []discovery.Record
	e := w.config.Endpoint
	for _, c := range w.Channels() {
		component := e.Component
		if c.NamespaceScoped {
			component = ""
		}
		transport, scoped := discovery.NATS(c.SubjectPrefix), discovery.NATS(c.ScopedPrefix)
		if c.SubjectPrefix == "" {
			transport, scoped = socketAt(host, c.Port), socketAt(host, c.ScopedPort)
		}
		list = append(list, discovery.EventChannelRecord(e.Namespace, component, c.Topic, c.PublisherID, transport),
			discovery.ScopedChannelRecord(e, c.Topic, c.PublisherID, scoped))
	}
	return list
}

func socketAt(host string, port int) discovery.Transport {
	return discovery.ZMQ("tcp://" + net.JoinHostPort(host, strconv.Itoa(port)))
}

// RecoveryEndpoint returns the name of the endpoint where routers of 1.3 ask for events of a rank that they missed.
func RecoveryEndpoint(dpRank int) string { return fmt.Sprintf("worker_kv_indexer_query_dp%d", dpRank) }

// SourceEndpoint returns the same for routers of 1.6, to which the record of an event source tells the rank.
func SourceEndpoint(publisher uint64) string {
	return "worker_kv_query_source_" + discovery.Hex(publisher)
}

// Publisher returns the id of the publisher of the KV events of a rank. There is none if it has no KV events, or a
// stream keeps them.
func (w *Worker) Publisher(dpRank int) (id uint64, ok bool) {
	c := w.ranks[dpRank].channel
	if c == nil {
		return 0, false
	}
	return c.info.PublisherID, true
}

// SourceRecord says who publishes the KV events of a rank. answers is the record of the endpoint where they can be
// asked for, nil if there is none.
func (w *Worker) SourceRecord(dpRank int, publisher uint64, answers *discovery.Record) discovery.Record {
	return discovery.EventSourceRecord(w.config.Endpoint, events.KVTopic, publisher, w.config.WorkerID, dpRank, answers)
}

// Recovery serves both endpoints.
func (w *Worker) Recovery(dpRank int) plane.Handler { return recovery{worker: w, dpRank: dpRank} }

type recovery struct {
	worker *Worker
	dpRank int
}

// Serve implements [plane.Handler]. An error of sending means that the router does not listen any more.
func (r recovery) Serve(_ context.Context, call *plane.Call, reply plane.Reply) {
	var q events.Query
	err := wire.Decode(call.Codec, call.Body, &q)
	call.Decoded()
	if err != nil {
		_ = reply.Refuse("recovery query: " + err.Error())
		return
	}
	if reply.Accept() != nil {
		return
	}
	reply.Item(r.worker.Answer(r.dpRank, q))
	_ = reply.Finish()
}
