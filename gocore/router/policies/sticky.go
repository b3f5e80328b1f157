package policies

import "dynosim/gocore/router"

// sticky keeps a session on its worker, as sticky_least_loaded of vLLM's router does: a new session goes to a worker
// that was given the fewest sessions so far, whatever these do now. A request without a session goes where its prompt
// points.
type sticky struct {
	memoryless
	homes    map[string]int
	sessions []int // ever given, by worker
	tie      func(r *router.Request, ties int) int
}

func newSticky(router.Options) rule {
	return &sticky{
		homes: map[string]int{},
		tie:   func(r *router.Request, ties int) int { return int(keyHash(r) % uint64(ties)) },
	}
}

func (s *sticky) choose(v *view, r *router.Request, _ chance) int {
	if r.Session == "" {
		return v.workers[keyHash(r)%uint64(len(v.workers))]
	}
	if home, known := s.homes[r.Session]; known && v.has(home) {
		return home
	}
	s.growTo(len(v.active))
	fewest, ties := s.sessions[least(v.workers, s.sessions)], 0
	for _, w := range v.workers {
		if s.sessions[w] == fewest {
			ties++
		}
	}
	skip := 0
	if ties > 1 {
		skip = s.tie(r, ties)
	}
	for _, w := range v.workers {
		if s.sessions[w] != fewest {
			continue
		}
		if skip == 0 {
			return w
		}
		skip--
	}
	panic("policies: no worker has the fewest sessions")
}

func (s *sticky) sent(v *view, r *router.Request, worker int) {
	if home, known := s.homes[r.Session]; r.Session == "" || known && home == worker {
		return
	}
	s.growTo(len(v.active))
	s.homes[r.Session] = worker
	s.sessions[worker]++
}

func (s *sticky) growTo(workers int) {
	for len(s.sessions) < workers {
		s.sessions = append(s.sessions, 0)
	}
}
