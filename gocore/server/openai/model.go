package openai

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/deployment"
	"dynosim/gocore/server/tokens"
)

// Model is one model that is served.
type Model struct {
	Name       string
	Args       engineargs.Args // of the workers that make answers
	MaxLength  int             // tokens of a prompt and its answer together
	Tokenizer  tokens.Tokenizer
	Answers    answers.Source
	Deployment *deployment.Deployment
	// Backend makes the answers in place of Answers and Deployment; nil if they do. Its texts end with one of
	// EndTokens, and may begin with reasoning between Marks.
	Backend   backend.Backend
	EndTokens []uint32
	Marks     *answers.Marks // nil for a model that does not reason
	// Latencies are the histograms of its requests; they may be nil.
	Latencies *enginemetrics.RequestMetrics
	Adapters  []string // loaded from the beginning
	// Workers is what the workers of Deployment have to do; nil if they are elsewhere.
	Workers *Workers
	// MaxAdapters is how many adapters an engine holds at once, as metrics show it.
	MaxAdapters int
	Images      Images
	// Imports says that the engines take over prompts that were computed by another server.
	Imports bool
	// TellsBlocks has requests bring their tokens along, as changes of caches are published.
	TellsBlocks bool

	metrics  *requestMetrics // with the names of its engine; nil if another process shows them
	mu       sync.Mutex
	adapters []*adapter // in the order in which they were loaded
}

// reasons reports whether answers of chats may begin with reasoning.
func (m *Model) reasons() bool { return m.Answers.Thinking > 0 || m.Marks != nil }

// adapter is a LoRA adapter: a name with a prefix cache of its own. The model itself is the adapter with the name "".
type adapter struct {
	name, path string
	loaded     time.Time
	salt       string // of its blocks

	mu    sync.Mutex
	calls map[call]struct{}
}

func newAdapter(name, path, salt string) *adapter {
	return &adapter{name: name, path: path, salt: salt, loaded: time.Now(), calls: map[call]struct{}{}}
}

func (a *adapter) enter(c call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[c] = struct{}{}
}

func (a *adapter) leave(c call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, c)
}

// load returns the number of its calls that wait and that run.
func (a *adapter) load() (waiting, running int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.calls {
		if c.Begun() {
			running++
		} else {
			waiting++
		}
	}
	return waiting, running
}

// loads counts adapters that were ever loaded, so that each has a prefix cache of its own, even if it has the name of
// an earlier one.
var loads atomic.Int64

// place returns where the adapter with a name is in the list, which the caller has locked; -1 if there is none.
func (m *Model) place(name string) int {
	return slices.IndexFunc(m.adapters, func(a *adapter) bool { return a.name == name })
}

// find returns the adapter with a name, nil if there is none.
func (m *Model) find(name string) *adapter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.place(name); i >= 0 {
		return m.adapters[i]
	}
	return nil
}

// loaded returns all adapters, without the model itself.
func (m *Model) loaded() []*adapter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.adapters[1:])
}

// unload forgets an adapter; its calls go on.
func (m *Model) unload(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.place(name)
	if i <= 0 { // the first one is the model itself
		return false
	}
	m.adapters = slices.Delete(m.adapters, i, i+1)
	return true
}

// target is what a request is for.
type target struct {
	model   *Model
	adapter *adapter
}

// itself returns the model without an adapter.
func (m *Model) itself() target { return target{m, m.find("")} }

// resolve finds the model or adapter with a name. Without a name it is the only model there is, or what the request is
// limited to.
func (s *Server) resolve(ctx context.Context, name string) (target, error) {
	view := viewOf(ctx)
	if name == "" {
		if models := s.served.all(); len(models) == 1 && view == "" {
			return models[0].itself(), nil
		}
		if name = view; name == "" {
			return target{}, badRequest("model", "missing, want one of %s", s.modelNames())
		}
	}
	if t, found := s.find(name); found && (view == "" || t.name() == view) {
		return t, nil
	}
	names := s.modelNames()
	if view != "" {
		names = view
	}
	p := notFound("model_not_found", "The model `%s` does not exist; there are: %s", shortened([]byte(name)), names)
	p.param = "model"
	return target{}, p
}

// find finds the model or adapter with a name. MODEL:ADAPTER is SGLang's way to name an adapter.
func (s *Server) find(name string) (target, bool) {
	for _, m := range s.served.all() {
		if m.Name == name {
			return m.itself(), true
		}
		if a := m.find(name); a != nil {
			return target{m, a}, true
		}
	}
	for _, m := range s.served.all() {
		if after, found := strings.CutPrefix(name, m.Name+":"); found && after != "" {
			if a := m.find(after); a != nil {
				return target{m, a}, true
			}
		}
	}
	return target{}, false
}

// with returns the target with the adapter that lora_path names, unless the model's name has chosen one already.
func (t target) with(adapterName string) (target, error) {
	if adapterName == "" || t.adapter.name != "" {
		return t, nil
	}
	if a := t.model.find(adapterName); a != nil {
		return target{t.model, a}, nil
	}
	p := notFound("model_not_found", "The model `%s` has no adapter `%s`", t.model.Name, shortened([]byte(adapterName)))
	p.param = "lora_path"
	return t, p
}
