package kvcache

// Tier is a part of a worker's cache, by where its memory is. A block can be in several tiers at once.
type Tier uint8

const (
	// Device is the memory of the accelerator. Engines compute with the blocks that are there.
	Device Tier = iota
	// Host is memory of the host that one worker has.
	Host
	// External is a store that all workers of a pool share.
	External
)

var tierNames = [...]string{Device: "device", Host: "host_pinned", External: "external"}

// String returns the name that messages of Dynamo's protocols use.
func (t Tier) String() string { return tierNames[t] }
