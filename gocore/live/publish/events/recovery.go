package events

import (
	"fmt"

	"github.com/gammazero/deque"

	"dynosim/gocore/kvcache"
)

// recentEvents is how many events a router may have missed without having to ask for everything.
const recentEvents = 1024

// recent is the last events of a rank.
type recent struct{ events deque.Deque[RouterEvent] }

func (r *recent) add(e RouterEvent) {
	if r.events.Len() == recentEvents {
		r.events.PopFront()
	}
	r.events.PushBack(e)
}

// Query is what a router asks that has missed events: those from StartEventID on, or everything. Queries and answers
// travel on the request plane, in its codecs.
type Query struct {
	WorkerID     uint64  `json:"worker_id"`
	DPRank       uint32  `json:"dp_rank"`
	StartEventID *uint64 `json:"start_event_id"`
	EndEventID   *uint64 `json:"end_event_id"`
}

// Answer is exactly one of its members.
type Answer struct {
	Events       *EventList    `json:"Events,omitempty"`   // from the start to the newest
	TreeDump     *EventList    `json:"TreeDump,omitempty"` // everything cached, as stored events
	InvalidRange *InvalidRange `json:"InvalidRange,omitempty"`
	TooNew       *TooNew       `json:"TooNew,omitempty"`
	Error        string        `json:"Error,omitempty"`
}

// EventList is events and the newest id that there has been, 0 if none.
type EventList struct {
	Events      []RouterEvent `json:"events"`
	LastEventID uint64        `json:"last_event_id"`
	ResetScope  string        `json:"reset_scope,omitempty"` // of a tree dump: what it replaces
}

// InvalidRange answers a query whose end comes before its start.
type InvalidRange struct {
	StartID uint64 `json:"start_id"`
	EndID   uint64 `json:"end_id"`
}

// TooNew answers a query for events that have not happened yet.
type TooNew struct {
	RequestedStart  uint64 `json:"requested_start"`
	RequestedEnd    uint64 `json:"requested_end"`
	NewestAvailable uint64 `json:"newest_available"`
}

// Answer answers a query.
func (f *Feed) Answer(q Query) Answer {
	switch {
	case q.WorkerID != f.workerID:
		return Answer{Error: fmt.Sprintf("worker_id: got %d, this is worker %d", q.WorkerID, f.workerID)}
	case q.DPRank != f.dpRank:
		return Answer{Error: fmt.Sprintf("dp_rank: got %d, this is rank %d", q.DPRank, f.dpRank)}
	case q.StartEventID == nil:
		return f.treeDump()
	}
	start, end := *q.StartEventID, f.lastID
	if q.EndEventID != nil {
		end = *q.EndEventID
		if end < start {
			return Answer{InvalidRange: &InvalidRange{StartID: start, EndID: end}}
		}
	}
	oldest := f.lastID - uint64(f.recent.events.Len()) + 1
	switch {
	case f.lastID == 0 || start < oldest:
		return f.treeDump()
	case start > f.lastID:
		return Answer{TooNew: &TooNew{RequestedStart: start, RequestedEnd: end, NewestAvailable: f.lastID}}
	}
	list := &EventList{LastEventID: f.lastID}
	for i := int(start - oldest); i < f.recent.events.Len(); i++ {
		list.Events = append(list.Events, f.recent.events.At(i))
	}
	return Answer{Events: list}
}

func (f *Feed) treeDump() Answer {
	list := &EventList{Events: []RouterEvent{}, LastEventID: f.lastID, ResetScope: "all"}
	for tier := range f.tiers {
		for _, chain := range f.tiers[tier].index.dump() {
			list.Events = append(list.Events,
				f.event(uint64(len(list.Events)), kvcache.Tier(tier), Data{Stored: &chain}))
		}
	}
	return Answer{TreeDump: list}
}
