package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Bucket is a kind of records.
type Bucket string

// The buckets.
const (
	Instances     Bucket = "v1/instances"
	Models        Bucket = "v1/mdc"
	EventChannels Bucket = "v1/event_channels"
	EventSources  Bucket = "v1/event_sources"
)

// Buckets are all of them.
var Buckets = []Bucket{Instances, Models, EventChannels, EventSources}

// Record is one document and its key.
type Record struct {
	Bucket   Bucket
	Key      string
	Document []byte // JSON
}

// ErrExists is the error of a record that exists already.
var ErrExists = errors.New("a record with this key exists already")

// Store holds the records of one worker. Implementations are safe for concurrent use.
type Store interface {
	// InstanceID is the id under which the worker has to register.
	InstanceID() uint64
	// Put adds a record that must not exist yet.
	Put(Record) error
	// Delete removes a record. It is no error if there is none.
	Delete(Bucket, string) error
	// List returns the records of all workers in a bucket, in the order of their keys.
	List(Bucket) ([]Record, error)
	// Close removes all records that were Put here, and ends what keeps them alive.
	Close() error
}

// Endpoint is the name of an endpoint, which answers requests: dyn://NAMESPACE.COMPONENT.NAME.
type Endpoint struct {
	Namespace, Component, Name string
}

// ParseEndpoint reads the name of an endpoint. Missing parts are taken from standard.
func ParseEndpoint(text string, standard Endpoint) (Endpoint, error) {
	rest := strings.Trim(strings.TrimPrefix(text, "dyn://"), " /.")
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '.' || r == '/' })
	e := standard
	for i, into := range []*string{&e.Namespace, &e.Component} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	if len(parts) > 2 {
		e.Name = strings.Join(parts[2:], "_")
	}
	for _, part := range []string{e.Namespace, e.Component, e.Name} {
		if strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return Endpoint{}, fmt.Errorf("got %q, want dyn://namespace.component.endpoint of lower-case letters, "+
				"digits, hyphens and underscores", text)
		}
	}
	return e, nil
}

func (e Endpoint) String() string {
	return "dyn://" + e.Namespace + "." + e.Component + "." + e.Name
}

// RandomID returns a random number that identifies a worker.
func RandomID() uint64 { return rand.Uint64() }

// Hex returns how keys and paths write an id.
func Hex(id uint64) string { return strconv.FormatUint(id, 16) }

func (e Endpoint) key(id uint64) string {
	return e.Namespace + "/" + e.Component + "/" + e.Name + "/" + Hex(id)
}

// Path returns what follows the address in the transport of an endpoint. Frontends send it with each request.
func (e Endpoint) Path(id uint64) string {
	return Hex(id) + "/" + e.Namespace + "/" + e.Component + "/" + e.Name
}

// codec is the codec that 1.6 asks a frontend to send requests in. Workers read what each request says that it is.
const codec = "msgpack"

// endpointFields are the members of the record of an endpoint that others repeat.
type endpointFields struct {
	Component         string            `json:"component"`
	Endpoint          string            `json:"endpoint"`
	Namespace         string            `json:"namespace"`
	InstanceID        uint64            `json:"instance_id"`
	Transport         map[string]string `json:"transport"`
	DeviceType        string            `json:"device_type"`
	RequestPlaneCodec string            `json:"request_plane_codec"`
}

// EndpointRecord says where requests for an endpoint of an instance go. device is "cuda" or "cpu".
func EndpointRecord(e Endpoint, id uint64, transport map[string]string, device string) Record {
	return record(Instances, e.key(id), struct {
		Type string `json:"type"`
		endpointFields
	}{"Endpoint", endpointFields{e.Component, e.Name, e.Namespace, id, transport, device, codec}})
}

// ModelRecord says what model an endpoint of an instance serves.
func ModelRecord(e Endpoint, id uint64, card json.RawMessage) Record {
	return record(Models, e.key(id), struct {
		Type       string          `json:"type"`
		Namespace  string          `json:"namespace"`
		Component  string          `json:"component"`
		Endpoint   string          `json:"endpoint"`
		InstanceID uint64          `json:"instance_id"`
		CardJSON   json.RawMessage `json:"card_json"`
	}{"Model", e.Namespace, e.Component, e.Name, id, card})
}

// Transport is how the events of a channel are sent.
type Transport struct {
	Kind   string            `json:"kind"`
	Config map[string]string `json:"config"`
}

// ZMQ returns the transport of a publisher's own socket.
func ZMQ(address string) Transport {
	return Transport{Kind: "Zmq", Config: map[string]string{"endpoint": address}}
}

// NATS returns the transport over a NATS server; the subject is the prefix, a dot and the topic.
func NATS(subjectPrefix string) Transport {
	return Transport{Kind: "Nats", Config: map[string]string{"subject_prefix": subjectPrefix}}
}

// EventChannelRecord says to frontends of 1.3 where the events of a topic are published. component is "" for topics of
// the namespace.
func EventChannelRecord(namespace, component, topic string, publisher uint64, t Transport) Record {
	return record(EventChannels, namespace+"/"+component+"/"+topic+"/"+Hex(publisher), struct {
		Type       string    `json:"type"`
		Namespace  string    `json:"namespace"`
		Component  string    `json:"component"`
		Topic      string    `json:"topic"`
		InstanceID uint64    `json:"instance_id"`
		Transport  Transport `json:"transport"`
	}{"EventChannel", namespace, component, topic, publisher, t})
}

// scope is what 1.6 says that a topic belongs to.
type scope struct {
	Kind     string        `json:"kind"`
	Endpoint scopeEndpoint `json:"endpoint"`
}

type scopeEndpoint struct {
	Namespace string `json:"namespace"`
	Component string `json:"component"`
	Name      string `json:"name"`
}

func (e Endpoint) scope() scope { return scope{"endpoint", scopeEndpoint(e)} }

// scopedKey returns the key of what a publisher says about a topic of an endpoint.
func (e Endpoint) scopedKey(topic string, publisher uint64) string {
	return "namespace/" + e.Namespace + "/component/" + e.Component + "/endpoint/" + e.Name + "/topic/" + topic + "/" +
		Hex(publisher)
}

// ScopedChannelRecord does what [EventChannelRecord] does, for frontends of 1.6. On Kubernetes, frontends of 1.3 drop
// all records of a pod if one event channel has no namespace and component, so it has them; the component is one that
// is not looked for.
func ScopedChannelRecord(e Endpoint, topic string, publisher uint64, t Transport) Record {
	return record(EventChannels, e.scopedKey(topic, publisher), struct {
		Type       string    `json:"type"`
		Scope      scope     `json:"scope"`
		Namespace  string    `json:"namespace"`
		Component  string    `json:"component"`
		Topic      string    `json:"topic"`
		InstanceID uint64    `json:"instance_id"`
		Transport  Transport `json:"transport"`
	}{"EventChannel", e.scope(), e.Namespace, e.Component + "." + e.Name, topic, publisher, t})
}

// EventSourceRecord says to frontends of 1.6 which rank of a worker publishes the events of a topic, and at which
// endpoint those that were missed can be asked for. instance is the record of that endpoint, nil if there is none.
func EventSourceRecord(e Endpoint, topic string, publisher, worker uint64, dpRank int, instance *Record) Record {
	type rank struct {
		WorkerID uint64 `json:"worker_id"`
		DPRank   int    `json:"dp_rank"`
	}
	type metadata struct {
		KVStateEndpoint scopeEndpoint   `json:"kv_state_endpoint"`
		Worker          rank            `json:"worker"`
		PublisherID     uint64          `json:"publisher_id"`
		RecoveryTarget  *endpointFields `json:"recovery_target,omitempty"`
	}
	m := metadata{KVStateEndpoint: scopeEndpoint(e), Worker: rank{worker, dpRank}, PublisherID: publisher}
	if instance != nil {
		m.RecoveryTarget = new(endpointFields)
		if err := json.Unmarshal(instance.Document, m.RecoveryTarget); err != nil {
			panic(fmt.Sprintf("discovery: %v", err)) // EndpointRecord has made it
		}
	}
	return record(EventSources, e.scopedKey(topic, publisher), struct {
		Type        string   `json:"type"`
		Scope       scope    `json:"scope"`
		Topic       string   `json:"topic"`
		PublisherID uint64   `json:"publisher_id"`
		Metadata    metadata `json:"metadata"`
	}{"EventSource", e.scope(), topic, publisher, m})
}

func record(bucket Bucket, key string, document any) Record {
	text, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("discovery: %v", err)) // it is all plain values
	}
	return Record{Bucket: bucket, Key: key, Document: text}
}
