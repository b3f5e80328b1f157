package openai

import (
	"slices"
	"sync"
	"sync/atomic"
)

// served is the models of a server. Those of workers in other processes come and go while it runs.
type served struct {
	list atomic.Pointer[[]*Model] // the slice is never changed
	mu   sync.Mutex               // held while it is replaced
}

// all returns the models that there are now.
func (s *served) all() []*Model {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

func (s *served) change(f func(list []*Model) []*Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := f(slices.Clone(s.all()))
	s.list.Store(&list)
}

// Add serves one more model, which must have another name than the others.
func (s *Server) Add(m *Model) {
	m.adapters = []*adapter{newAdapter("", "", "")}
	for _, name := range m.Adapters {
		m.load(name, "")
	}
	s.metrics.show(m)
	s.served.change(func(list []*Model) []*Model { return append(list, m) })
}

// Remove ends serving a model. Requests that it has go on.
func (s *Server) Remove(m *Model) {
	s.served.change(func(list []*Model) []*Model {
		return slices.DeleteFunc(list, func(other *Model) bool { return other == m })
	})
}

// elsewhere reports whether the engines of a model are those of other processes.
func (m *Model) elsewhere() bool { return m.Backend != nil }

// SetAdapters makes these the adapters of a model. Those that stay keep their requests.
func (m *Model) SetAdapters(names []string) {
	for _, a := range m.loaded() {
		if !slices.Contains(names, a.name) {
			m.unload(a.name)
		}
	}
	for _, name := range names {
		m.load(name, "")
	}
}
