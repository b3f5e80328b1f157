package kvcache

import "slices"

// Tier is a part of a worker's cache, by where its memory is. A block can be in several tiers at once.
type Tier uint8

const (
	// Device is the memory of the accelerator. Engines compute with the blocks that are there.
	Device Tier = iota
	// Host is memory of the host that one worker has.
	Host
	// Disk is storage behind the memory of the host.
	Disk
	// External is a store that all workers of a pool share.
	External
)

// Shared reports whether workers share a tier, so that it is still there when one of them is lost.
func (t Tier) Shared() bool { return t == Disk || t == External }

var tierNames = [...]string{Device: "device", Host: "host_pinned", Disk: "disk", External: "external"}

// Tiers is how many there are.
const Tiers = len(tierNames)

// String returns the name that messages of Dynamo's protocols use.
func (t Tier) String() string { return tierNames[t] }

// ParseTier returns the tier of that name. Messages without one are about the device.
func ParseTier(name string) (t Tier, known bool) {
	if name == "" {
		return Device, true
	}
	i := slices.Index(tierNames[:], name)
	return Tier(max(0, i)), i >= 0
}
