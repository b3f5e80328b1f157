package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"dynosim/gocore/protocol/discovery"
)

// ReaderConfig says which namespace a frontend looks at, and where the API server is.
type ReaderConfig struct {
	config     Config // without a pod
	containers bool   // readiness is that of containers
}

var endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}

// discoverable selects the slices, or the pods, that tell which workers are ready.
const discoverable = "nvidia.com/dynamo-discovery-enabled=true"

// ReaderFromEnvironment does what [FromEnvironment] does, for a process that only reads.
func ReaderFromEnvironment(getenv func(string) string, podInfo string) (c ReaderConfig, warnings []string, err error) {
	config, warnings, err := FromEnvironment(func(name string) string {
		if text := getenv(name); text != "" || name != "POD_NAME" && name != "POD_UID" && name != "CONTAINER_NAME" {
			return text
		}
		return "a reader has none"
	}, podInfo)
	return ReaderConfig{config, config.Container != ""}, warnings, err
}

// Reader sees the records of all workers that are ready.
type Reader struct {
	workers, sources dynamic.ResourceInterface
	containers       bool

	mu      sync.Mutex
	read    time.Time
	records map[discovery.Bucket][]discovery.Record
}

// freshness is how long records are taken to be as they were read: those of all buckets are in the same resources.
const freshness = 300 * time.Millisecond

// OpenReader fails if the records cannot be read.
func OpenReader(ctx context.Context, c ReaderConfig) (*Reader, error) {
	server, err := c.config.server()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(server)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	source := endpointSlices
	if c.containers {
		source = pods
	}
	r := &Reader{
		workers:    client.Resource(metadata).Namespace(c.config.Namespace),
		sources:    client.Resource(source).Namespace(c.config.Namespace),
		containers: c.containers,
	}
	return r, r.refresh(ctx)
}

// List returns the records of the workers that are ready, in the order of their keys.
func (r *Reader) List(bucket discovery.Bucket) ([]discovery.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.read) > freshness {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return r.records[bucket], nil
}

// refresh reads all records.
func (r *Reader) refresh(ctx context.Context) error {
	sources, err := r.sources.List(ctx, metav1.ListOptions{LabelSelector: discoverable})
	if err != nil {
		return fmt.Errorf("kubernetes: which workers are ready: %w; the role of this pod needs list for %s", err,
			r.source())
	}
	resources, err := r.workers.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("kubernetes: %w", explain(err))
	}
	ready := readyNames(sources.Items)
	items := slices.DeleteFunc(resources.Items, func(u unstructured.Unstructured) bool { return !ready[u.GetName()] })
	r.records, r.read = recordsOf(items), time.Now()
	return nil
}

func (r *Reader) source() string {
	if r.containers {
		return pods.Resource
	}
	return endpointSlices.Resource + "." + endpointSlices.Group
}

// source is what tells of readiness: an EndpointSlice, or a Pod.
type source struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Endpoints []struct {
		Conditions struct {
			Ready bool `json:"ready"`
		} `json:"conditions"`
		Target struct {
			Name string `json:"name"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Status struct {
		Containers []struct {
			Name  string `json:"name"`
			Ready bool   `json:"ready"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// readyNames returns the names of the resources whose pods or containers are ready. A slice that does not say so means
// no.
func readyNames(items []unstructured.Unstructured) map[string]bool {
	ready := map[string]bool{}
	for _, item := range items {
		text, err := json.Marshal(item.Object)
		var s source
		if err != nil || json.Unmarshal(text, &s) != nil {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready && e.Target.Name != "" {
				ready[e.Target.Name] = true
			}
		}
		for _, c := range s.Status.Containers {
			if c.Ready {
				ready[(&Config{Pod: s.Metadata.Name, Container: c.Name}).name()] = true
			}
		}
	}
	return ready
}
