package openai

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// viewPath is before the name of a model or an adapter in the path of a worker that serves nothing else, as routers see
// it that take one name from each worker: /models/sql/v1/chat/completions is /v1/chat/completions of the adapter sql.
const viewPath = "/models/"

type viewKey struct{}

// viewOf returns the name that a request is limited to, "" for all.
func viewOf(ctx context.Context) string {
	name, _ := ctx.Value(viewKey{}).(string)
	return name
}

// viewed returns a request to a path below viewPath as one to the path after the name there. Names may have slashes:
// the longest one that is served counts.
func (s *Server) viewed(r *http.Request) (*http.Request, error) {
	below, found := strings.CutPrefix(r.URL.Path, viewPath)
	if !found {
		return r, nil
	}
	name := ""
	for _, m := range s.served.all() {
		for _, n := range m.names() {
			if len(n) > len(name) && (below == n || strings.HasPrefix(below, n+"/")) {
				name = n
			}
		}
	}
	if name == "" {
		first, _, _ := strings.Cut(below, "/")
		return r, notFound("model_not_found", "there is no model `%s`; there are: %s", shortened([]byte(first)),
			s.modelNames())
	}
	inside := r.WithContext(context.WithValue(r.Context(), viewKey{}, name))
	inside.URL = &url.URL{Path: strings.TrimPrefix(below, name), RawQuery: r.URL.RawQuery}
	if inside.URL.Path == "" {
		inside.URL.Path = "/"
	}
	return inside, nil
}

// names returns the names of the model and its adapters.
func (m *Model) names() []string { return append([]string{m.Name}, m.adapterNames()...) }

// targets lists what a request may be for: the models and their adapters, or the one that it is limited to.
func (s *Server) targets(ctx context.Context) (list []target) {
	view := viewOf(ctx)
	for _, m := range s.served.all() {
		for _, a := range append([]*adapter{m.find("")}, m.loaded()...) {
			if t := (target{m, a}); view == "" || t.name() == view {
				list = append(list, t)
			}
		}
	}
	return list
}
