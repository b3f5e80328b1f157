package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// card describes a model or an adapter in lists of models.
type card struct {
	ID        string  `json:"id"`
	Object    string  `json:"object"`
	Created   int64   `json:"created"`
	OwnedBy   string  `json:"owned_by"`
	Root      string  `json:"root"`
	Parent    *string `json:"parent"`
	MaxLength int     `json:"max_model_len"`
}

func (m *Model) card(a *adapter) card {
	c := card{ID: m.Name, Object: "model", Created: a.loaded.Unix(), OwnedBy: "dynosim", Root: m.Name,
		MaxLength: m.MaxLength}
	if !m.elsewhere() {
		c.OwnedBy = m.Args.EngineType.String() // by which gateways tell engines
	}
	if a.name != "" {
		c.ID, c.Parent, c.Root = a.name, &m.Name, a.path
	}
	return c
}

// models answers /v1/models.
func (s *Server) models(w http.ResponseWriter, r *http.Request) error {
	list := []card{}
	for _, t := range s.targets(r.Context()) {
		list = append(list, t.model.card(t.adapter))
	}
	return respond(w, map[string]any{"object": "list", "data": list})
}

// model answers /v1/models/NAME.
func (s *Server) model(w http.ResponseWriter, r *http.Request) error {
	t, err := s.resolve(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return respond(w, t.model.card(t.adapter))
}

// Limits on adapters, which clients may load without end and whose names are in metrics, separated by commas.
const (
	maxAdapters    = 4096 // of a model
	maxAdapterName = 256
	maxAdapterPath = 4096
)

// CheckAdapterName refuses names that metrics and messages cannot show.
func CheckAdapterName(name string) error {
	if name == "" || len(name) > maxAdapterName ||
		strings.ContainsFunc(name, func(c rune) bool { return c == ',' || unicode.IsControl(c) }) {
		return fmt.Errorf("got %q, want 1 to %d bytes without commas and control characters", shortened([]byte(name)),
			maxAdapterName)
	}
	return nil
}

// load adds an adapter, and reports false if there is one with this name.
func (m *Model) load(name, path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.place(name) >= 0 {
		return false
	}
	m.adapters = append(m.adapters, newAdapter(name, path,
		"adapter\x00"+name+"\x00"+strconv.FormatInt(loads.Add(1), 10)+"\x00"))
	return true
}

// adapterRequest is the body of /v1/load_lora_adapter and /v1/unload_lora_adapter.
type adapterRequest struct {
	Name  string `json:"lora_name"`
	Path  string `json:"lora_path"`
	Model string `json:"base_model_name"`
}

// loadAdapter answers /v1/load_lora_adapter. Nothing is read: an adapter is a name.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) error {
	var body adapterRequest
	t, err := s.readPlain(w, r, &body, &body.Model)
	switch {
	case err != nil:
		return err
	case body.Name == "":
		return badRequest("lora_name", "missing, want the name of the adapter")
	}
	if t.model.elsewhere() {
		return badRequest("base_model_name", "the workers of `%s` decide which adapters there are", t.model.Name)
	}
	if err := CheckAdapterName(body.Name); err != nil {
		return badRequest("lora_name", "%s", err)
	}
	if len(body.Path) > maxAdapterPath {
		return badRequest("lora_path", "got %d bytes, want at most %d", len(body.Path), maxAdapterPath)
	}
	if n := len(t.model.loaded()); n >= maxAdapters {
		return badRequest("lora_name", "the model has %d adapters already, want one unloaded first", n)
	}
	if _, exists := s.find(body.Name); exists || !t.model.load(body.Name, body.Path) {
		return badRequest("lora_name", "there is a model or an adapter `%s` already", body.Name)
	}
	return plain(w, fmt.Sprintf("Success: LoRA adapter '%s' added successfully.", body.Name))
}

// unloadAdapter answers /v1/unload_lora_adapter.
func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) error {
	var body adapterRequest
	_, err := s.readPlain(w, r, &body, &body.Model)
	switch {
	case err != nil:
		return err
	case body.Name == "":
		return badRequest("lora_name", "missing, want the name of the adapter")
	}
	for _, m := range s.served.all() {
		if !m.elsewhere() && m.unload(body.Name) {
			return plain(w, fmt.Sprintf("Success: LoRA adapter '%s' removed successfully.", body.Name))
		}
	}
	return notFound("model_not_found", "the adapter `%s` is not loaded", body.Name)
}

func plain(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(text))
	return nil
}

// health answers /health: whether the server takes requests.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	status, code := s.status(), http.StatusOK
	if status != ready {
		code = http.StatusServiceUnavailable
	}
	uptime := int(time.Since(s.started).Seconds())
	writeJSON(w, code, fmt.Appendf(nil, `{"status":%q,"uptime_s":%d,"models":%d}`, status, uptime, len(s.served.all())))
	return nil
}

// live answers /live: the process runs.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, []byte(`{"status":"live"}`))
	return nil
}

// version answers /version.
func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	return respond(w, map[string]string{"name": "dynosim", "version": s.config.Version})
}
