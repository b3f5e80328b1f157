package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"dynosim/gocore/frontend"
	"dynosim/gocore/live/store"
	"dynosim/gocore/live/store/etcd"
	"dynosim/gocore/live/store/kubernetes"
)

// watched is the records of all workers.
type watched struct {
	records  frontend.Records
	interval time.Duration   // between two looks at them
	changed  <-chan struct{} // nil if nothing tells of changes
	close    func()
}

// Times between two looks at records, in files and on a server.
const (
	lookAtFiles  = 250 * time.Millisecond
	lookAtServer = time.Second
)

func (memoryBackend) watch(context.Context, *slog.Logger) (*watched, error) {
	return nil, errors.New("discovery_backend mem: no other process is found")
}

func (b fileBackend) watch(context.Context, *slog.Logger) (*watched, error) {
	file, err := store.OpenFile(b.root)
	if err != nil {
		return nil, err
	}
	return &watched{records: file, interval: lookAtFiles, close: func() { _ = file.Close() }}, nil
}

func (b etcdBackend) watch(ctx context.Context, log *slog.Logger) (*watched, error) {
	reader, err := etcd.OpenReader(ctx, b.config, log)
	if err != nil {
		return nil, err
	}
	return &watched{records: reader, interval: lookAtServer, changed: reader.Changed(), close: reader.Close}, nil
}

// kubernetesReader is the backend of a frontend, which needs no identity of a pod.
type kubernetesReader struct {
	kubernetesBackend
	reader kubernetes.ReaderConfig
}

func parseKubernetesReader(env environment) (backend, []string, error) {
	config, warnings, err := kubernetes.ReaderFromEnvironment(env.get, kubernetes.PodInfo)
	return kubernetesReader{reader: config}, warnings, err
}

func (b kubernetesBackend) watch(context.Context, *slog.Logger) (*watched, error) {
	return nil, errors.New("discovery_backend kubernetes: this is a worker")
}

func (b kubernetesReader) watch(ctx context.Context, _ *slog.Logger) (*watched, error) {
	reader, err := kubernetes.OpenReader(ctx, b.reader)
	if err != nil {
		return nil, err
	}
	return &watched{records: reader, interval: lookAtServer, close: func() {}}, nil
}
