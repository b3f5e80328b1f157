package fleet

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/handoff"
	"dynosim/gocore/worker"
)

// imports is the way of requests through one pool whose workers may get the KV of prompts from outside the fleet. A
// request with such a prompt takes room on its worker, waits for the transfer, and is served without computing the
// prompt; all others are served as by direct.
//
//	waits for room  |--transfer--|  until the pass that runs has ended  |--token--|--token--|
type imports struct {
	direct
	moving  map[engine.RequestID]importing // requests that have room, until they are activated
	landed  []engine.RequestID             // those whose KV is there and whose worker is idle
	refused []engine.Rejection             // those for which there can never be room
}

// importing is the transfer of a prompt to a worker, and the event that ends it; none once the KV is there.
type importing struct {
	worker int
	due    int64
}

var _ flow = (*imports)(nil)

// Imports reports whether engines can take over a prompt that another server has computed.
func Imports(args engineargs.Args) bool {
	return worker.Traits(args).Handoff == engine.Coordinated && worker.RequestDelay(args) == worker.Delay{}
}

func newImports(f *Fleet) *imports {
	return &imports{direct: *newDirect(f), moving: map[engine.RequestID]importing{}}
}

func (m *imports) equip(p *Pool, i int) {
	w := &p.workers[i]
	w.destination = w.Engine.(engine.Destination)
}

// receive hands a request to a worker, or asks it for room for the prompt.
func (m *imports) receive(p *Pool, i int, id engine.RequestID) {
	r := m.World.Request(id)
	if !r.Pull {
		m.direct.receive(p, i, id)
		return
	}
	m.halt(p, i)
	m.Recorder.Joined(p, i, id)
	r.Pull, r.SentMs = false, m.nowMs
	if err := p.workers[i].destination.Reserve(r); err != nil {
		m.refused = append(m.refused, engine.Rejection{ID: id, Reason: err.Error()})
		return
	}
	m.freed(p, i)
}

// freed looks for room for the requests that wait for it on an idle worker.
func (m *imports) freed(p *Pool, i int) {
	if !p.workers[i].Busy() {
		m.tryReserve(p, i)
	}
}

// tryReserve begins the transfers of the prompts for which a worker has room.
func (m *imports) tryReserve(p *Pool, i int) (changed bool) {
	for {
		room, found := p.workers[i].destination.TryReserve()
		if !found {
			return changed
		}
		changed = true
		m.push(m.nowMs+m.Transfer.DelayMs(m.World.Request(room.ID).PromptTokens, room.MissingTokens),
			event{pool: transferEnd, index: int32(room.ID)})
		m.moving[room.ID] = importing{i, m.pushed}
	}
}

func (m *imports) transfers(id engine.RequestID, seq int64) bool {
	return m.moving[id].due == seq
}

// transferred ends a transfer. Its request goes on when its worker is idle.
func (m *imports) transferred(id engine.RequestID) {
	t := m.moving[id]
	m.moving[id] = importing{worker: t.worker, due: none}
	if w := &m.pool.workers[t.worker]; w.Busy() {
		w.deferred = append(w.deferred, action{id, handoff.Activate})
	} else {
		m.landed = append(m.landed, id)
	}
}

// idle queues the requests whose KV has come while their worker was busy.
func (m *imports) idle(w *Worker) {
	for _, a := range w.deferred {
		m.landed = append(m.landed, a.id)
	}
	w.deferred = w.deferred[:0]
}

func (m *imports) ended(p *Pool, i int, pass *engine.Pass) error {
	if err := m.direct.ended(p, i, pass); err != nil {
		return err
	}
	m.tryReserve(p, i)
	return nil
}

// act has requests wait for their admission whose KV is there, and ends those that can never be served.
func (m *imports) act() (changed bool, err error) {
	changed = len(m.landed) > 0 || len(m.refused) > 0
	for _, id := range m.landed {
		t, wanted := m.moving[id]
		if !wanted || t.due != none { // it was taken back, and another one may have its id
			continue
		}
		delete(m.moving, id)
		m.pool.workers[t.worker].destination.Activate(id)
		m.pool.updateReady(t.worker)
		m.tryReserve(m.pool, t.worker)
	}
	m.landed = m.landed[:0]
	for _, r := range m.refused {
		if m.pool.over(r.ID) {
			continue
		}
		if err := m.leave(m.pool, r.ID, Rejected, r.Reason); err != nil {
			return changed, err
		}
	}
	m.refused = m.refused[:0]
	return changed, nil
}

// left forgets a request. What comes for it afterwards is for no request.
func (m *imports) left(id engine.RequestID) {
	delete(m.moving, id)
	m.direct.left(id)
}

func (m *imports) unblock() (changed bool) {
	for p, i := range m.present() {
		if !p.workers[i].Busy() && m.tryReserve(p, i) {
			changed = true
		}
	}
	return m.direct.unblock() || changed
}
