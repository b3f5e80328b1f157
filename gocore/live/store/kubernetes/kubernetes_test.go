package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"dynosim/gocore/protocol/discovery"
)

func TestInstanceID(t *testing.T) {
	for name, want := range map[string]uint64{
		"worker-0":                      1186445869714687,
		"worker-1":                      6167992384364830,
		"worker-0-engine-0":             8051026481054291,
		"mocker-agg-decode-7c9d8-x2k4p": 8990845225617363,
		"a":                             7688582637611507,
	} {
		if got := instanceID(name, 0); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
	if instanceID("a", 1) == instanceID("a", 2) || instanceID("a", 1) == instanceID("a", 0) {
		t.Error("workers of a process have the same id")
	}
}

func TestFromEnvironment(t *testing.T) {
	folder := t.TempDir()
	pod := map[string]string{"POD_NAME": "worker-0", "POD_UID": "1-2", "POD_NAMESPACE": "ns"}
	with := func(more ...string) map[string]string {
		all := map[string]string{}
		for name, value := range pod {
			all[name] = value
		}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	for _, test := range []struct {
		environment map[string]string
		name        string // of the resource
		warning     string
		err         string
	}{
		{with(), "worker-0", "", ""},
		{with("POD_NAMESPACE", ""), "worker-0", `taking "default"`, ""},
		{with("CONTAINER_NAME", "engine-0"), "worker-0", "", ""},
		{with("CONTAINER_NAME", "engine-0", "DYN_KUBE_DISCOVERY_MODE", "container"), "worker-0-engine-0", "", ""},
		{with("CONTAINER_NAME", "main", "DYN_KUBE_DISCOVERY_MODE", "container"), "worker-0", "", ""},
		{with("DYN_KUBE_DISCOVERY_MODE", "container"), "", "", "CONTAINER_NAME: got nothing"},
		{with("DYN_KUBE_DISCOVERY_MODE", "node"), "", "", `DYN_KUBE_DISCOVERY_MODE: got "node", want pod or container`},
		{with("POD_NAME", ""), "", "", "POD_NAME: got nothing"},
		{with("POD_UID", ""), "", "", "POD_UID: got nothing"},
	} {
		c, warnings, err := FromEnvironment(func(name string) string { return test.environment[name] }, folder)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v: got %v, want %s", test.environment, err, test.err)
			}
		case err != nil || c.name() != test.name || !strings.Contains(strings.Join(warnings, ""), test.warning):
			t.Errorf("%v: got %+v, %v, %v", test.environment, c, warnings, err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "pod_name"), []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, _, err := FromEnvironment(func(name string) string { return pod[name] }, folder); err != nil ||
		c.Pod != "from-file" || c.UID != "1-2" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// server stands in for an API server: it has pods, and resources as they were applied.
type server struct {
	t    *testing.T
	http *httptest.Server

	mu        sync.Mutex
	pods      map[string]string // uid by name
	resources map[string]json.RawMessage
	log       []string
	refuse    func(method string) int // a status other than 0
}

func newServer(t *testing.T) (*server, Config) {
	s := &server{t: t, pods: map[string]string{"worker-0": "1-2"}, resources: map[string]json.RawMessage{}}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c",`+
		`"cluster":{"server":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, s.http.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, Config{Namespace: "ns", Pod: "worker-0", UID: "1-2", Kubeconfig: []string{kubeconfig}}
}

const prefix = "/apis/nvidia.com/v1alpha1/namespaces/ns/dynamoworkermetadatas"

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.log = append(s.log, fmt.Sprintf("%s %s %s", r.Method, r.URL, r.Header.Get("Content-Type")))
	status := func(code int, reason string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`,
			reason, reason, code)
	}
	if s.refuse != nil {
		if code := s.refuse(r.Method); code != 0 {
			status(code, map[int]string{403: "Forbidden", 500: "InternalError", 409: "Conflict"}[code])
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, prefix), "/")
	pod, isPod := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/ns/pods/")
	switch uid, known := s.pods[pod]; {
	case isPod && known:
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"uid":%q}}`, pod, uid)
	case isPod:
		status(404, "NotFound")
	case r.Method == http.MethodPatch:
		s.resources[name] = body
		_, _ = w.Write(body)
	case r.Method == http.MethodDelete && s.resources[name] == nil:
		status(404, "NotFound")
	case r.Method == http.MethodDelete:
		delete(s.resources, name)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	default:
		items := make([]json.RawMessage, 0, len(s.resources))
		for _, resource := range s.resources {
			items = append(items, resource)
		}
		text, _ := json.Marshal(map[string]any{
			"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoWorkerMetadataList", "metadata": map[string]string{},
			"items": items,
		})
		_, _ = w.Write(text)
	}
}

func (s *server) resource(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.resources[name])
}

func (s *server) requests(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.log {
		if strings.HasPrefix(line, method) {
			n++
		}
	}
	return n
}

func (s *server) refuseWith(refuse func(method string) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

func open(t *testing.T, c Config) *Resource {
	t.Helper()
	r, err := New(t.Context(), c, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var endpoint = discovery.Endpoint{Namespace: "dynamo", Component: "backend", Name: "generate"}

func TestApply(t *testing.T) {
	s, c := newServer(t)
	store := open(t, c).Open()
	if err := store.Put(discovery.EndpointRecord(endpoint, store.InstanceID(), map[string]string{"tcp": "a:1/x"},
		"cuda")); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	if got, want := s.log[len(s.log)-1], "PATCH "+prefix+
		"/worker-0?fieldManager=dynamo-worker&force=true&timeout=10s application/apply-patch+yaml"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.mu.Unlock()
	const want = `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoWorkerMetadata","metadata":{"name":"worker-0",` +
		`"ownerReferences":` +
		`[{"apiVersion":"v1","kind":"Pod","name":"worker-0","uid":"1-2","controller":true,"blockOwnerDeletion":false}]},` +
		`"spec":{"data":{` +
		`"endpoints":{"dynamo/backend/generate/43710f49c0cff":{"type":"Endpoint","component":"backend",` +
		`"endpoint":"generate",` +
		`"namespace":"dynamo","instance_id":1186445869714687,"transport":{"tcp":"a:1/x"},"device_type":"cuda",` +
		`"request_plane_codec":"msgpack"}},` +
		`"model_cards":{},"event_channels":{},"event_sources":{}}}}`
	var got, expected any
	if err := errors.Join(json.Unmarshal([]byte(s.resource("worker-0")), &got),
		json.Unmarshal([]byte(want), &expected)); err != nil || !reflect.DeepEqual(got, expected) {
		t.Errorf("got %s, %v, want %s", s.resource("worker-0"), err, want)
	}
	if err := store.Close(); err != nil || s.resource("worker-0") != "" {
		t.Errorf("got %v and a resource %s", err, s.resource("worker-0"))
	}
}

// TestWorkers: those of a process share its resource, which goes with the last of them.
func TestWorkers(t *testing.T) {
	s, c := newServer(t)
	r := open(t, c)
	one, other := r.Open(), r.Open()
	put := func(store discovery.Store, key string) error {
		return store.Put(discovery.Record{Bucket: discovery.Instances, Key: key, Document: []byte(`{"n":1}`)})
	}
	if err := errors.Join(put(one, "a"), put(one, "b"), put(other, "c")); err != nil {
		t.Fatal(err)
	}
	if err := put(other, "a"); !errors.Is(err, discovery.ErrExists) {
		t.Errorf("got %v", err)
	}
	keys := func() (all string) {
		list, err := other.List(discovery.Instances)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range list {
			all += record.Key
		}
		return all
	}
	if err := errors.Join(one.Delete(discovery.Instances, "a"), one.Delete(discovery.Instances, "c")); err != nil {
		t.Error(err)
	}
	if got := keys(); got != "bc" {
		t.Errorf("got %s", got)
	}
	if err := errors.Join(one.Close(), one.Close()); err != nil || keys() != "c" {
		t.Errorf("got %s, %v", keys(), err)
	}
	if err := put(one, "late"); err == nil {
		t.Error("a closed store takes records")
	}
	if err := other.Close(); err != nil || s.resource("worker-0") != "" {
		t.Errorf("got %s, %v", s.resource("worker-0"), err)
	}
}

// TestContainer: what an earlier container has left goes before anything else.
func TestContainer(t *testing.T) {
	s, c := newServer(t)
	c.Container = "engine-0"
	s.resources["worker-0-engine-0"] = json.RawMessage(`{}`)
	store := open(t, c).Open()
	if s.resource("worker-0-engine-0") != "" {
		t.Error("it is still there")
	}
	if err := store.Put(discovery.EndpointRecord(endpoint, store.InstanceID(), nil, "cpu")); err != nil {
		t.Fatal(err)
	}
	if got := s.resource("worker-0-engine-0"); !strings.Contains(got, `"controller":false`) ||
		!strings.Contains(got, `"instance_id":8051026481054291`) {
		t.Errorf("got %s", got)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	s.refuseWith(func(method string) int { return map[string]int{http.MethodDelete: 403}[method] })
	if _, err := New(t.Context(), c, slog.Default()); err == nil ||
		!strings.Contains(err.Error(), "what an earlier container has left") {
		t.Errorf("got %v", err)
	}
}

func TestIdentity(t *testing.T) {
	s, c := newServer(t)
	stale, unknown := c, c
	stale.UID, unknown.Pod = "0-0", "worker-9"
	for _, test := range []struct {
		config Config
		want   string
	}{
		{stale, `POD_UID: got "0-0", but pod worker-0 has "1-2"`},
		{unknown, `POD_NAME: got "worker-9", but there is no such pod in namespace "ns"`},
		{Config{Pod: "a", UID: "b", Kubeconfig: []string{"/none"}}, "no API server"},
	} {
		if _, err := New(t.Context(), test.config, slog.Default()); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	s.refuseWith(func(method string) int { return map[string]int{http.MethodGet: 403}[method] })
	// without the permission to look there is no error
	if _, err := New(t.Context(), stale, slog.Default()); err != nil {
		t.Error(err)
	}
}

// TestRefusals: what the server will never do fails at once and is explained, the rest is tried again.
func TestRefusals(t *testing.T) {
	s, c := newServer(t)
	store := open(t, c).Open()
	record := discovery.EndpointRecord(endpoint, store.InstanceID(), nil, "cpu")
	s.refuseWith(func(method string) int { return map[string]int{http.MethodPatch: 403}[method] })
	if err := store.Put(record); err == nil || !strings.Contains(err.Error(), "the role of this pod needs") ||
		s.requests("PATCH") != 1 {
		t.Errorf("got %v after %d tries", err, s.requests("PATCH"))
	}
	tries := 0
	s.refuseWith(func(method string) int {
		if tries++; method == http.MethodPatch && tries < 3 {
			return map[int]int{1: 409, 2: 500}[tries]
		}
		return 0
	})
	if err := store.Put(record); err != nil {
		t.Error(err)
	}
	// Without the permission to delete, the resource is emptied.
	s.refuseWith(func(method string) int { return map[string]int{http.MethodDelete: 403}[method] })
	if err := store.Close(); err != nil || !strings.Contains(s.resource("worker-0"), `"endpoints":{}`) {
		t.Errorf("got %v, %s", err, s.resource("worker-0"))
	}
}

// TestDeleted: a resource that was deleted is written again.
func TestDeleted(t *testing.T) {
	s, c := newServer(t)
	r := open(t, c)
	store := r.Open()
	defer func() { _ = store.Close() }()
	if err := store.Put(discovery.EndpointRecord(endpoint, store.InstanceID(), nil, "cpu")); err != nil {
		t.Fatal(err)
	}
	before := s.resource("worker-0")
	s.mu.Lock()
	clear(s.resources)
	s.mu.Unlock()
	r.check()
	if s.resource("worker-0") != before {
		t.Errorf("got %s, want %s", s.resource("worker-0"), before)
	}
	s.mu.Lock()
	s.resources["worker-0"] = json.RawMessage(`{"spec":{"data":{"endpoints":null}}}`)
	s.mu.Unlock()
	if r.check(); !r.alien {
		t.Error("records that were written over are not missed")
	}
	s.http.Close()
	r.check()
}
