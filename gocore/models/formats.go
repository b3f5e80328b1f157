package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// bf16 is the size of a weight that is not quantised, in bytes.
const bf16 = 2.0

// formats is how many bytes a weight of each part of a model takes, with the scales that belong to it.
type formats struct {
	attention, indexer, dense, experts, shared, output float64
	mxfp4                                              bool
	kv8                                                bool // whether the checkpoint wants its KV cache in FP8
}

// perWeight is the bytes of a weight with its scales, by the names of formats in checkpoints and of the AIC SDK. A
// block of FP8 has 128 x 128 weights, groups of four bits have 16 (NVFP4), 32 (MXFP4, INT4 of compressed-tensors) or
// 128 weights (AWQ, GPTQ).
var perWeight = map[string]float64{
	"bfloat16": bf16, "fp8": 1, "fp8_static": 1, "fp8_block": 1 + 4.0/(128*128), "int8_wo": 1, "sq": 1,
	"nvfp4": 0.5 + 1.0/16, "w4a16_mxfp4": mxfp4Weight, "w4a8_mxfp4_mxfp8": mxfp4Weight, "mxfp4": mxfp4Weight,
	"int4_wo": 0.5 + 2.0/32, "w4afp8": 0.5 + 2.0/128, "awq": awqWeight, "gptq": awqWeight,
}

const (
	mxfp4Weight = 0.5 + 1.0/32
	awqWeight   = 0.5 + 2.5/128
)

// quantized is what counts of a quantization_config or an hf_quant_config.json.
type quantized struct {
	Method     string   `json:"quant_method"`
	Algorithm  string   `json:"quant_algo"`
	KV         string   `json:"kv_cache_quant_algo"`
	BlockSize  []int    `json:"weight_block_size"`
	Unchanged  []string `json:"modules_to_not_convert"`
	Ignored    []string `json:"ignore"`
	Excluded   []string `json:"exclude_modules"`
	Bits       int      `json:"bits"`
	GroupsOf   groupsOf `json:"config_groups"`
	ModelOptIn *struct {
		Algorithm string   `json:"quant_algo"`
		KV        string   `json:"kv_cache_quant_algo"`
		Excluded  []string `json:"exclude_modules"`
	} `json:"quantization"`
}

type groupsOf map[string]struct {
	Weights *struct {
		Bits int    `json:"num_bits"`
		Type string `json:"type"`
	} `json:"weights"`
}

// readFormats reads how a checkpoint is quantised; without a word about it, it is not.
func readFormats(config, beside []byte) (formats, error) {
	plain := formats{attention: bf16, indexer: bf16, dense: bf16, experts: bf16, shared: bf16, output: bf16}
	if len(config) == 0 || string(config) == "null" {
		config = beside
	}
	if len(config) == 0 {
		return plain, nil
	}
	var q, other quantized
	if len(beside) > 0 {
		if err := json.Unmarshal(beside, &other); err != nil {
			return formats{}, fmt.Errorf("hf_quant_config.json: %w", err)
		}
	}
	if err := json.Unmarshal(config, &q); err != nil {
		return formats{}, fmt.Errorf("quantization_config: %w", err)
	}
	if q.ModelOptIn != nil {
		q.Algorithm, q.Excluded, q.KV = q.ModelOptIn.Algorithm, q.ModelOptIn.Excluded, q.ModelOptIn.KV
	}
	if other.ModelOptIn != nil {
		q.KV = other.ModelOptIn.KV
	}
	size, err := q.weight()
	if err != nil {
		return formats{}, err
	}
	left := append(append(q.Unchanged, q.Ignored...), q.Excluded...)
	of := func(modules ...string) float64 {
		for _, module := range modules {
			if matches(left, module) {
				return bf16
			}
		}
		return size
	}
	return formats{
		attention: of("self_attn.q_proj", "self_attn.q_b_proj", "self_attn"), indexer: bf16,
		dense: of("mlp.up_proj"), experts: of("mlp.experts.0.up_proj"),
		shared: of("mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj"), output: bf16,
		mxfp4: size == mxfp4Weight, kv8: strings.EqualFold(q.KV, "fp8"),
	}, nil
}

// groupFormats are the formats of the groups of a checkpoint, by type and bits.
var groupFormats = map[string]string{"float4": "nvfp4", "float8": "fp8", "int4": "int4_wo", "int8": "int8_wo"}

// weight returns the bytes of a quantised weight. Groups of modules must have one format.
func (q *quantized) weight() (float64, error) {
	name, grouped := strings.ToLower(q.Method), false
	for _, group := range q.GroupsOf {
		if group.Weights == nil {
			continue
		}
		format := groupFormats[fmt.Sprintf("%s%d", group.Weights.Type, group.Weights.Bits)]
		if grouped && format != name {
			return 0, errors.New("quantization_config: groups of several formats, want one for all weights")
		}
		name, grouped = format, true
	}
	if q.Algorithm != "" && len(q.GroupsOf) == 0 {
		name = strings.ToLower(q.Algorithm)
	}
	switch {
	case name == "fp8" && len(q.BlockSize) > 0:
		name = "fp8_block"
	case strings.HasPrefix(name, "fp8"):
		name = "fp8"
	case strings.Contains(name, "nvfp4"):
		name = "nvfp4"
	case (name == "gptq" || name == "awq") && q.Bits == 8:
		name = "int8_wo"
	}
	size, known := perWeight[name]
	if !known {
		return 0, errors.New("quantization_config: a format whose size is not known")
	}
	return size, nil
}

// middle is a layer that stands for all: the first ones of a model may differ.
var middle = regexp.MustCompile(`layers\.(\d+)\.(.*)`)

// matches reports whether one of the patterns of modules that keep their weights as they are names a module of a layer.
// Patterns may be globs, or regular expressions after "re:"; those of one layer count for all but the first three.
func matches(patterns []string, module string) bool {
	for _, p := range patterns {
		if expression, ok := strings.CutPrefix(p, "re:"); ok {
			compiled, err := regexp.Compile(expression)
			if err == nil && compiled.MatchString("model.layers.10."+module) {
				return true
			}
			continue
		}
		if found := middle.FindStringSubmatch(p); found != nil {
			if len(found[1]) == 1 && found[1] < "4" { // the first layers are often left as they are
				continue
			}
			p = found[2]
		} else if _, rest, ok := strings.Cut(p, "layers.*."); ok {
			p = rest
		} else {
			p = strings.TrimPrefix(p, "*.")
		}
		if matched, err := path.Match(p, module); err == nil && matched || p == module ||
			strings.HasPrefix(module, p+".") {
			return true
		}
	}
	return false
}

// With returns the architecture with data types that override those of the checkpoint, by the SDK's names; "" keeps
// them.
func (a Architecture) With(products, experts string) (Architecture, error) {
	for _, name := range []string{products, experts} {
		if _, known := perWeight[name]; name != "" && !known {
			return a, fmt.Errorf("a data type %q whose size is not known", name)
		}
	}
	if size, ok := perWeight[products]; ok {
		a.formats.attention, a.formats.dense, a.formats.shared = size, size, size
		if a.Experts == 0 {
			a.formats.experts = size
		}
	}
	if size, ok := perWeight[experts]; ok {
		a.formats.experts, a.formats.mxfp4 = size, size == mxfp4Weight
	}
	return a, nil
}

// KVInFP8 reports whether the checkpoint wants its KV cache in FP8.
func (a *Architecture) KVInFP8() bool { return a.formats.kv8 }
