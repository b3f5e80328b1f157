package engineargs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"dynosim/gocore/engine"
	"dynosim/gocore/models"
	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
)

// reservedGiB is what vLLM needs of a GPU besides weights and KV cache: activations of the largest pass, CUDA graphs,
// libraries. It measures that when it starts; published logs have 0.9 to 3.
const reservedGiB = 2

// gpuMemory is the memory that GPUs have for programs, in GiB, by the names of the AIC SDK.
var gpuMemory = map[string]float64{
	"": 79.2, "h100_sxm": 79.2, "a100_sxm": 79.2, "h200_sxm": 139.8, "b200_sxm": 178.4, "gb200": 184.0,
	"gb200_sxm": 184.0, "l40s": 44.4, "a100_pcie": 79.2, "h100_pcie": 79.2, "b300_sxm": 267.7, "gb300": 276.6,
	"rtx_pro_6000_server": 95.0, "l4": 22.0, "a30": 23.5,
}

// mostRanks bounds the tensor parallelism that is chosen for a model.
const mostRanks = 64

// modelFields are what a model decides, so that nothing else may.
const (
	modelField  = "model"
	configField = "model_config"
	groupsField = "kv_cache_groups"
)

// Expand replaces what engine arguments say of a model by what follows from it: KV cache groups, block size, blocks,
// tensor parallelism, the longest request. read returns the config.json at a path; without read, model_config is
// refused. Arguments without a model, those that name all of this already, and those that are wrong in another way stay
// as they are.
func Expand(text string, read func(path string) ([]byte, error)) (string, error) {
	flat, err := Flat(text)
	if err != nil || !strings.Contains(flat, `"`+modelField) {
		return text, nil
	}
	o, err := strictjson.Decode(flat, schema())
	if err != nil || len(o.RangeErrors()) > 0 || !hasModel(o) || expanded(o) {
		return text, nil
	}
	if err := checkModel(o); err != nil {
		return "", err
	}
	facts, err := factsOf(o, read)
	if err != nil {
		return "", err
	}
	set, err := settings(o, facts)
	if err != nil {
		return "", err
	}
	over, err := json.Marshal(set)
	if err != nil {
		return "", err
	}
	return Overlay(flat, string(over))
}

// expanded reports whether arguments have all that Expand adds.
func expanded(o *strictjson.Object) bool {
	return o.Given(groupsField) && o.Given("block_size") && o.Given("num_gpu_blocks") && o.Given("max_model_len")
}

func checkModel(o *strictjson.Object) error {
	field := modelField
	if o.Given(configField) {
		field = configField
	}
	switch {
	case o.Given(modelField) && o.Given(configField):
		return mismatch(o, configField, "it left out, or model: one of them says what the layers are")
	case o.Given(groupsField):
		return &strictjson.FieldError{Field: groupsField, Got: "groups beside " + field,
			Want: "it left out: they follow from the model"}
	case engineType(o) == SGLang && o.Given("scheduler") && named(o).rules != SGLangOwn:
		return mismatch(o, "scheduler", "sglang, sglang-0.5, or it left out with "+field)
	case engineType(o) == SGLang:
		return nil
	case engineType(o) != VLLM:
		return mismatch(o, field, fmt.Sprintf(
			"it left out with engine_type %s: KV caches are laid out as vLLM and SGLang do", engineType(o)))
	case o.Given("scheduler") && named(o).rules != VLLMOwn:
		return mismatch(o, "scheduler", "vllm, vllm-0.33, vllm-0.28, or it left out with "+field)
	}
	return nil
}

// besideModel are arguments that say more of a model.
var besideModel = []string{"model_weights_gib", "gpu_memory_gib", "kv_cache_memory_bytes", "kv_cache_dtype"}

// checkBesideModel refuses arguments that say more of a model that is not given.
func checkBesideModel(o *strictjson.Object) error {
	if hasModel(o) {
		return nil
	}
	for _, name := range besideModel {
		if name == "gpu_memory_gib" && o.Text("kv_pool_estimate") == engineEstimate {
			continue
		}
		if o.Given(name) && !o.AtDefault(name) {
			return mismatch(o, name, "it left out without model or model_config, or one of them")
		}
	}
	return nil
}

func hasModel(o *strictjson.Object) bool { return o.Given(modelField) || o.Given(configField) }

func factsOf(o *strictjson.Object, read func(path string) ([]byte, error)) (models.Facts, error) {
	if o.Given(modelField) {
		facts, err := models.Find(o.Text(modelField))
		if err != nil {
			return facts, mismatch(o, modelField, err.Error())
		}
		return facts, nil
	}
	path := o.Text(configField)
	if read == nil {
		return models.Facts{}, mismatch(o, configField,
			"it left out here: only replays read it; model with a name that is known, or kv_cache_groups, block_size "+
				"and num_gpu_blocks")
	}
	content, err := read(path)
	var facts models.Facts
	if err == nil {
		facts, err = models.ReadConfig(path, content)
	}
	var cause *fs.PathError // repeats the path
	if errors.As(err, &cause) {
		err = cause.Err
	}
	if err != nil {
		return facts, fmt.Errorf("%s: %s: %w", configField, spelling.Path(path), err)
	}
	return facts, nil
}

// settings returns what follows from a model.
func settings(o *strictjson.Object, facts models.Facts) (map[string]any, error) {
	limits := models.Limits{Length: facts.MaxLen,
		Budget: min(intOrUnlimited(o, "max_num_batched_tokens"), math.MaxInt32), Flights: 1}
	if o.Given("max_model_len") {
		limits.Length = o.Int("max_model_len")
	}
	if engineType(o) == SGLang {
		return settingsOfSGLang(o, facts, limits)
	}
	alone := workerType(o) == engine.Aggregated && o.Object("host_cache") == nil
	if o.Bool("async_scheduling") && (alone || o.Given("async_scheduling")) {
		limits.Flights = 2
	}
	ranks, most := intOrOne(o, "aic_tp_size"), intOrOne(o, "aic_tp_size")
	if !o.Given("aic_tp_size") && !givesPool(o) {
		most = mostRanks
	}
	for ; ; ranks *= 2 {
		layout, err := facts.Layout(models.Shape{Ranks: ranks, BlockSize: o.Int("block_size"),
			FP8: o.Text("kv_cache_dtype") == "fp8"})
		if err != nil {
			return nil, &strictjson.FieldError{Field: modelOrConfig(o), Got: o.Shown(modelOrConfig(o)),
				Want: "another model: " + err.Error()}
		}
		blocks, err := poolOf(o, facts, layout, ranks)
		if err != nil {
			return nil, err
		}
		if layout.Concurrency(blocks, limits) >= 1 || o.Given("num_gpu_blocks") {
			return settingsOf(o, facts, layout, blocks, ranks, limits), nil
		}
		if 2*ranks > most {
			return nil, tooLarge(layout, blocks, ranks, limits)
		}
	}
}

func modelOrConfig(o *strictjson.Object) string {
	if o.Given(configField) {
		return configField
	}
	return modelField
}

// givesPool reports whether the size of the KV cache on a GPU is given, so that more GPUs do not follow from the model.
func givesPool(o *strictjson.Object) bool {
	return o.Given("num_gpu_blocks") || o.Given("num_gpu_blocks_override") || o.Given("kv_cache_memory_bytes")
}

// poolOf returns the number of blocks, as vLLM counts them: one of them stays unused.
func poolOf(o *strictjson.Object, facts models.Facts, layout models.Layout, ranks int) (int, error) {
	switch {
	case o.Given("num_gpu_blocks") || o.Given("num_gpu_blocks_override"):
		return numGPUBlocks(o) + 1, nil
	case o.Given("kv_cache_memory_bytes"):
		return layout.Blocks(o.Int("kv_cache_memory_bytes")), nil
	}
	share := 0.9
	if o.Given("gpu_memory_utilization") {
		share = o.Float("gpu_memory_utilization")
	}
	left, err := memoryLeft(o, facts, share, ranks)
	return layout.Blocks(left - reservedGiB<<30), err
}

// memoryLeft returns the bytes of a share of a GPU that the weights leave.
func memoryLeft(o *strictjson.Object, facts models.Facts, share float64, ranks int) (int, error) {
	weights := facts.WeightsGiB
	if o.Given("model_weights_gib") {
		weights = o.Float("model_weights_gib")
	}
	if weights == 0 {
		return 0, &strictjson.FieldError{Field: "model_weights_gib", Got: "nothing",
			Want: "the size of the weights with model_config, or kv_cache_memory_bytes"}
	}
	memory, known := gpuMemory[o.Text("aic_system")]
	if o.Given("gpu_memory_gib") {
		memory, known = o.Float("gpu_memory_gib"), true
	}
	if !known {
		return 0, &strictjson.FieldError{Field: "gpu_memory_gib", Got: "nothing",
			Want: "the memory of a GPU with aic_system " + o.Shown("aic_system")}
	}
	return int((memory*share - weights/float64(ranks)) * (1 << 30)), nil
}

// tooLarge returns the error of a pool that does not hold the longest request.
func tooLarge(layout models.Layout, blocks, ranks int, limits models.Limits) error {
	want := "fewer: vLLM does not start if a request of this length does not fit; or more GPUs (aic_tp_size) or memory"
	got := fmt.Sprintf("%d, for which %d blocks of %d bytes are needed and %d fit with aic_tp_size %d", limits.Length,
		layout.RequestBlocks(limits),
		layout.BlockBytes, blocks, ranks)
	return &strictjson.FieldError{Field: "max_model_len", Got: got, Want: want}
}

func settingsOf(o *strictjson.Object, facts models.Facts, layout models.Layout, blocks, ranks int,
	limits models.Limits) map[string]any {
	groups := []map[string]any{{"type": fullGroup}}
	for range layout.WindowGroups {
		groups = append(groups, map[string]any{"type": windowGroup, "window": layout.WindowTokens})
	}
	for range layout.LinearGroups {
		groups = append(groups, map[string]any{"type": linearGroup})
	}
	set := map[string]any{
		groupsField: groups, "block_size": layout.BlockSize, "num_gpu_blocks": blocks - 1,
		"max_model_len": limits.Length, "aic_tp_size": ranks,
	}
	return withNames(o, facts, set, schedulers[1].name)
}

// withNames adds the scheduler, and the model for AIC, unless they are given.
func withNames(o *strictjson.Object, facts models.Facts, set map[string]any, scheduler string) map[string]any {
	if !o.Given("scheduler") {
		set["scheduler"] = scheduler
	}
	if o.Given("aic_backend") && !o.Given("aic_model_path") && o.Given(modelField) {
		set["aic_model_path"] = facts.Name
	}
	return set
}

// CacheLog is what vLLM logs of its KV cache when it starts, and what SGLang logs, which is less.
type CacheLog struct {
	Model       string // as it was given
	Tokens      int    // "GPU KV cache size"
	Length      int    // tokens of a request
	Concurrency float64
}

// CacheLog returns what the engine would log, and reports whether a model was given, from which all of it follows.
func (a *Args) CacheLog() (log CacheLog, ok bool) {
	if a.Model == "" {
		return log, false
	}
	if a.EngineType == SGLang {
		tokens := a.NumGPUBlocks * a.BlockSize
		return CacheLog{a.Model, tokens, a.MaxModelLen, float64(tokens) / float64(a.MaxModelLen)}, true
	}
	g := a.VLLM.Groups
	layout := models.Layout{BlockSize: a.BlockSize, FullGroups: 1, WindowTokens: g.Window}
	if g.Linear {
		layout.LinearGroups = g.Beside
	} else {
		layout.WindowGroups = g.Beside
	}
	limits := models.Limits{Length: a.MaxModelLen, Budget: min(a.MaxNumBatchedTokens, math.MaxInt32), Flights: 1}
	if a.VLLM.Async {
		limits.Flights = 2
	}
	blocks := a.NumGPUBlocks + 1 // one stays unused
	return CacheLog{a.Model, layout.Tokens(blocks, limits), limits.Length, layout.Concurrency(blocks, limits)}, true
}
