package openai

import (
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/cluster"
	"dynosim/gocore/server/deployment"
)

// What the page consists of: shared.css and shared.js are those of the pages of reports, sweeps and comparisons.
var (
	//go:embed page/page.html
	pageFrame string
	//go:embed page/shared.css
	sharedStyle string
	//go:embed page/shared.js
	sharedScript string
)

// dashboardPage shows the state of the server in a browser. It asks for dashboard/state, whatever path the server is
// behind.
var dashboardPage = strings.NewReplacer("@@STYLE@@", sharedStyle, "@@SCRIPT@@", sharedScript).Replace(pageFrame)

// keptRequests is how many of the last requests the page shows figures of.
const keptRequests = 512

// board is what the page shows of requests that are over.
type board struct {
	tokens atomic.Int64

	mu     sync.Mutex
	last   int // number of the last request, from 1
	recent [keptRequests]shownRequest
	errors int
	rate   float64
	since  time.Time
	then   int64 // tokens at that time
}

// shownRequest is a request as the page shows it.
type shownRequest struct {
	ID      string   `json:"id"`
	Model   string   `json:"model"`
	Workers []string `json:"workers,omitempty"`
	// Overlap is what the router took to be cached, in tokens, Cached what the engine found.
	Overlap int      `json:"overlap"`
	Prompt  int      `json:"prompt"`
	Cached  int      `json:"cached"`
	Output  int      `json:"output"`
	TTFT    *float64 `json:"ttft_ms,omitempty"`
	ITL     *float64 `json:"itl_ms,omitempty"`
	E2E     *float64 `json:"e2e_ms,omitempty"`
	Outcome string   `json:"outcome"`
}

// emitted counts tokens.
func (b *board) emitted(n int) { b.tokens.Add(int64(n)) }

// refused counts a request that got an error.
func (b *board) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors++
}

// over notes a request whose answer has ended, or failed.
func (b *board) over(g *generation) {
	n := g.shown(time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent[b.last%keptRequests] = n
	b.last++
}

// shown returns the request as the page shows it. Several answers are shown as one, by the times of the first.
func (g *generation) shown(now time.Time) shownRequest {
	c := g.choices[0]
	usage := g.usageOf()
	n := shownRequest{
		ID: g.id, Model: g.modelName(), Prompt: g.prompt, Cached: usage.PromptTokensDetails.CachedTokens,
		Output: usage.CompletionTokens, Outcome: "failed",
	}
	if c.over {
		n.Outcome = c.answer.Finish
		n.E2E = milliseconds(c.last.Sub(g.received))
	}
	if !c.first.IsZero() {
		n.TTFT = milliseconds(c.first.Sub(g.received))
		if c.sent > 1 {
			n.ITL = milliseconds(c.last.Sub(c.first) / time.Duration(c.sent-1))
		}
	}
	switch call := c.call.(type) {
	case *deployment.Call:
		n.Workers, n.Overlap = g.target.model.Workers.names(call.Workers()), call.Overlap()
	case *backend.Call:
		n.Workers, n.Overlap = call.Route()
	}
	return n
}

func milliseconds(d time.Duration) *float64 {
	ms := float64(d) / 1e6
	return &ms
}

// after returns the requests after number last, as far as they are kept, and the number of the last one.
func (b *board) after(last int) (list []shownRequest, now int) {
	list = []shownRequest{}
	for i := max(last, b.last-keptRequests, 0); i < b.last; i++ {
		list = append(list, b.recent[i%keptRequests])
	}
	return list, b.last
}

// perSecond returns the number of tokens per second, over a second or more.
func (b *board) perSecond(now time.Time) float64 {
	if past := now.Sub(b.since); past >= rateOver {
		tokens := b.tokens.Load()
		b.rate, b.since, b.then = float64(tokens-b.then)/past.Seconds(), now, tokens
	}
	return b.rate
}

// states returns those of the workers of a model. Of workers elsewhere, the KV pool and the rate are not known.
func (m *Model) states() (list []WorkerState) {
	watched, elsewhere := m.Backend.(backend.Watched)
	if !elsewhere {
		return m.Workers.All()
	}
	for i, w := range watched.Workers() {
		list = append(list, WorkerState{
			called: w.Name, Number: i,
			Load: cluster.Load{Waiting: w.Waiting, Running: w.Running,
				Counts: cluster.Counts{LookedUp: w.LookedUp, Reused: w.Reused}},
		})
	}
	return list
}

// Name returns how the page calls a worker.
func (s *WorkerState) Name() string {
	if s.called != "" {
		return s.called
	}
	return strings.TrimSpace(s.Pool + " " + strconv.Itoa(s.Number))
}

// names returns the names of workers, by their pools; those that are not known are left out.
func (w *Workers) names(of [2]int) (list []string) {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for pool, worker := range of {
		if worker >= 0 && pool < len(w.at) {
			list = append(list, w.list[w.at[pool][worker]].Name())
		}
	}
	return list
}

type shownModel struct {
	Name     string   `json:"name"`
	Adapters []string `json:"adapters"`
	Length   int      `json:"max_model_len"`
}

// listedWorkers is how many workers the page lists at most.
const listedWorkers = 64

// allWorkers is the sum over the workers of all models; Usage is the mean.
type allWorkers struct {
	Number   int     `json:"number"`
	Running  int     `json:"running"`
	Waiting  int     `json:"waiting"`
	Usage    float64 `json:"usage"`
	LookedUp int     `json:"looked_up"`
	Reused   int     `json:"reused"`
}

func (a *allWorkers) add(s *WorkerState) {
	a.Usage = (a.Usage*float64(a.Number) + s.Usage()) / float64(a.Number+1)
	a.Number++
	a.Running += s.Running
	a.Waiting += s.Waiting
	a.LookedUp += s.LookedUp
	a.Reused += s.Reused
}

type shownWorker struct {
	Model    string `json:"model"`
	Name     string `json:"name"`
	Running  int    `json:"running"`
	Waiting  int    `json:"waiting"`
	Limit    int    `json:"limit"`
	LookedUp int    `json:"looked_up"`
	Reused   int    `json:"reused"`
	// What follows is nil if it is not known.
	Usage       *float64 `json:"usage"`
	Rate        *float64 `json:"tokens_per_s"`
	Preemptions *int     `json:"preemptions"`
}

// dashboard answers /dashboard/state, with the requests after number after.
func (s *Server) dashboard(w http.ResponseWriter, r *http.Request) error {
	after := 0
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			return badRequest("after", "got %s, want the number of a request", shortened([]byte(text)))
		}
	}
	models, workers := []shownModel{}, []shownWorker{}
	var all allWorkers
	for _, m := range s.served.all() {
		models = append(models, shownModel{m.Name, m.adapterNames(), m.MaxLength})
		states := m.states()
		for i := range states {
			l := &states[i]
			if all.add(l); len(workers) == listedWorkers {
				continue
			}
			w := shownWorker{Model: m.Name, Name: l.Name(), Running: l.Running, Waiting: l.Waiting, Limit: l.Limit,
				LookedUp: l.LookedUp, Reused: l.Reused}
			if !m.elsewhere() {
				usage, rate := l.Usage(), l.Rate
				w.Usage, w.Rate, w.Preemptions = &usage, &rate, &l.Preemptions
			}
			workers = append(workers, w)
		}
	}
	now := time.Now()
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	list, last := s.board.after(after)
	return respond(w, map[string]any{
		"status": s.status(), "version": s.config.Version, "uptime_s": int(now.Sub(s.started).Seconds()),
		"in_flight": s.answering.Load(),
		"models":    models, "workers": workers, "all_workers": all, "requests": list, "last": last, "answers": last,
		"errors":       s.board.errors,
		"tokens_per_s": s.board.perSecond(now),
	})
}

// root answers /: a page for browsers, a few words for others.
func (s *Server) root(w http.ResponseWriter, r *http.Request) error {
	w.Header().Add("Vary", "Accept")
	if !s.config.Page || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return plain(w, "dynosim: simulated models behind OpenAI's API.\nModels: "+s.modelNames()+
			"\nPOST /v1/chat/completions, /v1/completions; GET /v1/models, /health, /metrics\n")
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", fmt.Sprint(len(dashboardPage)))
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "+
		"connect-src 'self'; img-src data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, dashboardPage)
	return nil
}
