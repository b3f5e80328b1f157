package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/live/store/kubernetes/apiserver"
	"dynosim/gocore/protocol/discovery"
)

const (
	requestTimeout = 10 * time.Second
	attempts       = 3
	retryDelay     = 500 * time.Millisecond
	checkInterval  = 10 * time.Second // between checks that the resource still exists
	fieldManager   = "dynamo-worker"  // the name under which resources are written; all writers use the same
)

// metadatas returns the kind of objects that workers write.
func metadatas(namespace string) apiserver.Resource {
	return apiserver.Resource{Group: "nvidia.com", Version: "v1alpha1", Plural: "dynamoworkermetadatas",
		Namespace: namespace}
}

func pods(namespace string) apiserver.Resource {
	return apiserver.Resource{Version: "v1", Plural: "pods", Namespace: namespace}
}

// sections are where the records of a bucket are within the resource.
var sections = map[discovery.Bucket]string{
	discovery.Instances:     "endpoints",
	discovery.Models:        "model_cards",
	discovery.EventChannels: "event_channels",
	discovery.EventSources:  "event_sources",
}

// Resource is the resource of this process. It is safe for concurrent use.
type Resource struct {
	config   Config
	client   *apiserver.Client
	kind     apiserver.Resource
	log      *slog.Logger
	interval time.Duration

	mu      sync.Mutex
	records map[discovery.Bucket]map[string]json.RawMessage
	workers int           // that have been opened
	open    int           // of them, not closed yet
	written bool          // and not deleted
	alien   bool          // another process writes it too; this was logged
	stop    func()        // ends watch
	done    chan struct{} // it has ended
}

// New finds the API server and checks the identity of this process.
func New(ctx context.Context, c Config, log *slog.Logger) (*Resource, error) {
	client, err := c.connect()
	if err != nil {
		return nil, err
	}
	r := &Resource{
		config: c, client: client, kind: metadatas(c.Namespace), log: log, interval: checkInterval,
		records: map[discovery.Bucket]map[string]json.RawMessage{}, done: make(chan struct{}),
	}
	for bucket := range sections {
		r.records[bucket] = map[string]json.RawMessage{}
	}
	if err := c.checkPod(ctx, client, log); err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	// a pod outlives its containers: records that an earlier container has left would be taken for those of this one
	if c.Container != "" {
		if err := r.remove(ctx); err != nil {
			return nil, fmt.Errorf("kubernetes: what an earlier container has left: %w", err)
		}
	}
	life, stop := context.WithCancel(context.Background())
	r.stop = stop
	go guard.Func(func() { r.watch(life) })()
	return r, nil
}

// checkPod makes sure that the pod that is to own the resource exists: otherwise the cluster would delete it at once.
func (c *Config) checkPod(ctx context.Context, client *apiserver.Client, log *slog.Logger) error {
	var pod struct{ Metadata struct{ UID string } }
	err := client.Get(ctx, pods(c.Namespace), c.Pod, &pod)
	switch {
	case apiserver.HasCode(err, http.StatusForbidden):
		log.Debug("this pod may not look itself up, so POD_UID is not checked", "cause", err)
		return nil
	case apiserver.HasCode(err, http.StatusNotFound):
		return fmt.Errorf("POD_NAME: got %q, but there is no such pod in namespace %q", c.Pod, c.Namespace)
	case err != nil:
		return err
	case pod.Metadata.UID != c.UID:
		return fmt.Errorf("POD_UID: got %q, but pod %s has %q: the identity is that of a former pod", c.UID, c.Pod,
			pod.Metadata.UID)
	}
	return nil
}

// document returns the whole resource.
func (r *Resource) document() []byte {
	type owner struct {
		APIVersion         string `json:"apiVersion"`
		Kind               string `json:"kind"`
		Name               string `json:"name"`
		UID                string `json:"uid"`
		Controller         bool   `json:"controller"`
		BlockOwnerDeletion bool   `json:"blockOwnerDeletion"`
	}
	name := r.config.name()
	data := map[string]any{}
	for bucket, section := range sections { // all of them, an empty object would be refused
		data[section] = r.records[bucket]
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": r.kind.Group + "/" + r.kind.Version,
		"kind":       "DynamoWorkerMetadata",
		"metadata": map[string]any{
			"name":            name,
			"ownerReferences": []owner{{"v1", "Pod", r.config.Pod, r.config.UID, name == r.config.Pod, false}},
		},
		"spec": map[string]any{"data": data},
	})
	if err != nil {
		panic(fmt.Sprintf("kubernetes: %v", err)) // it is all plain values
	}
	return text
}

// apply writes the resource.
func (r *Resource) apply(ctx context.Context) error {
	err := persist(ctx, func() error {
		return r.client.Apply(ctx, r.kind, r.config.name(), fieldManager, r.document())
	})
	if err == nil {
		r.written = true
	}
	return explain(err)
}

// remove deletes the resource; one that does not exist is fine.
func (r *Resource) remove(ctx context.Context) error {
	err := persist(ctx, func() error { return r.client.Delete(ctx, r.kind, r.config.name()) })
	if err != nil && !apiserver.HasCode(err, http.StatusNotFound) {
		return explain(err)
	}
	r.written = false
	return nil
}

// persist retries a call as long as its error may go away.
func persist(ctx context.Context, do func() error) (err error) {
	for range attempts {
		if err = do(); err == nil || permanent(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
	}
	return err
}

// permanent reports whether a retry would get the same error.
func permanent(err error) bool {
	var status *apiserver.StatusError
	if !errors.As(err, &status) {
		return false
	}
	code := status.Code
	return code >= 400 && code < 500 && code != 408 && code != 409 && code != 429
}

// explain adds what to do about an error.
func explain(err error) error {
	switch {
	case apiserver.HasCode(err, http.StatusForbidden):
		return fmt.Errorf("%w; the role of this pod needs list, create, patch and delete for %s", err, metadatas(""))
	case apiserver.HasCode(err, http.StatusNotFound):
		return fmt.Errorf("%w; the cluster needs the custom resource %s of Dynamo", err, metadatas(""))
	}
	return err
}

// watch checks from time to time that the resource exists.
func (r *Resource) watch(ctx context.Context) {
	defer close(r.done)
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.check()
		}
	}
}

// check writes the resource again if it was deleted, and logs an error if another process has written over it.
func (r *Resource) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.written {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var found metadataList
	err := r.client.List(ctx, r.kind, apiserver.Selector{Fields: "metadata.name=" + r.config.name()}, &found)
	switch {
	case err != nil:
		r.log.Warn("kubernetes: the records of this process cannot be checked", "cause", err)
	case len(found.Items) == 0:
		r.log.Warn("kubernetes: the records of this process were deleted; writing them again. If this goes on, its "+
			"pod does not exist any more",
			"resource", r.config.name(), "pod_uid", r.config.UID)
		if err := r.apply(ctx); err != nil {
			r.log.Warn("kubernetes: the records cannot be written", "cause", err)
		}
	default:
		missing := r.missing(found.Items[0].records())
		if missing && !r.alien {
			r.log.Error("kubernetes: another process has the same identity and writes over the records of this one; "+
				"only one of them is found. "+
				"Run one process in a pod, or one in each container with DYN_KUBE_DISCOVERY_MODE=container", "resource",
				r.config.name())
		}
		r.alien = missing
	}
}

// missing reports whether records of this process are not among these.
func (r *Resource) missing(present map[discovery.Bucket]map[string]json.RawMessage) bool {
	for bucket, records := range r.records {
		for key := range records {
			if _, ok := present[bucket][key]; !ok {
				return true
			}
		}
	}
	return false
}

// metadataList are the resources of all processes.
type metadataList struct {
	Items []metadata `json:"items"`
}

// metadata is the resource of one process. What is null or of another shape has no records.
type metadata struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

// records returns those in a resource.
func (m *metadata) records() map[discovery.Bucket]map[string]json.RawMessage {
	var spec struct {
		Data map[string]json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal(m.Spec, &spec)
	records := map[discovery.Bucket]map[string]json.RawMessage{}
	for bucket, section := range sections {
		documents := map[string]json.RawMessage{}
		if json.Unmarshal(spec.Data[section], &documents) != nil || documents == nil {
			documents = map[string]json.RawMessage{}
		}
		records[bucket] = documents
	}
	return records
}
