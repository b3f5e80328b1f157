package serve

import (
	"context"
	"sync"

	"dynosim/gocore/engine"
	"dynosim/gocore/live"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/store"
	"dynosim/gocore/live/store/etcd"
	"dynosim/gocore/live/store/kubernetes"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/strictjson"
)

// parseNATS finds out what a NATS server is needed for.
func (p *plan) parseNATS(o *strictjson.Object, env environment) error {
	c := &p.config
	if o.Text("event_plane") == "nats" {
		c.Events = live.EventsOverNATS
	}
	c.Durable = o.Bool("durable_kv_events") && c.Args.PrefixCaching && c.Args.Role != engine.Decode
	if c.Requests != live.RequestsOverNATS && c.Events != live.EventsOverNATS && !c.Durable {
		return nil
	}
	config, err := bus.FromEnvironment(env.get)
	if err == nil {
		err = config.Check()
	}
	c.NATS = &config
	return err
}

// parseDiscovery finds out where workers are to be found.
func (p *plan) parseDiscovery(o *strictjson.Object, env environment) error {
	switch o.Text("discovery_backend") {
	case "etcd":
		return p.parseEtcd(env)
	case "kubernetes":
		return p.parseKubernetes(env)
	case "mem":
		registry := store.NewMemory()
		p.config.OpenStore = func(context.Context) (discovery.Store, error) { return registry.Open(), nil }
		p.warnings = append(p.warnings, "discovery_backend mem: no other process will find these workers")
	default:
		p.parseFiles(env)
	}
	return nil
}

// parseFiles prepares one walk through the records of everybody, for all workers.
func (p *plan) parseFiles(env environment) {
	root := store.FileRoot(env.get)
	open := sync.OnceValues(func() (*store.File, error) {
		file, err := store.OpenFile(root)
		if err == nil {
			p.close = func() { _ = file.Close() }
		}
		return file, err
	})
	p.config.OpenStore = func(context.Context) (discovery.Store, error) {
		file, err := open()
		if err != nil {
			return nil, err
		}
		return file.Open(), nil
	}
}

func (p *plan) parseEtcd(env environment) error {
	config, err := etcd.FromEnvironment(env.get)
	if err == nil {
		err = config.Check()
	}
	p.config.OpenStore = func(ctx context.Context) (discovery.Store, error) { return etcd.Open(ctx, config, p.config.Log) }
	return err
}

// parseKubernetes prepares the one resource that all workers of the process share.
func (p *plan) parseKubernetes(env environment) error {
	config, warnings, err := kubernetes.FromEnvironment(env.get, kubernetes.PodInfo)
	p.warnings = append(p.warnings, warnings...)
	var resource *kubernetes.Resource
	p.config.OpenStore = func(ctx context.Context) (discovery.Store, error) { // one worker is launched after the other
		if resource == nil {
			var err error
			if resource, err = kubernetes.New(ctx, config, p.config.Log); err != nil {
				return nil, err
			}
		}
		return resource.Open(), nil
	}
	return err
}
