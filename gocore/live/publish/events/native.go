package events

import (
	"encoding/binary"

	"github.com/gammazero/deque"
	"github.com/tinylib/msgp/msgp"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
)

// replayedMessages is how many engine-native messages are kept for subscribers that missed some.
const replayedMessages = 10_000

// Native is the KV events of one rank in vLLM's own format: arrays instead of maps, and tokens instead of their hash.
// A field is identified by its position, so none may be left out: vLLM, and relays that read its format, expect a
// medium, or nil, before the fields that follow it. It is not safe for concurrent use.
type Native struct {
	blockSize int
	dpRank    uint32
	groups    []LayerGroup // if there are several
	next      uint64
	keep      bool
	kept      deque.Deque[NativeMessage]
}

// LayerGroup is what events say of a group of layers, in vLLM's words.
type LayerGroup struct {
	Kind   string
	Window int // tokens; 0 for none
}

// The kinds of groups.
const (
	FullAttention = "full_attention"
	SlidingWindow = "sliding_window"
	Linear        = "mamba"
)

// NativeMessage is one engine-native message: a batch of a single event.
type NativeMessage struct {
	Sequence uint64 // from 0
	Payload  []byte
}

// NewNative returns the events of a rank that has had none.
func NewNative(blockSize int, dpRank uint32) *Native {
	return &Native{blockSize: blockSize, dpRank: dpRank}
}

// Group makes events say which of several groups they are about.
func (n *Native) Group(groups []LayerGroup) { n.groups = groups }

// KeepForReplay makes From know the last messages.
func (n *Native) KeepForReplay() { n.keep = true }

// Message returns the message about a change, whose blocks must have tokens. unixS is the time of day in seconds.
func (n *Native) Message(c *blocks.Change, unixS float64) NativeMessage {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, unixS)
	b = msgp.AppendArrayHeader(b, 1)
	if c.Kind == kvcache.Removed {
		b = n.appendRemoved(b, c)
	} else {
		b = n.appendStored(b, c)
	}
	b = msgp.AppendUint64(b, uint64(n.dpRank))
	m := NativeMessage{Sequence: n.next, Payload: b}
	n.next++
	if n.keep {
		if n.kept.Len() == replayedMessages {
			n.kept.PopFront()
		}
		n.kept.PushBack(m)
	}
	return m
}

// appendStored appends tag, hashes, parent, tokens, block size, LoRA id, medium, LoRA name; with several groups also
// extra keys, number, kind and window of the group.
func (n *Native) appendStored(b []byte, c *blocks.Change) []byte {
	fields := uint32(8)
	if len(n.groups) > 0 {
		fields = 12
	}
	b = msgp.AppendArrayHeader(b, fields)
	b = msgp.AppendString(b, nativeStored)
	b = appendHashes(b, c.Blocks)
	if c.HasParent {
		b = msgp.AppendUint64(b, c.Parent)
	} else {
		b = msgp.AppendNil(b)
	}
	b = msgp.AppendArrayHeader(b, uint32(len(c.Blocks)*n.blockSize))
	for i := range c.Blocks {
		for _, token := range c.Blocks[i].Tokens {
			b = msgp.AppendUint64(b, uint64(token))
		}
	}
	b = msgp.AppendInt(b, n.blockSize)
	b = msgp.AppendNil(appendMedium(msgp.AppendNil(b), c.Tier))
	if len(n.groups) == 0 {
		return b
	}
	group := n.groups[c.Group]
	b = msgp.AppendInt(msgp.AppendNil(b), c.Group)
	b = msgp.AppendString(b, group.Kind)
	if group.Window == 0 {
		return msgp.AppendNil(b)
	}
	return msgp.AppendInt(b, group.Window)
}

// appendRemoved appends tag, hashes, medium; with several groups also the number of the group.
func (n *Native) appendRemoved(b []byte, c *blocks.Change) []byte {
	fields := uint32(3)
	if len(n.groups) > 0 {
		fields = 4
	}
	b = msgp.AppendArrayHeader(b, fields)
	b = msgp.AppendString(b, nativeRemoved)
	b = appendMedium(appendHashes(b, c.Blocks), c.Tier)
	if len(n.groups) > 0 {
		b = msgp.AppendInt(b, c.Group)
	}
	return b
}

// appendMedium appends where the blocks are, nil for the GPU.
func appendMedium(b []byte, t kvcache.Tier) []byte {
	if t == kvcache.Device {
		return msgp.AppendNil(b)
	}
	return msgp.AppendString(b, t.Medium())
}

func appendHashes(b []byte, list []blocks.Block) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(list)))
	for i := range list {
		b = msgp.AppendUint64(b, list[i].Hash)
	}
	return b
}

// From lists the messages kept from number start on, oldest first.
func (n *Native) From(start uint64) []NativeMessage {
	oldest := n.next - uint64(n.kept.Len())
	var list []NativeMessage
	for i := max(start, oldest); i < n.next; i++ {
		list = append(list, n.kept.At(int(i-oldest)))
	}
	return list
}

// Frames returns the ZeroMQ message of a subscription: an empty topic, the number, the payload.
func (m NativeMessage) Frames() [][]byte {
	return [][]byte{{}, binary.BigEndian.AppendUint64(nil, m.Sequence), m.Payload}
}

// EndOfReplay returns the frames behind the last message of a replay.
func EndOfReplay() [][]byte {
	return [][]byte{{}, binary.BigEndian.AppendUint64(nil, ^uint64(0)), {}}
}

// ParseReplay decodes a request for a replay: an empty frame and the number to start with.
func ParseReplay(frames [][]byte) (start uint64, ok bool) {
	if len(frames) < 2 || len(frames[1]) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(frames[1]), true
}

// The tags of engine-native events.
const (
	nativeStored  = "BlockStored"
	nativeRemoved = "BlockRemoved"
)
