package engineargs

import (
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
)

// prefetchNames say what a prompt does that is at the head of the queue while it is read from storage.
var prefetchNames = []string{"best_effort", "wait_complete", "timeout"}

// Policies of reading prompts from storage, in the order of their names.
const (
	PrefetchBestEffort = iota
	PrefetchComplete
	PrefetchTimeout
)

// defaultPrefetch is the fewest tokens that SGLang reads from storage.
const defaultPrefetch = 256

// storageTable holds the members of "host_cache" that say something about storage.
var storageTable = []field{
	row("storage_blocks", between(1, maxBlocks), nil,
		"KV blocks of a disk or an object store behind the host, which all workers read and write.").byKeyword(),
	row("storage_gb", strictjson.Number{MinOpen: true, Max: 1e9}, nil, "GB (10^9 bytes) of the storage instead.").
		byKeyword(),
	row("storage_read_ms_per_block", copyMs, nil, "Milliseconds in which a worker reads one block from the storage.").
		implied(0).byKeyword(),
	row("storage_write_ms_per_block", copyMs, nil, "Milliseconds in which it writes one.").implied(0).byKeyword(),
	row("storage_read_gbps", strictjson.Number{MinOpen: true, Max: 1e9}, nil,
		"GB/s in which a worker reads, instead of milliseconds.").byKeyword(),
	row("storage_write_gbps", strictjson.Number{MinOpen: true, Max: 1e9}, nil, "GB/s in which it writes.").byKeyword(),
	row("storage_latency_ms", copyMs, nil, "Milliseconds of each read and write, besides those of its blocks.").
		implied(0).byKeyword(),
	row("storage_shared_ms_per_block", copyMs, nil,
		"Milliseconds that the storage takes for one block, of all reads and writes that run at the same time.").
		implied(0).byKeyword(),
	row("storage_prefetch_policy", word(prefetchNames...), nil,
		"What a prompt does that is at the head of the queue while it is read from the storage, as SGLang names it: "+
			"``\"best_effort\"`` goes on "+
			"with what has come, ``\"wait_complete\"`` waits, ``\"timeout\"`` waits, but not for ever.").
		implied(prefetchNames[PrefetchTimeout]).byKeyword(),
	row("storage_prefetch_threshold", atLeast(0), nil, "The fewest tokens that are read from the storage.").
		implied(defaultPrefetch).byKeyword(),
	row("storage_prefetch_timeout_base", strictjson.Number{Max: 1e6}, nil,
		"With timeout, the seconds that a prompt waits, and").implied(2).byKeyword(),
	row("storage_prefetch_timeout_per_ki_token", strictjson.Number{Max: 1e6}, nil,
		"those for each 1,024 tokens besides, but").implied(0.1).byKeyword(),
	row("storage_prefetch_timeout_max", strictjson.Number{Max: 1e6}, nil,
		"no more than these; SGLang's defaults.").implied(30).byKeyword(),
}

// StorageArgs describe a disk or an object store behind the memory of the hosts.
type StorageArgs struct {
	Blocks int // 0 for none
	// Transfers of a worker take a latency and a time for each block, and all of them together SharedMsPerBlock for
	// each.
	ReadMsPerBlock, WriteMsPerBlock, LatencyMs, SharedMsPerBlock float64
	Threshold                                                    int // tokens
	Policy                                                       int
	// With PrefetchTimeout a prompt waits for these seconds, more for each 1,024 tokens, and no longer than the most.
	TimeoutBase, TimeoutPerKiToken, TimeoutMax float64
	unsized                                    unsized
}

// WaitMs returns how long a prompt waits, once it is looked up, for tokens that are read from the storage; +Inf for
// ever.
func (a StorageArgs) WaitMs(tokens int) float64 {
	switch a.Policy {
	case PrefetchBestEffort:
		return 0
	case PrefetchComplete:
		return math.Inf(1)
	}
	return 1000 * min(a.TimeoutMax, a.TimeoutBase+float64(a.TimeoutPerKiToken*float64(tokens)/1024))
}

// timeoutMembers are those that say how long a prompt waits.
var timeoutMembers = []string{
	"storage_prefetch_timeout_base", "storage_prefetch_timeout_per_ki_token", "storage_prefetch_timeout_max",
}

// storage returns what host_cache says of storage.
func storage(nested *strictjson.Object) StorageArgs {
	if !nested.Given("storage_blocks") && !nested.Given("storage_gb") {
		return StorageArgs{}
	}
	a := StorageArgs{
		Policy: PrefetchTimeout, Threshold: defaultPrefetch, TimeoutBase: 2, TimeoutPerKiToken: 0.1, TimeoutMax: 30,
	}
	if nested.Given("storage_blocks") {
		a.Blocks = nested.Int("storage_blocks")
	}
	if nested.Given("storage_prefetch_policy") {
		a.Policy = slices.Index(prefetchNames, nested.Text("storage_prefetch_policy"))
	}
	if nested.Given("storage_prefetch_threshold") {
		a.Threshold = nested.Int("storage_prefetch_threshold")
	}
	for name, to := range map[string]*float64{
		"storage_read_ms_per_block": &a.ReadMsPerBlock, "storage_write_ms_per_block": &a.WriteMsPerBlock,
		"storage_latency_ms": &a.LatencyMs, "storage_shared_ms_per_block": &a.SharedMsPerBlock,
		timeoutMembers[0]: &a.TimeoutBase, timeoutMembers[1]: &a.TimeoutPerKiToken, timeoutMembers[2]: &a.TimeoutMax,
		"storage_gb": &a.unsized.gb, "storage_read_gbps": &a.unsized.load, "storage_write_gbps": &a.unsized.store,
	} {
		if nested.Given(name) {
			*to = nested.Float(name)
		}
	}
	return a
}

// size makes storage whole whose arguments speak of bytes; a block has this many.
func (a *StorageArgs) size(block float64) error {
	u := a.unsized
	if u.gb > 0 {
		blocks := math.Floor(u.gb * 1e9 / block)
		if blocks < 1 || blocks > maxBlocks {
			want := fmt.Sprintf("%v to %v: a block takes %.0f bytes", block/1e9, block/1e9*maxBlocks, block)
			return &strictjson.FieldError{Field: "host_cache.storage_gb", Got: fmt.Sprint(u.gb), Want: want}
		}
		a.Blocks = int(blocks)
	}
	if u.load > 0 {
		a.ReadMsPerBlock = block / (u.load * 1e6)
	}
	if u.store > 0 {
		a.WriteMsPerBlock = block / (u.store * 1e6)
	}
	a.unsized = unsized{}
	return nil
}

// checkStorage refuses what says nothing, or the same twice, and where there is no storage.
func checkStorage(o, nested *strictjson.Object) error {
	if nested == nil {
		return nil
	}
	refuse := func(member, want string) error {
		return &strictjson.FieldError{Field: "host_cache." + member, Got: nested.Shown(member), Want: want}
	}
	for _, f := range storageTable {
		if nested.Given(f.Name) && !nested.Given("storage_blocks") && !nested.Given("storage_gb") {
			return refuse(f.Name, "storage_blocks or storage_gb with it")
		}
	}
	for _, pair := range [][2]string{
		{"storage_gb", "storage_blocks"},
		{"storage_read_gbps", "storage_read_ms_per_block"}, {"storage_write_gbps", "storage_write_ms_per_block"},
	} {
		if nested.Given(pair[0]) && nested.Given(pair[1]) {
			return refuse(pair[0], "it left out, as "+pair[1]+" is given")
		}
	}
	if a := storage(nested); a.Policy != PrefetchTimeout {
		for _, name := range timeoutMembers {
			if nested.Given(name) {
				return refuse(name, "it left out, or storage_prefetch_policy timeout")
			}
		}
	}
	if a := storage(nested); a.Asked() && workerType(o) != engine.Aggregated {
		return refuse(a.sizedBy(), fmt.Sprintf("it left out on %s workers", workerType(o)))
	}
	return nil
}

// Asked reports whether there is storage, sized or not.
func (a StorageArgs) Asked() bool { return a.Blocks > 0 || a.unsized.gb > 0 }

// sizedBy names the member that sizes the storage.
func (a StorageArgs) sizedBy() string {
	if a.unsized.gb > 0 {
		return "storage_gb"
	}
	return "storage_blocks"
}
