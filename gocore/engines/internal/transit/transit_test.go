package transit

import (
	"slices"
	"testing"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
)

type request struct{ id engine.RequestID }

func (r *request) RequestID() engine.RequestID { return r.id }

func TestDestinations(t *testing.T) {
	var d Destinations[*request]
	if d.MayReserve() {
		t.Error("there is room for no request")
	}
	for id := range engine.RequestID(3) {
		d.Enqueue(&request{id})
	}
	if !d.MayReserve() || d.First().id != 0 {
		t.Fatal("the first request is not the first")
	}
	d.NoRoom()
	if d.MayReserve() {
		t.Error("the first request looks again although no room has been made")
	}
	d.RoomMade()
	d.Reserve()
	if d.Pending() != 2 || d.Reserved() != 1 || d.First().id != 1 {
		t.Errorf("%d pending, %d reserved, %d is first", d.Pending(), d.Reserved(), d.First().id)
	}
	if _, ok := d.TakePending(0); ok {
		t.Error("request 0 is still pending")
	}
	if r, ok := d.TakePending(2); !ok || r.id != 2 {
		t.Error("request 2 is not pending")
	}
	var ids []engine.RequestID
	for _, r := range d.Append(nil) {
		ids = append(ids, r.id)
	}
	if slices.Sort(ids); !slices.Equal(ids, []engine.RequestID{0, 1}) {
		t.Errorf("left are %v", ids)
	}
	if _, ok := d.TakeReserved(0); !ok || d.Reserved() != 0 {
		t.Error("request 0 was not reserved, or still is")
	}
	if _, ok := d.TakeReserved(0); ok {
		t.Error("request 0 was taken twice")
	}
}

func TestSources(t *testing.T) {
	var s Sources[*request]
	if _, ok := s.Take(1); ok {
		t.Error("no request is kept yet")
	}
	s.Keep(&request{1})
	if list := s.Append(nil); len(list) != 1 || list[0].id != 1 {
		t.Errorf("kept are %v", list)
	}
	if r, ok := s.Take(1); !ok || r.id != 1 || len(s.Append(nil)) != 0 {
		t.Error("request 1 was not kept, or still is")
	}
}

func TestFind(t *testing.T) {
	var waiting deque.Deque[*request]
	waiting.PushBack(&request{2})
	running := []*request{{1}}
	for _, id := range []engine.RequestID{1, 2} {
		if r := Find(running, &waiting, id); r == nil || r.id != id {
			t.Errorf("request %d: found %v", id, r)
		}
	}
	if Find(running, &waiting, 3) != nil {
		t.Error("found a request that is not there")
	}
	if r, ok := TakeFrom(&waiting, 2); !ok || r.id != 2 || waiting.Len() != 0 {
		t.Error("request 2 was not taken")
	}
}
