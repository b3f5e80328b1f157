package frontend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/server/tokens"
)

// groupKey identifies workers that serve requests together: all of one kind, or prefill and decode workers.
type groupKey struct {
	model, namespace string
	split            bool
}

// group is workers that serve requests together.
type group struct {
	key       groupKey
	prefill   *pool // nil unless split
	answer    *pool
	workers   int
	checksums map[card.WorkerType]string // of the cards of its workers, which must be equal
}

// ready reports whether the group can serve requests.
func (g *group) ready() bool {
	return g.answer.size() > 0 && (g.prefill == nil || g.prefill.size() > 0)
}

// join adds a worker to its group.
func (f *Frontend) join(w *worker) error {
	c := &w.card
	g := f.group(c, w.key.Namespace)
	same := *c
	same.SourcePath = "" // cards of 1.3 have none
	checksum := same.Checksum()
	if other := g.checksums[c.WorkerType]; other != "" && other != checksum {
		return fmt.Errorf("its card of model %s differs from that of the other %s workers in namespace %s",
			c.DisplayName, c.WorkerType, w.key.Namespace)
	}
	g.checksums[c.WorkerType] = checksum
	g.workers++
	w.group, w.pool = g, g.answer
	if c.WorkerType == card.Prefill {
		w.pool = g.prefill
	}
	f.openFeeds(w)
	w.pool.add(w)
	m := f.models[c.DisplayName]
	if m == nil {
		m = &model{frontend: f, name: c.DisplayName, rng: rand.New(rand.NewPCG(f.config.Seed, 0))}
		f.models[c.DisplayName] = m
	}
	return nil
}

// group returns that of workers with a card, which is made if it does not exist.
func (f *Frontend) group(c *card.Card, namespace string) *group {
	key := groupKey{c.DisplayName, namespace, c.WorkerType == card.Prefill || needsPrefill(c)}
	g := f.groups[key]
	if g == nil {
		g = &group{key: key, checksums: map[card.WorkerType]string{}}
		config := routing.Config{
			Mode: f.config.Mode, Rules: f.config.Rules, BlockSize: c.KVCacheBlockSize, Router: f.config.Router,
			MaxNumBatchedTokens: c.RuntimeConfig.MaxNumBatchedTokens, Rule: f.config.Rule,
			Blocks: c.RuntimeConfig.TotalKVBlocks,
			Name:   c.DisplayName + " of " + namespace,
		}
		seed := f.made
		f.made++
		if key.split {
			prefill := config
			prefill.Router, prefill.Stage, prefill.Rand = config.Router.PrefillStage(), "prefill", f.random(2*seed+1)
			g.prefill = newPool(f, prefill)
			config.Router, config.Stage = config.Router.DecodeStage(), "decode"
		}
		config.Rand = f.random(2 * seed)
		g.answer = newPool(f, config)
		f.groups[key] = g
	}
	return g
}

// needsPrefill reports whether workers serve requests only together with prefill workers.
func needsPrefill(c *card.Card) bool {
	return c.WorkerType == card.Decode &&
		slices.ContainsFunc(c.Needs, func(all []card.WorkerType) bool { return slices.Contains(all, card.Prefill) })
}

// model is one model; it implements [backend.Backend].
type model struct {
	frontend *Frontend
	name     string
	waiting  atomic.Int64 // calls that no worker has begun
	calls    atomic.Int64 // that are open

	// What follows belongs to the goroutine that follows the records.
	shown     bool
	adapters  []string
	tokenizer *tokenizer // nil before it is asked for

	mu     sync.Mutex
	groups []*group // that are ready
	rng    *rand.Rand
	// endTokens are those with which the model ends its texts; known when it is served.
	endTokens []uint32
}

func (m *model) ends() []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endTokens
}

// updateModels serves the models that have workers, with the LoRA adapters of these, and no others.
func (f *Frontend) updateModels(adapters map[workerKey][]string) {
	for name, m := range f.models {
		ready, sample := f.survey(name)
		m.mu.Lock()
		m.groups = ready
		m.mu.Unlock()
		switch {
		case len(ready) == 0 && m.shown:
			m.shown, m.adapters, m.tokenizer = false, nil, nil
			f.config.Served.Remove(name)
			f.config.Log.Info("a model has no workers any more", "model", name)
		case len(ready) > 0 && !m.shown:
			f.show(m, &sample.card)
		}
		if !m.shown {
			continue
		}
		if now := f.adaptersOf(ready, adapters); !slices.Equal(now, m.adapters) {
			m.adapters = now
			f.config.Served.Adapters(name, now)
		}
	}
	f.forgetModels()
}

// forgetModels forgets models without workers and calls, and closes tokenizers that no model has used for long.
func (f *Frontend) forgetModels() {
	used := map[tokens.Tokenizer]bool{}
	for name, m := range f.models {
		if !f.hasWorkers(name) && m.calls.Load() == 0 {
			delete(f.models, name)
		} else if m.tokenizer != nil && m.tokenizer.opened != nil {
			used[m.tokenizer.opened] = true
		}
	}
	for _, t := range f.tokenizers.unneeded(used, time.Now()) {
		f.running.Go(guard.Func(t.Close)) // it waits for a process
	}
}

func (f *Frontend) hasWorkers(model string) bool {
	for key := range f.groups {
		if key.model == model {
			return true
		}
	}
	return false
}

// survey finds the groups of a model that are ready, and one of their workers that make answers.
func (f *Frontend) survey(name string) (ready []*group, sample *worker) {
	for key, g := range f.groups {
		if key.model == name && g.ready() {
			ready = append(ready, g)
		}
	}
	for _, w := range f.workers {
		if slices.Contains(ready, w.group) && w.pool == w.group.answer {
			return ready, w
		}
	}
	return ready, nil
}

// adaptersOf returns the adapters of the workers of these groups.
func (f *Frontend) adaptersOf(groups []*group, adapters map[workerKey][]string) []string {
	var all []string
	for key, list := range adapters {
		if w := f.workers[key]; w != nil && slices.Contains(groups, w.group) {
			all = append(all, list...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// show serves a model as soon as its tokenizer is there.
func (f *Frontend) show(m *model, c *card.Card) {
	if m.tokenizer == nil {
		m.tokenizer = f.openTokenizer(c)
	}
	t := m.tokenizer
	if t.opened == nil {
		if !t.failed.IsZero() && time.Since(t.failed) > retryTokenizer {
			m.tokenizer = nil // tried again with the next look
		}
		return
	}
	ends := card.EndTokens(t.folder)
	m.mu.Lock()
	m.endTokens = ends
	m.mu.Unlock()
	m.shown = true
	f.config.Served.Add(Model{
		Name: m.name, Tokenizer: t.opened, EndTokens: ends, MaxLength: c.LongestSequence(), Backend: m,
	})
	f.config.Log.Info("a model is served", "model", m.name)
}

// retryTokenizer is how long a tokenizer that could not be opened is left alone.
const retryTokenizer = 10 * time.Second

// tokenizers are those of all models. They stay open for a while when their models go: workers that go usually come
// back.
type tokenizers struct {
	mu    sync.Mutex
	known map[string]*kept // by checksum of the card and folder
}

// kept is a tokenizer that is open.
type kept struct {
	tokenizer tokens.Tokenizer
	idle      time.Time // since when no model uses it, zero if one does
}

// tokenizer is that of one model. It belongs to the goroutine that follows the records.
type tokenizer struct {
	model  string
	folder string
	opened tokens.Tokenizer // nil before
	failed time.Time

	result tokens.Tokenizer // for tokenizerOpened
	err    error
}

// openTokenizer begins to open the tokenizer of a model.
func (f *Frontend) openTokenizer(c *card.Card) *tokenizer {
	t := &tokenizer{model: c.DisplayName}
	files := *c
	f.running.Go(guard.Func(func() {
		t.folder, t.err = f.config.Folder(&files)
		if t.err == nil {
			t.result, t.err = f.tokenizers.open(t.folder, files.Checksum(), f.config.Tokenizer)
		}
		select {
		case f.opened <- t:
		case <-f.life.Done():
		}
	}))
	return t
}

func (f *Frontend) tokenizerOpened(t *tokenizer) {
	if t.err != nil {
		t.failed = time.Now()
		f.config.Log.Error("a model cannot be served", "model", t.model, "cause", t.err)
		return
	}
	t.opened = t.result
}

var errClosed = errors.New("the frontend is closed")

func (t *tokenizers) open(folder, checksum string, open func(string) (tokens.Tokenizer, error)) (tokens.Tokenizer,
	error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		return nil, errClosed
	}
	key := checksum + " " + folder
	if known := t.known[key]; known != nil {
		known.idle = time.Time{}
		return known.tokenizer, nil
	}
	opened, err := open(folder)
	if err == nil {
		t.known[key] = &kept{tokenizer: opened}
	}
	return opened, err
}

// keepIdle is how long a tokenizer stays open that no model uses. Requests of the model that has gone ask it at their
// beginning only.
const keepIdle = 10 * time.Minute

// unneeded takes out the tokenizers that are to be closed, given those that models use.
func (t *tokenizers) unneeded(used map[tokens.Tokenizer]bool, now time.Time) (list []tokens.Tokenizer) {
	if !t.mu.TryLock() {
		return nil // one is being opened, which takes a while
	}
	defer t.mu.Unlock()
	for key, k := range t.known {
		switch {
		case used[k.tokenizer]:
			k.idle = time.Time{}
		case k.idle.IsZero():
			k.idle = now
		case now.Sub(k.idle) >= keepIdle:
			delete(t.known, key)
			list = append(list, k.tokenizer)
		}
	}
	return list
}

func (t *tokenizers) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.known {
		known.tokenizer.Close()
	}
	t.known = nil
}

// choose draws one of the groups that are ready; each is as probable as it has workers. It is nil if there is none.
func (m *model) choose() *group {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := 0
	for _, g := range m.groups {
		all += g.answer.size()
	}
	if len(m.groups) == 0 || all == 0 {
		return nil
	}
	if len(m.groups) == 1 {
		return m.groups[0]
	}
	n := m.rng.IntN(all)
	for _, g := range m.groups {
		if n -= g.answer.size(); n < 0 {
			return g
		}
	}
	return m.groups[len(m.groups)-1]
}
