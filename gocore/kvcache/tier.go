package kvcache

// Tier is a part of a worker's cache, by where its memory is. A block can be in several tiers at once.
type Tier uint8

// Device is the memory of the accelerator. Engines compute with the blocks that are there, and the built-in ones have no
// other tier.
const Device Tier = iota

var tierNames = [...]string{Device: "device"}

// String returns the name that messages of Dynamo's protocols use.
func (t Tier) String() string { return tierNames[t] }
