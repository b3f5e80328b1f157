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

// Records returns the discovery records of the channels. host is an address of this host that subscribers can reach.
func (w *Worker) Records(host string) []discovery.Record {
	var list []discovery.Record
	for _, c := range w.Channels() {
		component := w.config.Component
		if c.NamespaceScoped {
			component = ""
		}
		transport := discovery.NATS(c.SubjectPrefix)
		if c.SubjectPrefix == "" {
			transport = discovery.ZMQ("tcp://" + net.JoinHostPort(host, strconv.Itoa(c.Port)))
		}
		list = append(list, discovery.EventChannelRecord(w.config.Namespace, component, c.Topic, c.PublisherID, transport))
	}
	return list
}

// RecoveryEndpoint is the name of the endpoint where routers ask for events of a rank that they missed.
func RecoveryEndpoint(dpRank int) string { return fmt.Sprintf("worker_kv_indexer_query_dp%d", dpRank) }

// Recovery serves that endpoint.
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
