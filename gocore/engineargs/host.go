package engineargs

import (
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
)

// writePolicyNames say when a host tier gets copies.
var writePolicyNames = []string{"write_through", "write_through_selective", "write_back"}

// hostEvictionNames say which chunk of a host tier goes first.
var hostEvictionNames = []string{"lru", "arc"}

// The members of "host_cache" that only one of the engines has.
var (
	hostOfSGLang = []string{"write_policy", "load_back_threshold"}
	hostOfVLLM   = []string{"eviction_policy", "blocks_per_chunk", "store_threshold", "offload_prompt_only", "shared",
		"shared_workers", "shared_ms_per_block"}
)

// defaultLoadBack is SGLang's threshold for loading tokens back.
const defaultLoadBack = 10

// hostCacheTable holds the members of "host_cache".
var hostCacheTable = slices.Concat([]field{
	row("num_blocks", between(1, maxBlocks), nil,
		"KV blocks of the host, unless an argument beside host_cache says how large it is."),
	row("write_policy", word(writePolicyNames...), nil,
		"When SGLang copies blocks to the host: ``\"write_through\"``, once they are in the cache; "+
			"``\"write_through_selective\"``, once a second "+
			"request has them; or ``\"write_back\"``, when they are evicted.").implied(writePolicyNames[0]),
	row("load_back_threshold", atLeast(0), nil,
		"The fewest tokens that SGLang loads back; fewer are computed again.").implied(defaultLoadBack),
	row("eviction_policy", word(hostEvictionNames...), nil,
		"Which chunk leaves the host of vLLM: ``\"lru\"``, the one used least recently, or ``\"arc\"``, by adaptive "+
			"replacement.").
		implied(hostEvictionNames[0]).byKeyword(),
	row("blocks_per_chunk", between(1, 1<<16), nil,
		"Blocks that vLLM stores, looks up and evicts as one.").implied(1).byKeyword(),
	row("store_threshold", between(0, 1<<30), nil,
		"vLLM stores a chunk when it is computed for this time; 0 and 1 are the first.").implied(0).byKeyword(),
	row("offload_prompt_only", strictjson.Bool{}, nil,
		"Whether vLLM stores prompts only, not generated tokens.").implied(true).byKeyword(),
	row("shared", strictjson.Bool{}, nil,
		"Whether all workers share the memory, as a store beside them: num_blocks are those of all then. "+
			"With vLLM's rules.").implied(false).byKeyword(),
	row("shared_workers", between(1, 1<<20), nil,
		"With shared, how many workers follow each other that are on one node and share its memory: num_blocks are "+
			"those of a node then. "+
			"Without it, all workers do.").byKeyword(),
	row("shared_ms_per_block", copyMs, nil,
		"Milliseconds that a shared store takes for one block, stored or loaded, one at a time for all workers.").
		implied(0).byKeyword(),
}, storageTable, []field{
	row("load_ms_per_block", copyMs, nil, "Milliseconds to load one block.").implied(0),
	row("store_ms_per_block", copyMs, nil, "Milliseconds to store one block.").implied(0),
	row("latency_ms", copyMs, nil, "Milliseconds of each copy, besides those of its blocks.").implied(0),
})

// copyMs bounds the durations of copies.
var copyMs = strictjson.Number{Max: 1e6}

// HostCacheArgs describe the memory of the host below the pool.
type HostCacheArgs struct {
	Blocks      int // 0 for none
	WritePolicy int // in the order of their names
	// LoadBackThreshold is the fewest tokens that are loaded back.
	LoadBackThreshold int
	// ARC evicts by adaptive replacement instead of least recent use.
	ARC bool
	// ChunkBlocks is the number of blocks that are stored, looked up and evicted as one.
	ChunkBlocks int
	// StoreThreshold is how often a chunk is offered before it is stored.
	StoreThreshold int
	// PromptOnly stores no generated tokens.
	PromptOnly bool
	// Shared makes all workers of the pool share the memory, or SharedWorkers that follow each other, the workers of a
	// node. It moves a block in SharedMsPerBlock.
	Shared           bool
	SharedWorkers    int
	SharedMsPerBlock float64
	// A copy takes latency and a time for each block.
	LoadMsPerBlock, StoreMsPerBlock, LatencyMs float64
	// TokenBytes is the size of a token's KV, 0 if it is not known. A tier that is unsized becomes whole by Size.
	TokenBytes int
	unsized    unsized
	// Storage is what is behind the host.
	Storage StorageArgs
}

// unsized is what is known of a tier before the size of a token is: its own, in GB, and the speed of its copies, in
// GB/s.
type unsized struct{ gb, load, store float64 }

// linkSpeeds are the presets of host_link: GB/s of one GPU in each direction, as the link transports them. PCI Express:
// transfers per second times 16 lanes, less the encoding (128 of 130 bits for generations 3 to 5; 236 of 256 bytes of a
// flit for generation 6), by PCI-SIG's base specifications. NVLink-C2C: half of the 900 GB/s that NVIDIA's Grace Hopper
// white paper has for both directions.
var linkSpeeds = []struct {
	name string
	gbs  float64
}{
	{"pcie3", 8.0 * 16 / 8 * 128 / 130}, {"pcie4", 16.0 * 16 / 8 * 128 / 130}, {"pcie5", 32.0 * 16 / 8 * 128 / 130},
	{"pcie6", 64.0 * 16 / 8 * 236 / 256}, {"nvlink-c2c", 450},
}

func linkNames() []string {
	names := make([]string, len(linkSpeeds))
	for i, l := range linkSpeeds {
		names[i] = l.name
	}
	return names
}

// The arguments that size a tier, of which there is one, and those that say how fast its copies are.
var (
	hostSizes  = []string{"num_host_blocks", "host_cache_gb", "num_g2_blocks"}
	hostSpeeds = []string{"host_offload_d2h_bandwidth_gbps", "host_offload_h2d_bandwidth_gbps", "host_link"}
	// ofG2 are Dynamo 1.3's for host memory. Without a bandwidth it has this one.
	ofG2 = []string{"num_g2_blocks", "bandwidth_g1_to_g2_gbps", "bandwidth_g2_to_g1_gbps"}
)

const g2BandwidthGBs = 14

// bandwidthPairs are two names of one bandwidth each.
var bandwidthPairs = [][2]string{
	{"host_offload_h2d_bandwidth_gbps", "bandwidth_g2_to_g1_gbps"},
	{"host_offload_d2h_bandwidth_gbps", "bandwidth_g1_to_g2_gbps"},
}

// sizes reports whether an argument of hostSizes has a value that says something.
func sizes(o *strictjson.Object, name string) bool {
	return o.Given(name) && (name == "host_cache_gb" || o.Int(name) > 0)
}

// hostTier reports whether the arguments ask for a tier that the scheduler has.
func hostTier(o *strictjson.Object) bool {
	return named(o).rules != Dynamo && (o.Object("host_cache") != nil || hostSized(o) != "")
}

// hostSized names the argument beside host_cache that sizes the tier, "" for none.
func hostSized(o *strictjson.Object) string {
	for _, name := range hostSizes {
		if sizes(o, name) {
			return name
		}
	}
	return ""
}

func hostCache(o *strictjson.Object) HostCacheArgs {
	if !hostTier(o) {
		return HostCacheArgs{}
	}
	a := HostCacheArgs{LoadBackThreshold: defaultLoadBack, ChunkBlocks: 1, StoreThreshold: 1, PromptOnly: true}
	a.Blocks = max(o.Int("num_host_blocks"), o.Int("num_g2_blocks"))
	a.unsized.gb = o.Float("host_cache_gb")
	a.unsized.load, a.unsized.store = hostBandwidths(o)
	nested := o.Object("host_cache")
	if nested == nil {
		return a
	}
	if nested.Given("num_blocks") {
		a.Blocks = nested.Int("num_blocks")
	}
	a.ARC = nested.Text("eviction_policy") == "arc"
	if nested.Given("blocks_per_chunk") {
		a.ChunkBlocks = nested.Int("blocks_per_chunk")
	}
	if nested.Given("store_threshold") {
		a.StoreThreshold = max(1, nested.Int("store_threshold"))
	}
	if nested.Given("offload_prompt_only") {
		a.PromptOnly = nested.Bool("offload_prompt_only")
	}
	a.Shared = nested.Given("shared") && nested.Bool("shared")
	if a.Storage = storage(nested); nested.Given("shared_workers") {
		a.SharedWorkers = nested.Int("shared_workers")
	}
	if nested.Given("write_policy") {
		a.WritePolicy = slices.Index(writePolicyNames, nested.Text("write_policy"))
	}
	if nested.Given("load_back_threshold") {
		a.LoadBackThreshold = nested.Int("load_back_threshold")
	}
	for name, to := range map[string]*float64{
		"load_ms_per_block": &a.LoadMsPerBlock, "store_ms_per_block": &a.StoreMsPerBlock, "latency_ms": &a.LatencyMs,
		"shared_ms_per_block": &a.SharedMsPerBlock,
	} {
		if nested.Given(name) {
			*to = nested.Float(name)
		}
	}
	return a
}

// hostBandwidths returns the GB/s of copies from and to the host, 0 where it is not said.
func hostBandwidths(o *strictjson.Object) (load, store float64) {
	if o.Int("num_g2_blocks") > 0 {
		load, store = g2BandwidthGBs, g2BandwidthGBs
	}
	for _, l := range linkSpeeds {
		if l.name == o.Text("host_link") {
			load = l.gbs * float64(intOrOne(o, "aic_tp_size"))
			if intOrOne(o, "dp_size") == 1 { // ranks have host memory of their own, and a link to it
				load *= float64(intOrOne(o, "aic_attention_dp_size"))
			}
			store = load
		}
	}
	for name, to := range map[string]*float64{
		"bandwidth_g2_to_g1_gbps": &load, "bandwidth_g1_to_g2_gbps": &store,
		"host_offload_h2d_bandwidth_gbps": &load, "host_offload_d2h_bandwidth_gbps": &store,
	} {
		if o.Given(name) {
			*to = o.Float(name)
		}
	}
	return load, store
}

// Unsized reports whether the tier becomes whole by SizeHost only.
func (a HostCacheArgs) Unsized() bool {
	return a.unsized != unsized{} || a.Storage.unsized != unsized{}
}

// Asked reports whether there is a tier, sized or not.
func (a HostCacheArgs) Asked() bool { return a.Blocks > 0 || a.Unsized() }

// SizeHost makes a tier whole whose arguments speak of bytes.
func (a *Args) SizeHost(bytesPerToken int) error {
	h, block := &a.HostCache, float64(bytesPerToken*a.BlockSize)
	h.TokenBytes = bytesPerToken
	if !h.Unsized() {
		return nil
	}
	if h.unsized.gb > 0 {
		blocks := math.Floor(h.unsized.gb * 1e9 / block)
		if blocks < 1 || blocks > maxBlocks {
			want := fmt.Sprintf("%v to %v: blocks of %d tokens take %.0f bytes", block/1e9, block/1e9*maxBlocks,
				a.BlockSize, block)
			return &strictjson.FieldError{Field: "host_cache_gb", Got: fmt.Sprint(h.unsized.gb), Want: want}
		}
		h.Blocks = int(blocks)
	}
	for _, way := range []struct {
		name string
		gbs  float64
		to   *float64
	}{
		{"host_offload_h2d_bandwidth_gbps", h.unsized.load, &h.LoadMsPerBlock},
		{"host_offload_d2h_bandwidth_gbps", h.unsized.store, &h.StoreMsPerBlock},
	} {
		if way.gbs == 0 {
			continue
		}
		if *way.to = block / (way.gbs * 1e6); *way.to > copyMs.Max {
			want := fmt.Sprintf("at least %v, so that a block moves in a million milliseconds at most", block/1e12)
			return &strictjson.FieldError{Field: way.name, Got: fmt.Sprint(way.gbs), Want: want}
		}
	}
	h.unsized = unsized{}
	if err := h.Storage.size(block); err != nil {
		return err
	}
	if h.ChunkBlocks > h.Blocks {
		want := fmt.Sprintf("at most the blocks of the host, %d", h.Blocks)
		return &strictjson.FieldError{Field: "host_cache.blocks_per_chunk", Got: fmt.Sprint(h.ChunkBlocks), Want: want}
	}
	return nil
}

// checkHostWords refuses sizes and speeds of a tier that say the same twice, or nothing.
func checkHostWords(o *strictjson.Object) error {
	nested, sized, s := o.Object("host_cache"), hostSized(o), named(o)
	if s.rules == Dynamo {
		return nil
	}
	if !hostTier(o) {
		for _, name := range hostSpeeds {
			if o.Given(name) {
				return mismatch(o, name, "num_host_blocks or host_cache_gb with it")
			}
		}
		return nil
	}
	switch {
	case nested == nil:
	case sized == "" && !nested.Given("num_blocks"):
		want := fmt.Sprintf("an integer from 1 to %d, or num_host_blocks or host_cache_gb beside host_cache", maxBlocks)
		return &strictjson.FieldError{Field: "host_cache.num_blocks", Got: "nothing", Want: want}
	case sized != "" && nested.Given("num_blocks"):
		return mismatch(o, sized, "it left out, as host_cache.num_blocks is given")
	}
	for _, name := range hostSizes {
		if name != sized && sizes(o, name) {
			return mismatch(o, name, "it left out, as "+sized+" is given")
		}
	}
	for _, pair := range bandwidthPairs {
		if o.Given(pair[0]) && o.Given(pair[1]) {
			return mismatch(o, pair[0], "it left out, as "+pair[1]+" is given")
		}
	}
	load, store := hostBandwidths(o)
	for _, way := range []struct {
		name string
		gbs  float64
	}{{"load_ms_per_block", load}, {"store_ms_per_block", store}} {
		if nested != nil && way.gbs > 0 && nested.Given(way.name) {
			return &strictjson.FieldError{Field: "host_cache." + way.name, Got: nested.Shown(way.name),
				Want: "it left out, as a bandwidth is given"}
		}
	}
	inBytes := load > 0 || store > 0 || o.Float("host_cache_gb") > 0 || hostCache(o).Storage.unsized != unsized{}
	if !inBytes || o.Int("kv_bytes_per_token") > 0 {
		return nil
	}
	want := "the bytes of a token's KV, or aic_backend that knows them, for a host tier in GB or GB/s"
	switch several := len(o.Objects("kv_cache_groups")) > 1; {
	case several:
		want = "the bytes of a token's KV in the layers of one KV group, for a host tier in GB or GB/s"
	case o.Given("aic_backend"):
		return nil
	}
	return &strictjson.FieldError{Field: "kv_bytes_per_token", Got: "nothing", Want: want}
}

// checkHostCache refuses what the rules of a host tier are not known for.
func checkHostCache(o *strictjson.Object) error {
	const name = "host_cache"
	nested, s := o.Object(name), named(o)
	if !hostTier(o) {
		return nil
	}
	others := hostOfVLLM
	if s.rules == VLLMOwn {
		others = hostOfSGLang
	}
	for _, member := range others {
		if nested != nil && nested.Given(member) {
			return &strictjson.FieldError{Field: name + "." + member, Got: nested.Shown(member),
				Want: "it left out with scheduler " + s.name}
		}
	}
	if err := checkStorage(o, nested); err != nil || s.rules != VLLMOwn {
		return err
	}
	return checkHostOfVLLM(o, nested)
}

// checkHostOfVLLM refuses what vLLM's scheduler has not beside a host tier, and what was never compared with it.
func checkHostOfVLLM(o, nested *strictjson.Object) error {
	const name = "host_cache"
	s, h := named(o), hostCache(o)
	for _, member := range []string{"shared_ms_per_block", "shared_workers"} {
		if nested != nil && nested.Given(member) && !h.Shared {
			return &strictjson.FieldError{
				Field: name + "." + member, Got: nested.Shown(member), Want: "it left out, or shared true with it",
			}
		}
	}
	if h.Shared && !h.PromptOnly {
		return &strictjson.FieldError{Field: name + ".offload_prompt_only", Got: "false", Want: "true with shared"}
	}
	if t := workerType(o); t != engine.Aggregated {
		return &strictjson.FieldError{Field: name, Got: "a tier",
			Want: fmt.Sprintf("it left out on %s workers with scheduler %s", t, s.name)}
	}
	if s.release < VLLM033 {
		return mismatch(o, "scheduler", "vllm or vllm-0.33 with host_cache")
	}
	if o.Given("async_scheduling") && o.Bool("async_scheduling") {
		return mismatch(o, "async_scheduling", "false with host_cache: vLLM's own was compared without it")
	}
	if len(o.Objects("kv_cache_groups")) > 1 {
		if err := checkHostOfGroups(o, nested); err != nil {
			return err
		}
	}
	if o.Int("dp_size") > 1 && (h.Shared || h.Storage.Asked()) {
		return mismatch(o, "dp_size", "1 with host_cache.shared or storage")
	}
	for _, other := range []string{
		"enable_prefix_caching", "enable_chunked_prefill", "watermark", "scheduler_reserve_full_isl",
		"long_prefill_token_threshold", "prefill_schedule_interval",
	} {
		if !o.AtDefault(other) {
			return mismatch(o, other, "it left out with host_cache: vLLM's rules for both are not known")
		}
	}
	if h.Blocks > 0 && h.ChunkBlocks > h.Blocks {
		want := fmt.Sprintf("at most num_blocks, %d", h.Blocks)
		return &strictjson.FieldError{Field: name + ".blocks_per_chunk", Got: nested.Shown("blocks_per_chunk"),
			Want: want}
	}
	return nil
}

// checkHostOfGroups refuses what is not known of a tier below several KV groups.
func checkHostOfGroups(o, nested *strictjson.Object) error {
	const with = " with several kv_cache_groups"
	h := hostCache(o)
	refuse := func(name, want string) error {
		return &strictjson.FieldError{Field: "host_cache." + name, Got: nested.Shown(name), Want: want + with}
	}
	const retention = "prefix_cache_retention_interval"
	chunk := max(1, h.ChunkBlocks) * blockSize(o)
	switch {
	case o.Given(retention) && o.Int(retention)%chunk != 0:
		return mismatch(o, retention, fmt.Sprintf("0 or a multiple of a chunk of host_cache, %d tokens", chunk))
	case h.Shared:
		return refuse("shared", "false")
	case h.Storage.Asked():
		return refuse(h.Storage.sizedBy(), "it left out")
	}
	return nil
}
