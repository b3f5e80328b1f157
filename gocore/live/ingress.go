package live

import (
	"net"
	"strconv"

	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/publish"
	"dynosim/gocore/protocol/discovery"
)

// RequestPlane is how requests come in.
type RequestPlane int

// The request planes.
const (
	RequestsOverTCP RequestPlane = iota
	RequestsOverHTTP
	RequestsOverNATS
)

// EventPlane is how events leave.
type EventPlane int

// The event planes.
const (
	EventsOverZMQ EventPlane = iota
	EventsOverNATS
)

// ingress is the part of the request plane that receives requests.
type ingress interface {
	// open accepts requests for a registered path, and returns the transport for the record of the endpoint.
	open(e discovery.Endpoint, id uint64, path string) (transport map[string]string, err error)
	// shut accepts no more requests for a path.
	shut(path string)
	close()
}

func (p *Process) openIngress() (ingress, error) {
	c := &p.config
	switch c.Requests {
	case RequestsOverNATS:
		return natsIngress{p.plane.ListenNATS(p.bus)}, nil
	case RequestsOverHTTP:
		s, err := p.plane.ListenHTTP(c.Listen)
		return &address{server: s, kind: "http", start: "http://", root: plane.HTTPRoot, host: c.Host}, err
	default:
		s, err := p.plane.ListenTCP(c.Listen)
		return &address{server: s, kind: "tcp", root: "/", host: c.Host}, err
	}
}

// address is the ingress of TCP and HTTP: one address for all paths.
type address struct {
	server interface {
		Addr() *net.TCPAddr
		Close()
	}
	kind, start, host, root string
}

func (a *address) open(_ discovery.Endpoint, _ uint64, path string) (map[string]string, error) {
	return map[string]string{a.kind: a.start + net.JoinHostPort(a.host, strconv.Itoa(a.server.Addr().Port)) + a.root +
		path}, nil
}

func (a *address) shut(string) {}

func (a *address) close() { a.server.Close() }

// dynamoVersion is the version of Dynamo whose protocols these are.
const dynamoVersion = "1.3.1"

// natsIngress has a subject for each path.
type natsIngress struct{ server *plane.NATS }

func (d natsIngress) open(e discovery.Endpoint, id uint64, path string) (map[string]string, error) {
	component := e.Namespace + "_" + e.Component
	endpoint := e.Name + "-" + discovery.Hex(id)
	subject := component + "." + endpoint
	return map[string]string{"nats_tcp": subject}, d.server.Serve(path, subject, bus.Service{
		Name: component, Version: dynamoVersion, Endpoint: endpoint,
		Description: "Dynamo component " + e.Component + " in namespace " + e.Namespace,
	})
}

func (d natsIngress) shut(path string) { d.server.Withdraw(path) }

func (d natsIngress) close() { d.server.Close() }

// connect connects to the NATS server, if anything goes over NATS.
func (p *Process) connect() error {
	c := &p.config
	if c.NATS == nil {
		return nil
	}
	var err error
	if p.bus, err = bus.Connect(*c.NATS, c.Log); err != nil || !c.Durable {
		return err
	}
	if p.stream, err = publish.OpenStream(p.bus, c.Endpoint); err != nil {
		p.disconnect()
	}
	return err
}

func (p *Process) disconnect() {
	if p.bus != nil {
		p.bus.Close()
	}
}
