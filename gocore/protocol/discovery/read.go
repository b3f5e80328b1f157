package discovery

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Instance is what the record of an endpoint says: where requests for it go.
type Instance struct {
	Endpoint
	ID        uint64
	Transport map[string]string // of kind: "tcp", "nats_tcp" or "http"
}

// Served is what the record of a model says: that an endpoint of an instance serves it.
type Served struct {
	Endpoint
	ID uint64
	// Suffix is "" for the model itself and names one of its LoRA adapters otherwise.
	Suffix string
	Card   json.RawMessage
}

// Channel is what the record of an event channel says: where the events of a topic are published.
type Channel struct {
	Endpoint  // without a name in records of 1.3, whose topics belong to a component
	Topic     string
	Publisher uint64
	Transport Transport
}

// Source is what the record of an event source says: which rank of a worker publishes the events of a topic.
type Source struct {
	Endpoint
	Topic     string
	Publisher uint64
	DPRank    int
	// Recovery is the name of the endpoint of the worker where events can be asked for, "" if there is none.
	Recovery string
}

// ParseInstance reads the record of an endpoint.
func ParseInstance(r Record) (i Instance, err error) {
	var d struct {
		Transport map[string]json.RawMessage `json:"transport"`
	}
	parts, id, err := r.open(&d, 4)
	if err != nil {
		return i, err
	}
	i = Instance{Endpoint: Endpoint{parts[0], parts[1], parts[2]}, ID: id, Transport: map[string]string{}}
	for kind, value := range d.Transport {
		var address string
		if json.Unmarshal(value, &address) == nil {
			i.Transport[kind] = address
		}
	}
	return i, nil
}

// ParseServed reads the record of a model.
func ParseServed(r Record) (s Served, err error) {
	var d struct {
		Card json.RawMessage `json:"card_json"`
	}
	parts, id, err := r.open(&d, 4)
	if err != nil {
		return s, err
	}
	return Served{Endpoint: Endpoint{parts[0], parts[1], parts[2]}, ID: id, Suffix: strings.Join(parts[4:], "/"),
		Card: d.Card}, nil
}

// ParseChannel reads the record of an event channel.
func ParseChannel(r Record) (c Channel, err error) {
	var d struct {
		Transport struct {
			Kind   string                     `json:"kind"`
			Config map[string]json.RawMessage `json:"config"`
		} `json:"transport"`
	}
	e, topic, id, err := r.openTopic(&d)
	if err != nil {
		return c, err
	}
	c = Channel{e, topic, id, Transport{Kind: d.Transport.Kind, Config: map[string]string{}}}
	for name, value := range d.Transport.Config {
		var text string
		if json.Unmarshal(value, &text) == nil {
			c.Transport.Config[name] = text
		}
	}
	return c, nil
}

// ParseSource reads the record of an event source.
func ParseSource(r Record) (s Source, err error) {
	var d struct {
		Metadata struct {
			Worker struct {
				DPRank int `json:"dp_rank"`
			} `json:"worker"`
			Recovery struct {
				Endpoint string `json:"endpoint"`
			} `json:"recovery_target"`
		} `json:"metadata"`
	}
	e, topic, id, err := r.openTopic(&d)
	if err != nil {
		return s, err
	}
	return Source{e, topic, id, d.Metadata.Worker.DPRank, d.Metadata.Recovery.Endpoint}, nil
}

// openTopic reads the document of a record about a topic, and its key. Those of 1.6 name what each part is:
// namespace/N/component/C/endpoint/E/topic/T/ID; those of 1.3 are N/C/T/ID.
func (r *Record) openTopic(into any) (e Endpoint, topic string, id uint64, err error) {
	count := strings.Count(r.Key, "/") + 1
	parts, id, err := r.open(into, max(count, 4))
	switch {
	case err != nil:
	case count == 4:
		return Endpoint{Namespace: parts[0], Component: parts[1]}, parts[2], id, nil
	case count%2 == 0:
		err = fmt.Errorf("record %s/%s: want pairs of names and values before the id", r.Bucket, r.Key)
	}
	for i := 0; err == nil && i+1 < count; i += 2 {
		switch value := parts[i+1]; parts[i] {
		case "namespace":
			e.Namespace = value
		case "component":
			e.Component = value
		case "endpoint":
			e.Name = value
		case "topic":
			topic = value
		default:
			err = fmt.Errorf("record %s/%s: got %q, want namespace, component, endpoint or topic", r.Bucket, r.Key,
				parts[i])
		}
	}
	return e, topic, id, err
}

// open reads the document of a record, and the parts of its key: names, and at place idAt-1 an id. The id is taken from
// the key, because servers that keep numbers as floats may have rounded the one in the document.
func (r *Record) open(into any, idAt int) (parts []string, id uint64, err error) {
	parts = strings.Split(r.Key, "/")
	if len(parts) < idAt {
		return nil, 0, fmt.Errorf("record %s/%s: want %d parts in the key", r.Bucket, r.Key, idAt)
	}
	if id, err = strconv.ParseUint(parts[idAt-1], 16, 64); err != nil {
		return nil, 0, fmt.Errorf("record %s/%s: got id %q, want hexadecimal digits", r.Bucket, r.Key, parts[idAt-1])
	}
	if err = json.Unmarshal(r.Document, into); err != nil {
		return nil, 0, fmt.Errorf("record %s/%s: %w", r.Bucket, r.Key, err)
	}
	return parts, id, nil
}
