package events

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// RouterEvent tells routers what a worker has done to its cache. It is sent in MessagePack, and as a part of the
// answers to recovery queries; both have the same members.
type RouterEvent struct {
	WorkerID    uint64     `json:"worker_id"`
	StorageTier string     `json:"storage_tier"`
	Domain      string     `json:"residency_domain,omitempty"` // whose cache it is, for 1.6: see WorkerDomain
	Event       CacheEvent `json:"event"`
}

// WorkerDomain is the Domain of events about the cache of a worker itself.
const WorkerDomain = "worker"

// CacheEvent is one of the numbered events of a data-parallel rank.
type CacheEvent struct {
	ID     uint64 `json:"event_id"`
	Data   Data   `json:"data"`
	DPRank uint32 `json:"dp_rank"`
}

// Data is what happened: exactly one of the three.
type Data struct {
	Stored  *Stored
	Removed *Removed
	Cleared bool // everything is gone
}

// Stored are blocks that follow each other. ParentHash is the block before the first, if there is one.
type Stored struct {
	ParentHash    *uint64       `json:"parent_hash"`
	StartPosition *uint64       `json:"start_position"` // simulated engines never give it
	Blocks        []StoredBlock `json:"blocks"`
}

// StoredBlock is a block by both its hashes.
type StoredBlock struct {
	BlockHash   uint64    `json:"block_hash"`  // with everything before it
	TokensHash  uint64    `json:"tokens_hash"` // alone
	MMExtraInfo *struct{} `json:"mm_extra_info"`
}

// Removed are blocks that are gone.
type Removed struct {
	BlockHashes []uint64 `json:"block_hashes"`
}

var errData = errors.New(`want {"stored": ...}, {"removed": ...} or "cleared"`)

// MarshalJSON implements json.Marshaler.
func (d Data) MarshalJSON() ([]byte, error) {
	switch {
	case d.Stored != nil:
		return json.Marshal(map[string]*Stored{"stored": d.Stored})
	case d.Removed != nil:
		return json.Marshal(map[string]*Removed{"removed": d.Removed})
	}
	return json.Marshal("cleared")
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Data) UnmarshalJSON(text []byte) error {
	*d = Data{}
	var word string
	if json.Unmarshal(text, &word) == nil {
		d.Cleared = word == "cleared"
	} else {
		var one struct {
			Stored  *Stored  `json:"stored"`
			Removed *Removed `json:"removed"`
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		d.Stored, d.Removed = one.Stored, one.Removed
	}
	if !d.valid() {
		return errData
	}
	return nil
}

// Append appends the MessagePack of e.
func (e *RouterEvent) Append(b []byte) []byte {
	members := uint32(3)
	if e.Domain != "" {
		members++
	}
	b = msgp.AppendMapHeader(b, members)
	b = appendUint(b, "worker_id", e.WorkerID)
	b = msgp.AppendString(appendKey(b, "storage_tier"), e.StorageTier)
	if e.Domain != "" {
		b = msgp.AppendString(appendKey(b, "residency_domain"), e.Domain)
	}
	b = msgp.AppendMapHeader(appendKey(b, "event"), 3)
	b = appendUint(b, "event_id", e.Event.ID)
	b = e.Event.Data.append(appendKey(b, "data"))
	return appendUint(b, "dp_rank", uint64(e.Event.DPRank))
}

// AppendListOfOne begins the MessagePack of a list of one event, as 1.6 sends them.
func AppendListOfOne(b []byte) []byte { return msgp.AppendArrayHeader(b, 1) }

func (d *Data) append(b []byte) []byte {
	switch {
	case d.Stored != nil:
		return d.Stored.append(appendKey(msgp.AppendMapHeader(b, 1), "stored"))
	case d.Removed != nil:
		b = appendKey(msgp.AppendMapHeader(b, 1), "removed")
		return appendUints(appendKey(msgp.AppendMapHeader(b, 1), "block_hashes"), d.Removed.BlockHashes)
	}
	return msgp.AppendString(b, "cleared")
}

func (s *Stored) append(b []byte) []byte {
	b = msgp.AppendMapHeader(b, 3)
	b = appendOptional(b, "parent_hash", s.ParentHash)
	b = appendOptional(b, "start_position", s.StartPosition)
	b = msgp.AppendArrayHeader(appendKey(b, "blocks"), uint32(len(s.Blocks)))
	for i := range s.Blocks {
		b = msgp.AppendMapHeader(b, 3)
		b = appendUint(b, "block_hash", s.Blocks[i].BlockHash)
		b = appendUint(b, "tokens_hash", s.Blocks[i].TokensHash)
		b = msgp.AppendNil(appendKey(b, "mm_extra_info"))
	}
	return b
}

// ParseRouterEvents decodes the MessagePack of one event, as 1.3 sends them, or of a list, as 1.6 does.
func ParseRouterEvents(b []byte) (list []RouterEvent, err error) {
	one := func(b []byte) ([]byte, error) {
		list = append(list, RouterEvent{})
		return list[len(list)-1].read(b)
	}
	err = readWhole(b, "router event", func(b []byte) ([]byte, error) {
		if msgp.NextType(b) == msgp.ArrayType {
			return readArray(b, one)
		}
		return one(b)
	})
	return list, err
}

func (e *RouterEvent) read(b []byte) ([]byte, error) {
	b, err := readMap(b, func(key string, b []byte) ([]byte, error) {
		switch key {
		case "worker_id":
			return readUint(b, &e.WorkerID)
		case "storage_tier":
			return readString(b, &e.StorageTier)
		case "residency_domain":
			return readString(b, &e.Domain)
		case "event":
			return e.Event.read(b)
		}
		return msgp.Skip(b)
	})
	if err == nil && !e.Event.Data.valid() {
		err = fmt.Errorf("event: data: %w", errData)
	}
	return b, err
}

func (e *CacheEvent) read(b []byte) ([]byte, error) {
	return readMap(b, func(key string, b []byte) ([]byte, error) {
		switch key {
		case "event_id":
			return readUint(b, &e.ID)
		case "data":
			return e.Data.read(b)
		case "dp_rank":
			return readUint32(b, &e.DPRank)
		}
		return msgp.Skip(b)
	})
}

// valid tells whether d is one thing exactly.
func (d *Data) valid() bool {
	return !d.Cleared && (d.Stored != nil) != (d.Removed != nil) || d.Cleared && d.Stored == nil && d.Removed == nil
}

func (d *Data) read(b []byte) ([]byte, error) {
	*d = Data{}
	if msgp.NextType(b) == msgp.StrType {
		var word string
		rest, err := readString(b, &word)
		if d.Cleared = word == "cleared"; err == nil && !d.Cleared {
			err = errData
		}
		return rest, err
	}
	return readMap(b, func(key string, b []byte) ([]byte, error) {
		switch key {
		case "stored":
			d.Stored = new(Stored)
			return d.Stored.read(b)
		case "removed":
			d.Removed = new(Removed)
			return d.Removed.read(b)
		}
		return b, errData
	})
}

func (s *Stored) read(b []byte) ([]byte, error) {
	return readMap(b, func(key string, b []byte) ([]byte, error) {
		switch key {
		case "parent_hash":
			return readOptional(b, &s.ParentHash)
		case "start_position":
			return readOptional(b, &s.StartPosition)
		case "blocks":
			s.Blocks = nil
			return readArray(b, s.readBlock)
		}
		return msgp.Skip(b)
	})
}

func (s *Stored) readBlock(b []byte) ([]byte, error) {
	var block StoredBlock
	rest, err := readMap(b, func(key string, b []byte) ([]byte, error) {
		switch key {
		case "block_hash":
			return readUint(b, &block.BlockHash)
		case "tokens_hash":
			return readUint(b, &block.TokensHash)
		}
		return msgp.Skip(b)
	})
	s.Blocks = append(s.Blocks, block)
	return rest, err
}

func (r *Removed) read(b []byte) ([]byte, error) {
	return readMap(b, func(key string, b []byte) ([]byte, error) {
		if key == "block_hashes" {
			return readUints(b, &r.BlockHashes)
		}
		return msgp.Skip(b)
	})
}
