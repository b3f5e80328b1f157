package kvcache

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

// tiers has a row for each tier: the names that messages of Dynamo's protocols and KV events of vLLM use, and whether
// workers share it.
var tiers = [...]struct {
	name, medium string
	shared       bool
}{
	Device:   {"device", "", false},
	Host:     {"host_pinned", "CPU_PINNED", false},
	Disk:     {"disk", "DISK", true},
	External: {"external", "EXTERNAL", true},
}

// Tiers is how many there are.
const Tiers = len(tiers)

// String returns the name that messages of Dynamo's protocols use.
func (t Tier) String() string { return tiers[t].name }

// Medium returns the name that KV events of vLLM use, "" for the device, which they do not name.
func (t Tier) Medium() string { return tiers[t].medium }

// Shared reports whether workers share a tier, so that it is still there when one of them is lost.
func (t Tier) Shared() bool { return tiers[t].shared }

// ParseTier returns the tier of that name. Messages without one are about the device.
func ParseTier(name string) (t Tier, known bool) {
	if name == "" {
		return Device, true
	}
	for t := range tiers {
		if tiers[t].name == name {
			return Tier(t), true
		}
	}
	return Device, false
}
