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
)

// Buckets are all of them.
var Buckets = []Bucket{Instances, Models, EventChannels}

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
			return Endpoint{}, fmt.Errorf("got %q, want dyn://namespace.component.endpoint of lower-case letters, digits, hyphens and underscores", text)
		}
	}
	return e, nil
}

func (e Endpoint) String() string {
	return "dyn://" + e.Namespace + "." + e.Component + "." + e.Name
}

// RandomID is a random number that identifies a worker.
func RandomID() uint64 { return rand.Uint64() }

// Hex is how keys and paths write an id.
func Hex(id uint64) string { return strconv.FormatUint(id, 16) }

func (e Endpoint) key(id uint64) string {
	return e.Namespace + "/" + e.Component + "/" + e.Name + "/" + Hex(id)
}

// EndpointRecord says where requests for an endpoint of an instance go. device is "cuda" or "cpu".
func EndpointRecord(e Endpoint, id uint64, transport map[string]string, device string) Record {
	return record(Instances, e.key(id), struct {
		Type       string            `json:"type"`
		Component  string            `json:"component"`
		Endpoint   string            `json:"endpoint"`
		Namespace  string            `json:"namespace"`
		InstanceID uint64            `json:"instance_id"`
		Transport  map[string]string `json:"transport"`
		DeviceType string            `json:"device_type"`
	}{"Endpoint", e.Component, e.Name, e.Namespace, id, transport, device})
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

// ZMQ is the transport of a publisher's own socket.
func ZMQ(address string) Transport {
	return Transport{Kind: "Zmq", Config: map[string]string{"endpoint": address}}
}

// NATS is the transport over a NATS server; the subject is the prefix, a dot and the topic.
func NATS(subjectPrefix string) Transport {
	return Transport{Kind: "Nats", Config: map[string]string{"subject_prefix": subjectPrefix}}
}

// EventChannelRecord says where the events of a topic are published. component is "" for topics of the namespace.
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

func record(bucket Bucket, key string, document any) Record {
	text, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("discovery: %v", err)) // it is all plain values
	}
	return Record{Bucket: bucket, Key: key, Document: text}
}
