package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime/debug"

	"github.com/google/uuid"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/handoff"
	"dynosim/gocore/live/rendezvous"
	"dynosim/gocore/protocol/bootstrap"
	"dynosim/gocore/protocol/wire"
	"dynosim/gocore/worker"
)

// handoffs is the part of a worker in its hand-offs.
type handoffs struct {
	role     engine.Role
	transfer handoff.Transfer
	// listener is nil without a bootstrap port, and on workers that are no prefill workers.
	listener  *rendezvous.Listener
	connector *rendezvous.Connector // of a decode worker
}

// openHandoffs makes a prefill worker listen on address if that is not empty.
func openHandoffs(args *engineargs.Args, address string, config rendezvous.Config) (*handoffs, error) {
	h := &handoffs{role: args.Role}
	h.transfer = handoff.Transfer{BytesPerToken: args.Transfer.BytesPerToken, BandwidthGBs: args.Transfer.BandwidthGBs}
	if args.Transfer.DestinationMissing {
		h.transfer.Mode = handoff.DestinationMissing
	}
	switch {
	case args.Role == engine.Decode:
		h.connector = rendezvous.NewConnector(config)
	case args.Role == engine.Prefill && address != "":
		listener, err := rendezvous.Listen(address, config)
		if err != nil {
			return nil, fmt.Errorf("bootstrap port: %w", err)
		}
		h.listener = listener
	}
	return h, nil
}

// port returns where the listener listens; there has to be one.
func (h *handoffs) port() int { return h.listener.Addr().(*net.TCPAddr).Port }

func (h *handoffs) close() {
	if h != nil && h.listener != nil {
		h.listener.Close()
	}
}

// rendezvousConfig bounds the hand-offs of a rank by the requests that its engine runs at the same time.
func rendezvousConfig(args *engineargs.Args) rendezvous.Config {
	c := rendezvous.Config{
		EngineType: args.EngineType.String(), Ranks: args.Live.Ranks, PerRank: args.MaxNumSeqs,
		TimeoutMs: float64(args.Live.HandoffTimeoutMs), Order: worker.Traits(*args).HandoffOrder,
	}
	if args.MaxNumSeqs == math.MaxInt {
		c.PerRank = args.NumGPUBlocks
	}
	return c
}

// check returns the reason why a request cannot be handed over here, "" if it can.
func (h *handoffs) check(info *wire.Bootstrap) string {
	switch {
	case h.role == engine.Aggregated:
		return "bootstrap_info: this worker is aggregated, it takes no prompts from others"
	case info.HandoffID == nil:
		return "bootstrap_info: disaggregated mocker requires a handoff ID"
	case h.role == engine.Prefill && h.listener == nil:
		return "bootstrap_info: this prefill worker has no bootstrap port; start it with bootstrap_ports"
	}
	return ""
}

// identify returns the identity of a hand-off, which both of its workers derive from the request. callID is a UUID,
// unless the client is not one of Dynamo.
func identify(info *wire.Bootstrap, callID string) bootstrap.Identity {
	requestID, err := uuid.Parse(callID)
	if err != nil {
		requestID = uuid.New()
	}
	return bootstrap.Identity{HandoffID: info.HandoffID.UUID, Room: info.Room, RequestID: requestID}
}

// run hands a request over and returns when that is done: nil if the destination has it. After an error, the engine of
// this worker has been told to drop the request.
func (h *handoffs) run(ctx context.Context, info *wire.Bootstrap, id bootstrap.Identity, dpRank, promptTokens int,
	s rendezvous.Engine) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("internal: %v\n%s", cause, debug.Stack())
		}
	}()
	if h.role == engine.Prefill {
		held := bootstrap.Held{PromptTokens: promptTokens, Transfer: h.transfer}
		return h.listener.Serve(ctx, id, dpRank, held, s)
	}
	return h.connector.Run(ctx, rendezvous.Address(info.Host, info.Port), id, dpRank, s)
}

// errClientGone is why hand-offs are canceled.
var errClientGone = errors.New("the client has gone")
