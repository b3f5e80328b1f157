package kubernetes

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"dynosim/gocore/protocol/discovery"
)

// sourceServer adds slices and pods to a server.
type sourceServer struct {
	*server
	sources string // items
}

func (s *sourceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/endpointslices") || strings.HasSuffix(r.URL.Path, "/pods") {
		if r.URL.Query().Get("labelSelector") != discoverable {
			s.t.Errorf("got selector %q", r.URL.Query().Get("labelSelector"))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"1"},"items":[%s]}`,
			s.sources)
		return
	}
	s.server.ServeHTTP(w, r)
}

// TestReader: records count while their pods, or containers, are ready.
func TestReader(t *testing.T) {
	for mode, sources := range map[string]struct{ ready, not string }{
		"pod": {
			`{"metadata":{"name":"s"},"endpoints":[{"conditions":{"ready":true},"targetRef":{"name":"worker-0"}}]}`,
			`{"metadata":{"name":"s"},"endpoints":[{"conditions":{},"targetRef":{"name":"worker-0"}}]}`,
		},
		"container": {
			`{"metadata":{"name":"worker-0"},"status":{"containerStatuses":[{"name":"main","ready":true},{"name":"other",` +
				`"ready":false}]}}`,
			`{"metadata":{"name":"worker-0"},"status":{"containerStatuses":[{"name":"main","ready":false},` +
				`{"name":"other","ready":true}]}}`,
		},
	} {
		t.Run(mode, func(t *testing.T) {
			api, config := newServer(t)
			s := &sourceServer{server: api}
			api.http.Config.Handler = s
			resource, err := New(t.Context(), config, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			worker := resource.Open()
			defer func() { _ = worker.Close() }()
			e := discovery.Endpoint{Namespace: "n", Component: "c", Name: "generate"}
			if err := worker.Put(discovery.EndpointRecord(e, worker.InstanceID(), map[string]string{"tcp": "h:1/x"},
				"cpu")); err != nil {
				t.Fatal(err)
			}
			environment := map[string]string{"POD_NAMESPACE": "ns", "KUBECONFIG": config.Kubeconfig[0],
				"DYN_KUBE_DISCOVERY_MODE": mode}
			c, _, err := ReaderFromEnvironment(func(name string) string { return environment[name] }, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			reader, err := OpenReader(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				sources string
				want    int
			}{{sources.ready, 1}, {sources.not, 0}, {sources.ready, 1}, {"", 0}} {
				s.sources = step.sources
				reader.read = time.Time{} // as if some time had passed
				list, err := reader.List(discovery.Instances)
				if err != nil || len(list) != step.want {
					t.Errorf("with %s: got %v, %v, want %d", step.sources, list, err, step.want)
				}
				if len(list) > 0 {
					if i, err := discovery.ParseInstance(list[0]); err != nil || i.ID != worker.InstanceID() ||
						i.Transport["tcp"] != "h:1/x" {
						t.Errorf("got %+v, %v", i, err)
					}
				}
			}
		})
	}
}

// TestReaderForbidden: the message says what the role of the pod needs.
func TestReaderForbidden(t *testing.T) {
	api, config := newServer(t)
	api.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no",`+
			`"reason":"Forbidden","code":403}`)
	})
	_, err := OpenReader(t.Context(), ReaderConfig{config: config})
	if err == nil || !strings.Contains(err.Error(), "needs list for endpointslices.discovery.k8s.io") {
		t.Errorf("got %v", err)
	}
}
