package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FindModel returns the folder of a model: path itself, or the snapshot that the Hugging Face cache, a folder, has of
// the model with that name. Nothing is downloaded.
func FindModel(path, cache string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return filepath.Abs(path)
	}
	if err == nil {
		return "", fmt.Errorf("%q is a file, want a folder with config.json and tokenizer.json", path)
	}
	if strings.Count(path, "/") != 1 || strings.HasPrefix(path, "/") || strings.HasPrefix(path, ".") {
		return "", fmt.Errorf("%q: %w", path, fs.ErrNotExist)
	}
	model := filepath.Join(cache, "models--"+strings.ReplaceAll(path, "/", "--"))
	revision, err := os.ReadFile(filepath.Join(model, "refs", "main"))
	if err != nil {
		return "", fmt.Errorf("%q is no folder and not in the Hugging Face cache %s: %w", path, cache, fs.ErrNotExist)
	}
	return filepath.Join(model, "snapshots", strings.TrimSpace(string(revision))), nil
}

// IsFolder reports whether a path of a model is a folder of this host, and not a name on the hub.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// HubCache returns the folder of the Hugging Face cache. getenv looks up environment variables.
func HubCache(getenv func(string) string) string {
	if dir := getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub")
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".cache", "huggingface", "hub")
}

// modelConfig is the part of config.json that matters here.
type modelConfig struct {
	MaxPositionEmbeddings int `json:"max_position_embeddings"`
	TextConfig            struct {
		MaxPositionEmbeddings int `json:"max_position_embeddings"`
	} `json:"text_config"`
	NumHiddenLayers   int     `json:"num_hidden_layers"`
	HiddenSize        int     `json:"hidden_size"`
	NumAttentionHeads int     `json:"num_attention_heads"`
	NumKeyValueHeads  *int    `json:"num_key_value_heads"`
	NumKVHeads        *int    `json:"num_kv_heads"`
	HeadDim           *int    `json:"head_dim"`
	DType             *string `json:"dtype"`
	TorchDType        *string `json:"torch_dtype"`
}

func readConfig(folder string) (modelConfig, error) {
	var c modelConfig
	path := filepath.Join(folder, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// MaxContextLength returns 0 if no file has it.
func MaxContextLength(folder string) (int, error) {
	c, err := readConfig(folder)
	if err != nil {
		return 0, err
	}
	for _, length := range []int{c.MaxPositionEmbeddings, c.TextConfig.MaxPositionEmbeddings} {
		if length > 0 {
			return length, nil
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "tokenizer_config.json"))
	if err != nil {
		return 0, nil
	}
	var tokenizer struct {
		ModelMaxLength float64 `json:"model_max_length"` // often 1e30
	}
	if json.Unmarshal(text, &tokenizer) != nil || tokenizer.ModelMaxLength < 1 || tokenizer.ModelMaxLength > 1<<31 {
		return 0, nil
	}
	return int(tokenizer.ModelMaxLength), nil
}

// dtypeBytes is the size of an element of the KV cache; types that are not listed take two bytes.
var dtypeBytes = map[string]int{
	"float32": 4, "float8_e4m3fn": 1, "float8_e5m2": 1, "fp8": 1, "fp8_ds_mla": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
	"fp8_inc": 1, "int8": 1,
}

// KVBytesPerToken returns the size of the KV of one token of the whole model:
//
//	layers * 2 * kv heads * head size * bytes of the data type
//
// dtype "auto" stands for the type of the model.
func KVBytesPerToken(folder, dtype string) (int, error) {
	c, err := readConfig(folder)
	if err != nil {
		return 0, err
	}
	if c.NumHiddenLayers <= 0 || c.NumAttentionHeads <= 0 {
		return 0, errors.New("config.json: num_hidden_layers, num_attention_heads: want both to be positive")
	}
	kvHeads := c.NumAttentionHeads
	if c.NumKVHeads != nil {
		kvHeads = *c.NumKVHeads
	}
	if c.NumKeyValueHeads != nil {
		kvHeads = *c.NumKeyValueHeads
	}
	headDim := c.HiddenSize / c.NumAttentionHeads
	switch {
	case c.HeadDim != nil:
		headDim = *c.HeadDim
	case c.HiddenSize <= 0 || c.HiddenSize%c.NumAttentionHeads != 0:
		return 0, fmt.Errorf("config.json: hidden_size: got %d, want a multiple of num_attention_heads, %d",
			c.HiddenSize, c.NumAttentionHeads)
	}
	return c.NumHiddenLayers * 2 * kvHeads * headDim * c.elementBytes(dtype), nil
}

func (c *modelConfig) elementBytes(dtype string) int {
	if dtype == "auto" {
		dtype = "float16"
		for _, own := range []*string{c.TorchDType, c.DType} {
			if own != nil {
				dtype = strings.TrimPrefix(*own, "torch.")
			}
		}
	}
	if bytes, ok := dtypeBytes[dtype]; ok {
		return bytes
	}
	return 2
}
