package policies

import (
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

var manualFields = []strictjson.Field{
	choice("assignment_mode", []string{"random", "min_load", "min_group"},
		"Where a new session goes: anywhere (`\"random\"`), to the worker with the fewest requests in flight "+
			"(`\"min_load\"`), or to the one "+
			"where the fewest sessions have requests in flight (`\"min_group\"`); ties are drawn."),
	number("max_idle_secs", positive, 14400, "Seconds without a request after which a session is forgotten."),
}

// manual keeps a session on its worker, as the policy of that name of SGLang's gateway and Shepherd does.
type manual struct {
	mode   string
	idleMs float64
	homes  map[string]home
	groups []map[string]int // by worker: requests in flight, by session
	sizes  []int            // of groups
}

type home struct {
	worker int
	usedMs float64
}

func newManual(o router.Options) rule {
	return &manual{mode: o.Settings.Text("assignment_mode"), idleMs: 1000 * o.Settings.Float("max_idle_secs"),
		homes: map[string]home{}}
}

func (m *manual) choose(v *view, r *router.Request, draw chance) int {
	h, known := m.homes[r.Session]
	if known && r.Session != "" && v.has(h.worker) && v.nowMs-h.usedMs <= m.idleMs {
		return h.worker
	}
	m.growTo(len(v.active))
	switch m.mode {
	case "min_load":
		return drawLeast(v.workers, v.requests, draw)
	case "min_group":
		return drawLeast(v.workers, m.sizes, draw)
	default:
		return v.workers[draw.IntN(len(v.workers))]
	}
}

func (m *manual) sent(v *view, r *router.Request, worker int) {
	if r.Session == "" {
		return
	}
	m.growTo(len(v.active))
	m.homes[r.Session] = home{worker, v.nowMs}
	m.groups[worker][r.Session]++
	m.sizes[worker] = len(m.groups[worker])
}

func (m *manual) ended(key string, worker int) {
	if key == "" {
		return
	}
	group := m.groups[worker]
	if group[key]--; group[key] == 0 {
		delete(group, key)
	}
	m.sizes[worker] = len(group)
}

func (m *manual) forget(int) {}

func (m *manual) growTo(workers int) {
	for len(m.groups) < workers {
		m.groups = append(m.groups, map[string]int{})
		m.sizes = append(m.sizes, 0)
	}
}
