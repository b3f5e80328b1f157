package engineargs

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dynosim/gocore/aic"
	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/models"
	"dynosim/gocore/speculation"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// PoolMemory is how the memory of a GPU is divided.
type PoolMemory = models.Memory

// Args describes one engine. Parse has checked every value; treat it as read-only.
type Args struct {
	EngineType EngineType
	BlockSize  int // tokens per KV block
	// NumGPUBlocks is the size of the KV pool, in blocks. It is 0 while Capacity is to be estimated: see WithPool.
	NumGPUBlocks int
	// MaxModelLen bounds a prompt and its output together, in tokens; 0 is no bound. Prompts that reach it are
	// rejected.
	MaxModelLen int
	// MaxNumSeqs and MaxNumBatchedTokens limit one pass; math.MaxInt stands for no limit.
	MaxNumSeqs, MaxNumBatchedTokens int
	PrefixCaching, ChunkedPrefill   bool
	// SpeedupRatio divides the duration of every pass; DecodeSpeedupRatio further divides its decode part.
	// If the product of the ratios that apply is zero, nothing is scaled.
	SpeedupRatio, DecodeSpeedupRatio float64
	Preemption                       PreemptionMode
	// Admission is what a request needs to be admitted; it follows from the engine type.
	Admission AdmissionPolicy
	Eviction  EvictionBackend
	// Watermark is the fraction of the pool that requests which have not run yet must leave free or evictable, in [0,
	// 1).
	Watermark float64
	// RouterQueuePolicy replaces the queue policy of the router's configuration, unless it is "".
	RouterQueuePolicy string
	// Scheduler is the rules by which the engine schedules.
	Scheduler Scheduler
	// Ranks is the number of data-parallel ranks that run their passes together, each with a scheduler and a pool. Only
	// the engines' own schedulers have more than one.
	Ranks int
	// RouterRanks tells that the router before the workers chooses the rank, too.
	RouterRanks bool
	// VLLM is used by vLLM's own scheduler only.
	VLLM VLLMArgs
	// SGLang is used by that engine only.
	SGLang SGLangArgs
	// HostCache is used by the engines' own schedulers only.
	HostCache HostCacheArgs
	Role      engine.Role
	// Transfer is how prefill workers send the KV of a prompt.
	Transfer TransferArgs
	// TimingModel is the name of the model that says how long passes take. Formula is the model itself if these
	// arguments describe it completely, nil for the built-in polynomial and for models that have to be loaded.
	TimingModel string
	Formula     timing.Model
	// Profile is the file or folder with measured durations, "" for none.
	Profile string
	// Knobs adjust durations and the size of the pool to what was measured.
	Knobs Knobs
	// Model is the name of the model whose layers decide on the KV cache, or the path of its config.json, which
	// ModelConfig is, too. "" for none.
	Model, ModelConfig string
	// Calibration is the file of the profile that sets those of them that are not Given, "" for none. See package
	// calibration.
	Calibration string
	// EngineVersion is the release of the simulated engine, "" for none in particular. Only calibrations look at it.
	EngineVersion string
	Given         Given
	// AIC is the session that predicts durations instead of these models. Without a Backend there is none.
	AIC aic.Config
	// Kernels is the session of which durations are asked in its place: of the kernels that a calibration profile was
	// fitted with. Without a Backend it is AIC itself. Everything else, the KV pool for one, follows from AIC.
	Kernels aic.Config
	// AICGrid says that it is asked for a grid of shapes; see [timing.Between].
	AICGrid bool
	// Capacity describes the memory from which the size of the KV pool is estimated; it is zero if the size is known.
	Capacity aic.Capacity
	// PoolMemory is how the memory of a GPU was divided to estimate the size of the pool; it is zero if it was not.
	PoolMemory PoolMemory
	// Drafts is the number of tokens that speculative decoding drafts in each step, 0 for none; AcceptRates lists
	// the probability that each of them is accepted, for [speculation.ParseRates], and DraftSeed decides which are
	// accepted.
	Drafts      int
	AcceptRates string
	DraftSeed   uint64
	// StartupSeconds pass before a live worker serves, or one that a planner has started; Parse leaves them 0.
	StartupSeconds float64
	// StartupCV is the coefficient of variation of the latter; only runs with a planner have it.
	StartupCV float64
	// Live are the arguments that only live workers use; ParseLive sets them.
	Live LiveArgs
	// GPUsPerWorker scales GPU hours in the report. It has no effect on time, and 0 is allowed.
	GPUsPerWorker int
}

// Engines returns the number of engines of a worker that serves real clients: one for each of its data-parallel ranks,
// unless these run their passes together.
func (a *Args) Engines() int {
	if a.Ranks > 1 {
		return 1
	}
	return a.Live.Ranks
}

// Targets returns how many targets a worker is for the router before it: one, or each of its data-parallel ranks.
func (a *Args) Targets() int {
	if a.RouterRanks {
		return max(1, a.Ranks)
	}
	return 1
}

// LiveArgs are the arguments of a worker that serves real clients.
type LiveArgs struct {
	Ranks          int  // of one worker, data parallelism
	LocalIndexer   bool // it answers routers that have missed events
	Reasoning      *Reasoning
	ResponseReplay string // file with outputs to repeat, "" for none
	// Ports of the first rank for KV events in the engine's own format, and for their repetition; 0 for none.
	EventsPort, ReplayPort int
	// Bootstrap makes a prefill worker hand requests over itself, at BootstrapPort; 0 stands for any.
	Bootstrap        bool
	BootstrapPort    int
	HandoffTimeoutMs uint64 // of a hand-off, the transfer not counted
}

// Reasoning marks the beginning of every output as thought.
type Reasoning struct {
	StartToken, EndToken uint32
	Ratio                float64 // of the output, with both tokens
}

// Tokens returns the number of tokens, of length in all, that are reasoning with its two marks:
//
//	n = floor(length * ratio); 0 if that is 0 or length is below 2, else at least 2
func (r Reasoning) Tokens(length int) int {
	n := int(math.Floor(float64(length) * r.Ratio))
	if length < 2 || n <= 0 {
		return 0
	}
	return min(max(n, 2), length)
}

// StandardBandwidthGBs is the bandwidth between workers of predictions, and of live workers, for which none is given: a
// network card of 400 Gb/s and some more, as Dynamo's mocker takes it. It is no measurement.
const StandardBandwidthGBs = 64.0

// TransferArgs describe the link between prefill and decode workers.
type TransferArgs struct {
	BytesPerToken      int
	BandwidthGBs       float64 // 1e9 bytes per second; 0 takes no time
	DestinationMissing bool    // send only what the decode worker has not cached

	// What only vLLM's own hand-offs have: how long a block takes, if not by bytes and bandwidth, and whether transfers
	// between two workers run side by side.
	MsPerBlock     float64
	UnlimitedLanes bool
	// BytesGiven and SpeedGiven tell values from defaults: who gives 0 wants hand-offs that take no time.
	BytesGiven, SpeedGiven bool
}

// NewDrafts returns which drafted tokens are accepted on a rank of a worker, nil if none are drafted.
func (a *Args) NewDrafts(worker, rank int) *speculation.Drafts {
	if a.Drafts == 0 {
		return nil
	}
	rates, _ := speculation.ParseRates(a.AcceptRates, a.Drafts) // they have been checked
	return speculation.New(rates, a.DraftSeed+uint64(worker)+uint64(rank)<<32)
}

// Handoff returns how long hand-offs take.
func (t TransferArgs) Handoff() handoff.Transfer {
	made := handoff.Transfer{
		BytesPerToken: t.BytesPerToken, BandwidthGBs: t.BandwidthGBs, MsPerBlock: t.MsPerBlock,
		Unlimited: t.UnlimitedLanes,
	}
	if t.DestinationMissing {
		made.Mode = handoff.DestinationMissing
	}
	return made
}

// SGLangArgs are the members of the nested object "sglang".
type SGLangArgs struct {
	Policy SchedulePolicy
	// MaxPrefillTokens and ChunkedPrefillSize are the budgets of one prefill batch, in tokens; the second one is a
	// multiple of the block size, and prompts above it are split.
	MaxPrefillTokens, ChunkedPrefillSize int
	ClipMaxNewTokens                     int // most output tokens that a request reserves room for
	Conservativeness                     float64
	// ReferenceQuirks keeps the accounting errors of the reference: a retracted request loses the slots that it has
	// twice, and returns slots that it shares.
	ReferenceQuirks bool
	// Overlap composes a batch while the one before it runs. IgnoreEOS tells that requests never end early, so that the
	// whole outputs of running requests are reserved. Only SGLang's own scheduler uses the two.
	Overlap, IgnoreEOS bool
	// MixedChunk lets running requests decode in batches that compute prompts. Only SGLang's own scheduler uses it.
	MixedChunk bool
	// RecvInterval is the number of decode batches after which SGLang's own scheduler looks for new requests; 1 is
	// each.
	RecvInterval int
	// Reserved is how many tokens a decode worker keeps free for each request that has room on it.
	Reserved int
	// Window is the pool of the layers with a sliding window; only SGLang's own scheduler has one.
	Window WindowArgs
}

// WindowArgs are the layers with a sliding window, whose pool has as large blocks as that of the others. The zero value
// has none.
type WindowArgs struct {
	Blocks int // of their own pool
	Tokens int // that a layer sees
}

// SchedulePolicy is the order in which SGLang considers waiting requests.
type SchedulePolicy uint8

// FCFS keeps the order of arrival, LPM prefers requests with a longer prefix in the cache.
const (
	FCFS SchedulePolicy = iota
	LPM
)

var policyNames = []string{"fifo", "fcfs", "lpm"}

// AdmissionPolicy says how much room in the KV pool a request needs to be admitted.
type AdmissionPolicy uint8

const (
	// AdmitPresent asks for the blocks of the tokens that the request has. Blocks for later tokens may be missing,
	// which preempts requests.
	AdmitPresent AdmissionPolicy = iota
	// GuaranteedNoEvict asks for the blocks of the whole output as well, besides all blocks that running requests will
	// still take. No request is ever preempted.
	GuaranteedNoEvict
)

// PreemptionMode says which running request gives its blocks back first.
type PreemptionMode uint8

// LIFO preempts the request that was admitted last, FIFO the one that was admitted first.
const (
	LIFO PreemptionMode = iota
	FIFO
)

var preemptionNames = []string{LIFO: "lifo", FIFO: "fifo"}

// String returns the name users write.
func (m PreemptionMode) String() string { return preemptionNames[m] }

// EvictionBackend says which cached block leaves the pool first.
type EvictionBackend uint8

// Lineage evicts leaves before their parents, LRU the block unused for longest, MultiLRU the least often used.
const (
	Lineage EvictionBackend = iota
	LRU
	MultiLRU
)

var evictionNames = []string{Lineage: "lineage", LRU: "lru", MultiLRU: "multi_lru"}

// String returns the name users write.
func (b EvictionBackend) String() string { return evictionNames[b] }

// Default returns what an empty object describes.
func Default() Args {
	args, _, err := Parse("{}")
	if err != nil {
		panic("engineargs: the defaults are refused: " + err.Error())
	}
	return args
}

// Parse reads one object for an engine of an offline replay. The warnings are for the user, one
// line each. Errors are those of package strictjson, joined when there are several; none of them says
// which argument held the object.
func Parse(text string) (args Args, warnings []string, err error) { return parse(text, offline) }

// ParseLive does what Parse does, for an engine of a live worker.
func ParseLive(text string) (args Args, warnings []string, err error) { return parse(text, live) }

// ParseServed parses the arguments of an engine that the server runs by itself.
func ParseServed(text string) (args Args, warnings []string, err error) { return parse(text, served) }

// ParsePlanned does what Parse does, for an engine of a run in which workers start: for a planner, or after faults.
func ParsePlanned(text string) (args Args, warnings []string, err error) { return parse(text, planned) }

// shell says where an engine will run.
type shell uint8

const (
	offline shell = iota
	live
	served  // by the process that answers requests: hand-offs need no protocol
	planned // offline, with a planner
)

// onClock reports whether requests come from outside.
func (s shell) onClock() bool { return s == live || s == served }

func parse(text string, in shell) (args Args, warnings []string, err error) {
	o, err := decode(text)
	if err != nil {
		return Args{}, nil, err
	}
	if err := check(o, in); err != nil {
		return Args{}, nil, err
	}
	args = build(o)
	if bytes := o.Int("kv_bytes_per_token"); args.HostCache.Asked() && bytes > 0 {
		if err := args.SizeHost(bytes); err != nil {
			return Args{}, nil, err
		}
	}
	if in != offline {
		args.StartupSeconds = o.Float("startup_time")
	}
	if in == planned {
		args.StartupCV = o.Float("startup_time_cv")
	}
	if args.Scheduler != Dynamo {
		args.Ranks = o.Int("dp_size")
		args.RouterRanks = o.Text("dp_routing") == routerRanks
		if !o.Given("aic_attention_dp_size") {
			args.GPUsPerWorker *= args.Ranks
			args.AIC.AttentionDP *= args.Ranks
		}
	}
	if in.onClock() {
		args.Live = liveArgs(o)
	}
	return args, slices.Concat(ineffective(o, in), otherBackend(o), roundedChunk(o, args), idleSettings(o)), nil
}

// decode reads an object in either form.
func decode(text string) (*strictjson.Object, error) {
	text, err := Flat(text)
	if err != nil {
		return nil, err
	}
	if text, err = Expand(text, nil); err != nil {
		return nil, err
	}
	return strictjson.Decode(text, schema())
}

// ineffective returns one warning for each reason why fields have no effect; it names all fields with that reason.
func ineffective(o *strictjson.Object, in shell) []string {
	var places []string
	names := map[string][]string{}
	for _, f := range table {
		if where := inVain(o, f, in); where != "" && isSet(o, f) {
			if names[where] == nil {
				places = append(places, where)
			}
			names[where] = append(names[where], f.Name)
		}
	}
	var warnings []string
	for _, where := range places {
		if fields := names[where]; len(fields) == 1 {
			warnings = append(warnings, "engine argument "+fields[0]+" has no effect "+where)
		} else {
			warnings = append(warnings, "engine arguments "+strings.Join(fields, ", ")+" have no effect "+where)
		}
	}
	return warnings
}

// ofTransfer are the fields that say how long prompts take from one worker to another.
var ofTransfer = []string{"kv_bytes_per_token", "kv_transfer_bandwidth", "kv_transfer_timing_mode"}

// inVain says where a field has no effect, if it has none in this shell and beside these other fields; else "".
func inVain(o *strictjson.Object, f field, in shell) string {
	switch {
	case f.use == startUp && in == offline:
		return "on offline replay"
	case f.use == plannedOnly && in != planned:
		return "without a planner"
	case f.use == plannedOnly && o.Float("startup_time") == 0:
		return "without startup_time"
	case f.Name == "kv_bytes_per_token" && hostTier(o):
		return ""
	case slices.Contains(ofG2, f.Name) && hostTier(o):
		return map[bool]string{true: "without num_g2_blocks"}[o.Int("num_g2_blocks") == 0]
	case f.use == liveOnly && !in.onClock() || f.use == offload:
		return "on offline replay"
	case f.engines != nil && !slices.Contains(f.engines, engineType(o)):
		return "with engine_type " + engineType(o).String()
	case f.rules != nil && !slices.Contains(f.rules, named(o).rules):
		return "with scheduler " + named(o).name
	case f.from > named(o).release:
		return "with scheduler " + named(o).name
	case in == served && slices.Contains(ofTransfer, f.Name) && workerType(o) == engine.Aggregated &&
		named(o).rules == Dynamo:
		return "" // requests may bring prompts along that another server has computed
	case f.workers != nil && !slices.Contains(f.workers, workerType(o)):
		return "on " + workerType(o).String() + " workers"
	case f.backend == "vllm" && hasModel(o): // see poolOf
		if o.Given("kv_cache_memory_bytes") {
			return "with kv_cache_memory_bytes"
		}
		return ""
	case f.aic && !o.Given("aic_backend"):
		return "without aic_backend"
	case f.without != "" && o.Given(f.without):
		return "with " + f.without
	case f.pool && !estimatesPool(o):
		return "with num_gpu_blocks"
	case f.backend != "" && o.Text("aic_backend") != f.backend:
		return "with aic_backend " + o.Text("aic_backend")
	default:
		return ""
	}
}

// otherBackend tells that durations are predicted for another engine than the one that is simulated.
func otherBackend(o *strictjson.Object) []string {
	backend := o.Text("aic_backend")
	if backend == "" || backend == engineType(o).String() {
		return nil
	}
	return []string{fmt.Sprintf("aic_backend is %s while engine_type is %s: durations are those of another engine",
		backend, engineType(o))}
}

// roundedChunk tells that the default of sglang.chunked_prefill_size is no multiple of the block size.
func roundedChunk(o *strictjson.Object, a Args) []string {
	nested := o.Object("sglang")
	given := nested != nil && nested.Given("chunked_prefill_size")
	if a.EngineType != SGLang || given || a.SGLang.ChunkedPrefillSize == defaultChunk {
		return nil
	}
	return []string{fmt.Sprintf("sglang.chunked_prefill_size is %d, as the default of %d is not a multiple of "+
		"block_size %d",
		a.SGLang.ChunkedPrefillSize, defaultChunk, a.BlockSize)}
}

// isSet reports whether the field says something other than its default.
func isSet(o *strictjson.Object, f field) bool {
	return !o.AtDefault(f.Name) && !(f.zeroIsUnset && o.Int(f.Name) == 0)
}

// build copies a checked object.
func build(o *strictjson.Object) Args {
	args := Args{
		EngineType:          engineType(o),
		BlockSize:           blockSize(o),
		NumGPUBlocks:        numGPUBlocks(o),
		MaxModelLen:         o.Int("max_model_len"),
		MaxNumSeqs:          intOrUnlimited(o, "max_num_seqs"),
		MaxNumBatchedTokens: intOrUnlimited(o, "max_num_batched_tokens"),
		PrefixCaching:       o.Bool("enable_prefix_caching"),
		ChunkedPrefill:      o.Bool("enable_chunked_prefill"),
		SpeedupRatio:        o.Float("speedup_ratio"),
		DecodeSpeedupRatio:  o.Float("decode_speedup_ratio"),
		Preemption:          PreemptionMode(slices.Index(preemptionNames, o.Text("preemption_mode"))),
		Admission:           admissionPolicies[engineType(o)],
		Eviction:            EvictionBackend(slices.Index(evictionNames, o.Text("eviction_backend"))),
		Watermark:           watermark(o),
		RouterQueuePolicy:   o.Text("router_queue_policy"),
		Scheduler:           named(o).rules,
		Ranks:               1,
		VLLM:                vllmArgs(o),
		SGLang:              sglang(o),
		HostCache:           hostCache(o),
		Role:                workerType(o),
		Transfer:            transfer(o),
		Profile:             o.Text("planner_profile_data"),
		Knobs:               knobs(o),
		Calibration:         o.Text("calibration"),
		EngineVersion:       o.Text("engine_version"),
		Model:               o.Text("model") + o.Text("model_config"),
		ModelConfig:         o.Text("model_config"),
		Given:               givenKnobs(o),
		Drafts:              o.Int("aic_nextn"),
		AcceptRates:         o.Text("aic_nextn_accept_rates"),
		DraftSeed:           o.Uint("aic_mtp_seed"),
		GPUsPerWorker:       intOrOne(o, "aic_tp_size") * intOrOne(o, "aic_attention_dp_size"),
	}
	model := timingModel(o)
	args.TimingModel = model.Name
	if model.New != nil {
		args.Formula = model.New(o)
	}
	if o.Given("aic_backend") {
		args.AIC = aic.Of(o)
		args.AICGrid = o.Text("aic_shapes") == gridShapes
		args.Profile = ""
	}
	if estimatesPool(o) {
		args.NumGPUBlocks = 0
		args.Capacity = capacity(o, args)
	}
	return args
}

// Predictor returns the AIC session that predicts durations; without a Backend there is none.
func (a Args) Predictor() aic.Config {
	if a.Kernels.Backend != "" {
		return a.Kernels
	}
	return a.AIC
}

// estimatesPool reports whether the size of the KV pool follows from the memory of the GPUs.
func estimatesPool(o *strictjson.Object) bool {
	return o.Given("aic_backend") && !o.Given("num_gpu_blocks") && !o.Given("num_gpu_blocks_override")
}

func capacity(o *strictjson.Object, args Args) aic.Capacity {
	memory, _ := args.AIC.Memory()
	c := aic.Capacity{BlockSize: args.BlockSize, MaxTokens: args.MaxNumBatchedTokens, Fraction: memory.Fraction}
	if c.MaxTokens == math.MaxInt {
		c.MaxTokens = Default().MaxNumBatchedTokens
	}
	if o.Given(memory.Field) {
		c.Fraction = o.Float(memory.Field)
	}
	if o.Text("kv_pool_estimate") == engineEstimate {
		c.ByEngine, c.MaxSeqs, c.Release = true, args.MaxNumSeqs, o.Text("engine_version")
		if c.GPUGiB = gpuMemory[args.AIC.System]; o.Given("gpu_memory_gib") {
			c.GPUGiB = o.Float("gpu_memory_gib")
		}
	}
	return c
}

// WithPool returns the engine with a pool of the given number of blocks, in place of one whose size was to be
// estimated.
func (a Args) WithPool(blocks int) (Args, error) {
	most := maxBlocks
	if a.Eviction == MultiLRU {
		most = maxSketch
	}
	if blocks < 1 || blocks > most {
		return Args{}, &strictjson.FieldError{
			Field: "num_gpu_blocks", Got: fmt.Sprintf("an estimate of %d", blocks),
			Want: fmt.Sprintf("it given, from 1 to %d", most),
		}
	}
	a.NumGPUBlocks, a.Capacity = blocks, aic.Capacity{}
	return a, nil
}

// Output returns the number of tokens that a request gets which asks for outputTokens: an output ends when the request
// is MaxModelLen long or, where room for whole outputs is guaranteed, fills the pool. A prompt that does so alone is
// left to be rejected.
func (a *Args) Output(promptTokens, outputTokens int) int {
	if a.MaxModelLen > promptTokens {
		outputTokens = min(outputTokens, a.MaxModelLen-promptTokens)
	}
	if room := a.BlockSize*a.NumGPUBlocks - promptTokens; a.Admission == GuaranteedNoEvict && room > 0 {
		return min(outputTokens, room)
	}
	return outputTokens
}

// TooLong says why a prompt leaves no room for an output, or "" if it does.
func (a *Args) TooLong(promptTokens int) string {
	if a.MaxModelLen == 0 || promptTokens < a.MaxModelLen {
		return ""
	}
	return fmt.Sprintf("prompt of %d tokens leaves no room for output within max_model_len %d", promptTokens,
		a.MaxModelLen)
}

// workerType returns the role. The type and its old aliases have been checked: they do not contradict each other.
func workerType(o *strictjson.Object) engine.Role {
	switch {
	case o.Bool("is_prefill"):
		return engine.Prefill
	case o.Bool("is_decode"):
		return engine.Decode
	default:
		return engine.Role(max(slices.Index(engine.RoleNames(), o.Text("worker_type")), 0))
	}
}

func liveArgs(o *strictjson.Object) LiveArgs {
	a := LiveArgs{
		Ranks:          o.Int("dp_size"),
		LocalIndexer:   o.Bool("enable_local_indexer"),
		ResponseReplay: o.Text("response_replay_trace_path"),
		EventsPort:     o.Int("zmq_kv_events_port"),
		ReplayPort:     o.Int("zmq_replay_port"),

		Bootstrap:        o.Given("bootstrap_port"),
		BootstrapPort:    o.Int("bootstrap_port"),
		HandoffTimeoutMs: o.Uint("handoff_session_timeout_ms"),
	}
	if r := o.Object("reasoning"); r != nil {
		a.Reasoning = &Reasoning{
			StartToken: uint32(r.Int("start_thinking_token_id")),
			EndToken:   uint32(r.Int("end_thinking_token_id")),
			Ratio:      r.Float("thinking_ratio"),
		}
	}
	return a
}

func transfer(o *strictjson.Object) TransferArgs {
	return TransferArgs{
		BytesPerToken:      o.Int("kv_bytes_per_token"),
		BandwidthGBs:       o.Float("kv_transfer_bandwidth"),
		BytesGiven:         o.Given("kv_bytes_per_token"),
		SpeedGiven:         o.Given("kv_transfer_bandwidth") || o.Given("kv_transfer_ms_per_block"),
		DestinationMissing: o.Text("kv_transfer_timing_mode") == destinationMissing,
		MsPerBlock:         o.Float("kv_transfer_ms_per_block"),
		UnlimitedLanes:     o.Text("kv_transfer_lanes") == unlimitedLanes,
	}
}

func engineType(o *strictjson.Object) EngineType {
	return EngineType(slices.Index(engineTypeNames(), o.Text("engine_type")))
}

// admissionPolicies are those of engines with a pool of blocks; SGLang admits by rules of its own.
var admissionPolicies = map[EngineType]AdmissionPolicy{VLLM: AdmitPresent, TRTLLM: GuaranteedNoEvict}

// watermark returns 0 where the policy guarantees room for outputs: there is no preemption that a margin could avoid.
func watermark(o *strictjson.Object) float64 {
	if admissionPolicies[engineType(o)] == GuaranteedNoEvict {
		return 0
	}
	return o.Float("watermark")
}

// The defaults of the members of "sglang". defaultChunk is rounded down to whole blocks. That concerns only prompts
// which could never be admitted otherwise: those of at most this size that exceed it once they are rounded up.
const (
	defaultChunk            = 8192
	defaultPrefillTokens    = 16384
	defaultClip             = 4096
	defaultReserved         = 512
	defaultConservativeness = 1.0
)

func sglang(o *strictjson.Object) SGLangArgs {
	a := SGLangArgs{
		MaxPrefillTokens:   defaultPrefillTokens,
		ChunkedPrefillSize: max(defaultChunk/blockSize(o), 1) * blockSize(o),
		ClipMaxNewTokens:   defaultClip,
		Conservativeness:   defaultConservativeness,
		ReferenceQuirks:    true,
		Overlap:            true,
		RecvInterval:       1,
		Reserved:           defaultReserved,
		Window:             windowPool(o),
	}
	nested := o.Object("sglang")
	if nested == nil {
		return a
	}
	set := func(name string, to *int) {
		if nested.Given(name) {
			*to = nested.Int(name)
		}
	}
	set("max_prefill_tokens", &a.MaxPrefillTokens)
	set("chunked_prefill_size", &a.ChunkedPrefillSize)
	set("clip_max_new_tokens", &a.ClipMaxNewTokens)
	set("scheduler_recv_interval", &a.RecvInterval)
	set("num_reserved_decode_tokens", &a.Reserved)
	if nested.Given("schedule_conservativeness") {
		a.Conservativeness = nested.Float("schedule_conservativeness")
	}
	flag := func(name string, to *bool) {
		if nested.Given(name) {
			*to = nested.Bool(name)
		}
	}
	flag("reference_quirks", &a.ReferenceQuirks)
	flag("overlap_schedule", &a.Overlap)
	flag("ignore_eos", &a.IgnoreEOS)
	flag("enable_mixed_chunk", &a.MixedChunk)
	if nested.Text("schedule_policy") == "lpm" {
		a.Policy = LPM
	}
	return a
}

func blockSize(o *strictjson.Object) int {
	if size := o.Int("block_size"); size != 0 {
		return size
	}
	t := engineType(o)
	if nested := o.Object("sglang"); t == SGLang && nested != nil && nested.Given("page_size") {
		return nested.Int("page_size")
	}
	return engineTypes[t].BlockSize
}

// numGPUBlocks returns the blocks of the KV pool. Two spellings that are given have been checked to agree.
func numGPUBlocks(o *strictjson.Object) int {
	if o.Given("num_gpu_blocks_override") {
		return o.Int("num_gpu_blocks_override")
	}
	return o.Int("num_gpu_blocks")
}

func intOrUnlimited(o *strictjson.Object, name string) int {
	if o.Null(name) {
		return math.MaxInt
	}
	return o.Int(name)
}

func intOrOne(o *strictjson.Object, name string) int {
	if !o.Given(name) {
		return 1
	}
	return o.Int(name)
}
