package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dynosim/gocore/live/store/kubernetes/apiserver"
	"dynosim/gocore/protocol/discovery"
)

// ReaderConfig says which namespace a frontend looks at, and where the API server is.
type ReaderConfig struct {
	config     Config // without a pod
	containers bool   // readiness is that of containers
}

// endpointSlices returns the kind of objects that tell which pods of a service are ready.
func endpointSlices(namespace string) apiserver.Resource {
	return apiserver.Resource{Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices", Namespace: namespace}
}

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
	client           *apiserver.Client
	workers, sources apiserver.Resource

	mu      sync.Mutex
	read    time.Time
	records map[discovery.Bucket][]discovery.Record
}

// freshness is how long records are taken to be as they were read: those of all buckets are in the same resources.
const freshness = 300 * time.Millisecond

// OpenReader fails if the records cannot be read.
func OpenReader(ctx context.Context, c ReaderConfig) (*Reader, error) {
	client, err := c.config.connect()
	if err != nil {
		return nil, err
	}
	sources := endpointSlices
	if c.containers {
		sources = pods
	}
	r := &Reader{client: client, workers: metadatas(c.config.Namespace), sources: sources(c.config.Namespace)}
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
	var sources struct{ Items []source }
	if err := r.client.List(ctx, r.sources, apiserver.Selector{Labels: discoverable}, &sources); err != nil {
		return fmt.Errorf("kubernetes: which workers are ready: %w; the role of this pod needs list for %s", err,
			r.sources)
	}
	var found metadataList
	if err := r.client.List(ctx, r.workers, apiserver.Selector{}, &found); err != nil {
		return fmt.Errorf("kubernetes: %w", explain(err))
	}
	ready := readyNames(sources.Items)
	items := slices.DeleteFunc(found.Items, func(m metadata) bool { return !ready[m.Metadata.Name] })
	r.records, r.read = recordsOf(items), time.Now()
	return nil
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
func readyNames(items []source) map[string]bool {
	ready := map[string]bool{}
	for _, s := range items {
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
