package serve

import (
	"context"
	"log/slog"
	"sync"

	"dynosim/gocore/live/store"
	"dynosim/gocore/live/store/etcd"
	"dynosim/gocore/live/store/kubernetes"
	"dynosim/gocore/protocol/discovery"
)

// openStore opens the store for the records of one worker.
type openStore = func(context.Context) (discovery.Store, error)

// backend is where discovery records are kept.
type backend interface {
	// stores returns two functions: open opens a store for each worker, one after the other; end closes what the stores
	// share.
	stores(log *slog.Logger) (open openStore, end func())
}

// parseDiscovery finds out where records of the workers are to be kept.
func parseDiscovery(name string, env environment) (b backend, warnings []string, err error) {
	switch name {
	case "etcd":
		config, err := etcd.FromEnvironment(env.get)
		if err == nil {
			err = config.Check()
		}
		return etcdBackend{config}, nil, err
	case "kubernetes":
		config, warnings, err := kubernetes.FromEnvironment(env.get, kubernetes.PodInfo)
		return kubernetesBackend{config}, warnings, err
	case "mem":
		return memoryBackend{}, []string{"discovery_backend mem: no other process will find these workers"}, nil
	default:
		return fileBackend{store.FileRoot(env.get)}, nil, nil
	}
}

type memoryBackend struct{}

func (memoryBackend) stores(*slog.Logger) (openStore, func()) {
	registry := store.NewMemory()
	return func(context.Context) (discovery.Store, error) { return registry.Open(), nil }, func() {}
}

// fileBackend keeps the records of all workers with one walk through the files of all processes.
type fileBackend struct{ root string }

func (b fileBackend) stores(*slog.Logger) (openStore, func()) {
	end := func() {}
	files := sync.OnceValues(func() (*store.File, error) {
		file, err := store.OpenFile(b.root)
		if err == nil {
			end = func() { _ = file.Close() }
		}
		return file, err
	})
	open := func(context.Context) (discovery.Store, error) {
		file, err := files()
		if err != nil {
			return nil, err
		}
		return file.Open(), nil
	}
	return open, func() { end() }
}

type etcdBackend struct{ config etcd.Config }

func (b etcdBackend) stores(log *slog.Logger) (openStore, func()) {
	return func(ctx context.Context) (discovery.Store, error) { return etcd.Open(ctx, b.config, log) }, func() {}
}

// kubernetesBackend keeps the records of all workers in one resource.
type kubernetesBackend struct{ config kubernetes.Config }

func (b kubernetesBackend) stores(log *slog.Logger) (openStore, func()) {
	var resource *kubernetes.Resource
	open := func(ctx context.Context) (discovery.Store, error) { // one worker is launched after the other
		if resource == nil {
			var err error
			if resource, err = kubernetes.New(ctx, b.config, log); err != nil {
				return nil, err
			}
		}
		return resource.Open(), nil
	}
	return open, func() {}
}
