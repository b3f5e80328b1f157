package openai

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sleeper says what of the engines is asleep: vLLM's sleep mode.
type sleeper struct {
	mu    sync.Mutex
	parts []string // that are asleep
}

// sleepParts are what can be woken by itself. Engines work when both are awake.
var sleepParts = []string{"weights", "kv_cache"}

func (s *sleeper) asleep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.parts) > 0
}

func (s *sleeper) fall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.Clone(sleepParts)
}

func (s *sleeper) wake(parts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(part string) bool { return slices.Contains(parts, part) })
}

// sleepPoll is how long to wait for engines that end their last pass.
const sleepPoll = time.Millisecond

// sleep answers /sleep: the engines lose their caches, and take no requests until they are woken. Requests that they
// have fail, or with mode=wait are answered before.
func (s *Server) sleep(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	mode := query.Get("mode")
	switch level := query.Get("level"); {
	case level != "" && level != "1" && level != "2":
		return badRequest("level", "got %s, want 1 or 2", shortened([]byte(level)))
	case mode != "" && mode != "abort" && mode != "wait":
		return badRequest("mode", "got %s, want abort or wait", shortened([]byte(mode)))
	}
	own, err := s.own()
	if err != nil {
		return err
	}
	s.sleeping.fall()
	for {
		busy := 0
		for _, m := range own {
			if mode != "wait" {
				m.Deployment.Abort("the server was put to sleep")
			}
			n, ok := m.Deployment.EmptyCaches()
			if !ok {
				return unavailable("the engines have ended")
			}
			busy += n
		}
		if busy == 0 {
			return plain(w, "")
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(sleepPoll):
		}
	}
}

// own returns the models whose engines belong to this server.
func (s *Server) own() (list []*Model, err error) {
	for _, m := range s.served.all() {
		if m.elsewhere() {
			return nil, badRequest("", "the engines are those of workers elsewhere; want --standalone")
		}
		list = append(list, m)
	}
	return list, nil
}

// wakeUp answers /wake_up.
func (s *Server) wakeUp(w http.ResponseWriter, r *http.Request) error {
	parts := sleepParts
	if tags := r.URL.Query()["tags"]; len(tags) > 0 {
		parts = nil
		for _, tag := range tags {
			for part := range strings.SplitSeq(tag, ",") {
				if !slices.Contains(sleepParts, part) {
					return badRequest("tags", "got %s, want weights or kv_cache", shortened([]byte(part)))
				}
				parts = append(parts, part)
			}
		}
	}
	s.sleeping.wake(parts)
	return plain(w, "")
}

// isSleeping answers /is_sleeping.
func (s *Server) isSleeping(w http.ResponseWriter, _ *http.Request) error {
	return respond(w, map[string]bool{"is_sleeping": s.sleeping.asleep()})
}

// resetPrefixCache answers /reset_prefix_cache. Workers with requests keep their caches, as vLLM's do.
func (s *Server) resetPrefixCache(w http.ResponseWriter, r *http.Request) error {
	if running := r.URL.Query().Get("reset_running_requests"); running != "" {
		if yes, err := strconv.ParseBool(running); err != nil || yes {
			return badRequest("reset_running_requests", "got %s, want false: workers with requests keep their caches",
				shortened([]byte(running)))
		}
	}
	busy, err := s.emptyCaches()
	if err != nil {
		return err
	}
	return respond(w, map[string]any{"success": busy == 0, "busy_workers": busy})
}

// flushCache answers /flush_cache, SGLang's name for it.
func (s *Server) flushCache(w http.ResponseWriter, _ *http.Request) error {
	busy, err := s.emptyCaches()
	switch {
	case err != nil:
		return err
	case busy > 0:
		return badRequest("", "%d workers have requests and keep their caches", busy)
	}
	return plain(w, "Cache flushed.\n")
}

// emptyCaches empties the caches of workers that have nothing to do, and returns how many have.
func (s *Server) emptyCaches() (busy int, err error) {
	own, err := s.own()
	if err != nil {
		return 0, err
	}
	for _, m := range own {
		n, ok := m.Deployment.EmptyCaches()
		if !ok {
			return 0, unavailable("the engines have ended")
		}
		busy += n
	}
	return busy, nil
}
