package engineargs

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"dynosim/gocore/aic"
	"dynosim/gocore/engine"
	"dynosim/gocore/speculation"
	"dynosim/gocore/strictjson"
)

// check goes through the groups 2 to 5 of doc.go and returns the complaints of the first that has any.
func check(o *strictjson.Object, in shell) error {
	if err := checkWorkerType(o); err != nil {
		return err
	}
	if err := strictjson.Join(rangeErrors(o)); err != nil {
		return err
	}
	for _, rule := range crossRules {
		if err := rule(o); err != nil {
			return err
		}
	}
	if in == live && o.Int("dp_size") > MostLiveRanks {
		return mismatch(o, "dp_size", fmt.Sprintf("at most %d on live workers", MostLiveRanks))
	}
	if !in.onClock() || named(o).rules != Dynamo {
		if err := checkRanks(o); err != nil {
			return err
		}
	}
	if err := strictjson.Join(checkCommons(o, in)); err != nil {
		return err
	}
	return strictjson.Join(notBuilt(o, in))
}

// checkWorkerType refuses to choose between the worker type and its aliases. A null worker type says nothing.
func checkWorkerType(o *strictjson.Object) error {
	if o.Given("worker_type") {
		for _, alias := range []string{"is_prefill", "is_decode"} {
			if o.Given(alias) {
				return &strictjson.FieldError{
					Field: alias,
					Got:   o.Shown(alias) + " together with worker_type",
					Want:  "worker_type alone",
				}
			}
		}
	}
	if o.Bool("is_prefill") && o.Bool("is_decode") {
		return &strictjson.FieldError{Field: "is_decode", Got: "true together with is_prefill",
			Want: "at most one of them true"}
	}
	return nil
}

// maxPage bounds the pages of SGLang, which may have any size, so that the tokens of a pool can be counted.
const maxPage = 1 << 20

// rangeErrors adds the rule for block sizes, which depends on the engine: the block pool of vLLM and
// TensorRT-LLM needs a power of two.
func rangeErrors(o *strictjson.Object) []error {
	errs := o.RangeErrors()
	if engineTypes[engineType(o)].AnyBlockSize {
		if len(errs) == 0 && blockSize(o) > maxPage {
			errs = append(errs, &strictjson.FieldError{
				Field: "block_size", Got: fmt.Sprint(blockSize(o)), Want: fmt.Sprintf("at most %d", maxPage),
			})
		}
		return errs
	}
	size, err := strconv.Atoi(o.Shown("block_size"))
	if err != nil || size <= 0 { // absent, the default, or out of range and reported already
		return errs
	}
	if o.Given("kv_cache_groups") { // blocks of attention grow to the size of a linear state
		if size > maxGroupBlock {
			errs = append(errs, mismatch(o, "block_size", fmt.Sprintf("at most %d", maxGroupBlock)))
		}
		return errs
	}
	if smallest := smallestBlock(o); size < smallest || size > 1024 || bits.OnesCount(uint(size)) != 1 {
		errs = append(errs, mismatch(o, "block_size", fmt.Sprintf("a power of two from %d to 1024", smallest)))
	}
	return errs
}

// smallestBlock returns the smallest block of a pool of blocks: vLLM takes blocks of one token, the reference does not.
func smallestBlock(o *strictjson.Object) int {
	for _, s := range schedulers {
		if s.rules == VLLMOwn && s.name == o.Text("scheduler") {
			return 1
		}
	}
	return 2
}

// crossRules are tried in this order.
var crossRules = []func(*strictjson.Object) error{
	checkOffloadTiers,
	checkSpeculation,
	checkTRTLLM,
	checkSGLang,
	checkPoolSpellings,
	checkFrequencySketch,
	checkAIC,
	checkTimingModel,
	checkFixed,
	checkTransfer,
	checkScheduler,
	checkBesideModel,
	checkGroups, checkHostWords, checkHostCache,
	checkZeros,
}

// checkZeros refuses, with an engine's own rules, what Dynamo's mocker takes for the default: a block size of 0, and
// ratios of 0 with vLLM's. Recorded runs by SGLang's rules have such ratios.
func checkZeros(o *strictjson.Object) error {
	if named(o).rules == Dynamo {
		return nil
	}
	if o.Given("block_size") && o.Int("block_size") == 0 {
		return mismatch(o, "block_size", "an integer >= 1 with scheduler "+o.Text("scheduler")+
			", or it left out for that of the engine")
	}
	for _, ratio := range []string{"speedup_ratio", "decode_speedup_ratio"} {
		if named(o).rules == VLLMOwn && o.Given(ratio) && o.Float(ratio) == 0 {
			return mismatch(o, ratio, "a finite number > 0 with scheduler "+o.Text("scheduler"))
		}
	}
	return nil
}

// checkTransfer bounds the time of transfers, so that times stay finite.
func checkTransfer(o *strictjson.Object) error {
	bandwidth := o.Float("kv_transfer_bandwidth")
	if least := float64(o.Int("kv_bytes_per_token")) / 1e12; bandwidth > 0 && bandwidth < least {
		return mismatch(o, "kv_transfer_bandwidth",
			fmt.Sprintf("0, or at least %v, so that a token moves in a million milliseconds at most", least))
	}
	return nil
}

func checkOffloadTiers(o *strictjson.Object) error {
	switch {
	case o.Int("num_g2_blocks") > 0:
		return nil
	case o.Int("num_g3_blocks") > 0:
		return mismatch(o, "num_g3_blocks", "num_g2_blocks set as well")
	case o.Bool("enable_g4_storage"):
		return mismatch(o, "enable_g4_storage", "num_g2_blocks set as well")
	default:
		return nil
	}
}

func checkSpeculation(o *strictjson.Object) error {
	switch {
	case o.Given("aic_nextn") && o.Float("decode_speedup_ratio") != 1:
		return mismatch(o, "decode_speedup_ratio", "1 together with aic_nextn")
	case o.Given("aic_nextn_accept_rates") && !o.Given("aic_nextn"):
		return mismatch(o, "aic_nextn_accept_rates", "aic_nextn set as well")
	case o.Given("aic_nextn_accept_rates"):
		if _, err := speculation.ParseRates(o.Text("aic_nextn_accept_rates"), o.Int("aic_nextn")); err != nil {
			return fmt.Errorf("aic_nextn_accept_rates: %w", err)
		}
	}
	return nil
}

// checkTRTLLM looks at the nested object for every engine type, as the reference does.
func checkTRTLLM(o *strictjson.Object) error {
	if engineType(o) == TRTLLM && workerType(o) != engine.Aggregated {
		return &strictjson.FieldError{
			Field: "worker_type", Got: workerType(o).String(),
			Want: "aggregated with engine_type trtllm, which has no hand-offs",
		}
	}
	nested := o.Object("trtllm")
	if nested == nil || !nested.Given("capacity_scheduler_policy") ||
		nested.Text("capacity_scheduler_policy") == "guaranteed_no_evict" {
		return nil
	}
	return &strictjson.FieldError{
		Field: "trtllm.capacity_scheduler_policy",
		Got:   nested.Shown("capacity_scheduler_policy"),
		Want:  `"guaranteed_no_evict"`,
	}
}

func checkSGLang(o *strictjson.Object) error {
	nested := o.Object("sglang")
	if nested == nil || engineType(o) != SGLang {
		return nil
	}
	size := blockSize(o)
	if nested.Given("page_size") && nested.Int("page_size") != size {
		return &strictjson.FieldError{
			Field: "sglang.page_size",
			Got:   nested.Shown("page_size"),
			Want:  fmt.Sprintf("the same as block_size, %d", size),
		}
	}
	if nested.Given("chunked_prefill_size") && nested.Int("chunked_prefill_size")%size != 0 {
		return &strictjson.FieldError{
			Field: "sglang.chunked_prefill_size",
			Got:   nested.Shown("chunked_prefill_size"),
			Want:  fmt.Sprintf("a multiple of block_size, %d", size),
		}
	}
	return nil
}

// maxSketch is the largest pool with a frequency sketch.
const maxSketch = 1 << 26

// checkFrequencySketch bounds the sketch of MultiLRU, which is as large as the pool from the start.
func checkFrequencySketch(o *strictjson.Object) error {
	if blocks := numGPUBlocks(o); o.Text("eviction_backend") == evictionNames[MultiLRU] && blocks > maxSketch {
		return &strictjson.FieldError{
			Field: "num_gpu_blocks",
			Got:   fmt.Sprint(blocks),
			Want:  fmt.Sprintf("at most %d with eviction_backend multi_lru", maxSketch),
		}
	}
	return nil
}

func checkPoolSpellings(o *strictjson.Object) error {
	const name, alias = "num_gpu_blocks", "num_gpu_blocks_override"
	if o.Given(name) && o.Given(alias) && o.Int(name) != o.Int(alias) {
		return mismatch(o, alias, fmt.Sprintf("the same as %s, %d, or only one of the two", name, o.Int(name)))
	}
	return nil
}

// checkAIC makes sure that a session can be asked for.
func checkAIC(o *strictjson.Object) error {
	if !o.Given("aic_backend") {
		return nil
	}
	if !o.Given("aic_model_path") {
		return &strictjson.FieldError{
			Field: "aic_model_path", Got: "nothing",
			Want: "the name of a model or a folder with its config.json, as aic_backend is given",
		}
	}
	if err := aic.Check(o); err != nil {
		return err
	}
	if _, known := aic.Of(o).Memory(); estimatesPool(o) && !known {
		return &strictjson.FieldError{
			Field: "num_gpu_blocks", Got: "nothing",
			Want: "it given: it cannot be estimated for aic_backend " + o.Shown("aic_backend"),
		}
	}
	return nil
}

// MostLiveRanks is how many ranks a worker's card may announce; frontends do not use a worker with more.
const MostLiveRanks = 1024

// checkRanks refuses several ranks of an engine whose rules for them are not known.
func checkRanks(o *strictjson.Object) error {
	ranks := o.Int("dp_size")
	if ranks != 1 && named(o).rules == Dynamo {
		return mismatch(o, "dp_size", "1 in offline replay, or scheduler vllm or sglang with it")
	}
	if ranks != 1 && named(o).rules == SGLangOwn {
		if err := checkSGLangRanks(o, ranks); err != nil {
			return err
		}
	}
	if ranks != 1 && o.Given("aic_attention_dp_size") && o.Int("aic_attention_dp_size") != ranks {
		return mismatch(o, "aic_attention_dp_size", fmt.Sprintf("%d, as dp_size, or it left out", ranks))
	}
	return nil
}

// checkSGLangRanks refuses what no run of SGLang's schedulers as ranks is recorded with, and a chunk that is no page
// for each.
func checkSGLangRanks(o *strictjson.Object, ranks int) error {
	if chunk, least := sglang(o).ChunkedPrefillSize, ranks*blockSize(o); chunk < least {
		want := fmt.Sprintf("at least dp_size times block_size, %d: the ranks share it", least)
		return &strictjson.FieldError{Field: "sglang.chunked_prefill_size", Got: fmt.Sprint(chunk), Want: want}
	}
	switch {
	case sglang(o).RecvInterval > 1:
		return mismatch(o, "dp_size", "1 with sglang.scheduler_recv_interval")
	case windowPool(o).Blocks > 0:
		return mismatch(o, "dp_size", "1 with kv_cache_groups")
	case hostCache(o).Storage.Asked():
		return mismatch(o, "dp_size", "1 with host_cache.shared or storage")
	}
	return nil
}

// checkCommons refuses what workers share where it is made for replays only.
func checkCommons(o *strictjson.Object, in shell) []error {
	nested := o.Object("host_cache")
	if nested == nil || !in.onClock() {
		return nil
	}
	where := "live workers, of which each has a loop of its own"
	if in == served {
		where = "the server, of which no run with it was compared with a replay"
	}
	var errs []error
	if nested.Given("shared") && nested.Bool("shared") {
		errs = append(errs, &strictjson.FieldError{Field: "host_cache.shared", Got: "true", Want: "false with " + where})
	}
	if storage(nested).Asked() {
		name := storage(nested).sizedBy()
		errs = append(errs, &strictjson.FieldError{Field: "host_cache." + name, Got: nested.Shown(name),
			Want: "it left out with " + where})
	}
	return errs
}

// mismatch returns the error of a field whose value contradicts others.
func mismatch(o *strictjson.Object, name, want string) error {
	return &strictjson.FieldError{Field: name, Got: o.Shown(name), Want: want}
}

// notBuilt refuses features that this build lacks, because the user would get a simulation of something else.
func notBuilt(o *strictjson.Object, in shell) []error {
	var errs []error
	refuse := func(name, feature string) {
		errs = append(errs, &strictjson.NotBuiltError{Field: name, Value: o.Shown(name), Feature: feature})
	}
	if in == live && named(o).rules != Dynamo && workerType(o) != engine.Aggregated {
		refuse("scheduler", "hand-offs of live workers by the engine's own rules; dynamo has them")
	}
	for _, f := range table {
		if !isSet(o, f) {
			continue
		}
		own := named(o).rules != Dynamo
		switch {
		case f.use == hostBlocks && !own:
			refuse(f.Name, "KV offload tiers with scheduler dynamo")
		case f.use == offload && in.onClock() && !own:
			refuse(f.Name, "KV offload tiers of live workers")
		case f.use == offload && own && !slices.Contains(ofG2, f.Name):
			feature := "Dynamo's rules of tiers below host memory; host_cache.storage_blocks has others"
			if f.Name == "offload_batch_size" {
				feature = "copies in batches: the engines' own rules say what is copied together"
			}
			refuse(f.Name, feature)
		}
	}
	return errs
}
