package serve

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"dynosim/gocore/frontend"
	"dynosim/gocore/live/store"
	"dynosim/gocore/live/store/etcd"
	"dynosim/gocore/live/store/kubernetes"
	"dynosim/gocore/strictjson"
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

// watcher is where a frontend finds the records of all workers.
type watcher interface {
	watch(ctx context.Context, log *slog.Logger) (*watched, error)
}

// parseWatcher finds out where that is.
func parseWatcher(name string, env environment) (watcher, []string, error) {
	if name == "kubernetes" { // a worker must know its pod, a frontend need not
		config, warnings, err := kubernetes.ReaderFromEnvironment(env.get, kubernetes.PodInfo)
		return kubernetesReader{config}, warnings, err
	}
	b, warnings, err := parseDiscovery(name, env)
	if w, finds := b.(watcher); finds {
		return w, warnings, err
	}
	return nil, nil, &strictjson.FieldError{Field: "discovery_backend", Got: strconv.Quote(name),
		Want: "file, etcd or kubernetes: no other process is found with " + name}
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

type kubernetesReader struct{ config kubernetes.ReaderConfig }

func (b kubernetesReader) watch(ctx context.Context, _ *slog.Logger) (*watched, error) {
	reader, err := kubernetes.OpenReader(ctx, b.config)
	if err != nil {
		return nil, err
	}
	return &watched{records: reader, interval: lookAtServer, close: func() {}}, nil
}
