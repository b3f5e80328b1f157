package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// config is what counts of a config.json. Files hold a hundred other members, so unknown ones are no mistake here.
type config struct {
	Text            *config  `json:"text_config"`
	ModelType       string   `json:"model_type"`
	Layers          int      `json:"num_hidden_layers"`
	LayerTypes      []string `json:"layer_types"`
	LayersBlockType []string `json:"layers_block_type"`
	Pattern         string   `json:"hybrid_override_pattern"`
	FullEvery       int      `json:"full_attention_interval"`
	WindowPattern   int      `json:"sliding_window_pattern"`
	Window          int      `json:"sliding_window"`
	UseWindow       *bool    `json:"use_sliding_window"`
	KVHeads         int      `json:"num_key_value_heads"`
	Heads           int      `json:"num_attention_heads"`
	HeadDim         int      `json:"head_dim"`
	Hidden          int      `json:"hidden_size"`
	LoraRank        int      `json:"kv_lora_rank"`
	RopeDim         int      `json:"qk_rope_head_dim"`
	MaxLen          int      `json:"max_position_embeddings"`
	KeyHeads        int      `json:"linear_num_key_heads"`
	KeyDim          int      `json:"linear_key_head_dim"`
	ValueHeads      int      `json:"linear_num_value_heads"`
	ValueDim        int      `json:"linear_value_head_dim"`
	LinearKernel    int      `json:"linear_conv_kernel_dim"`
	MambaHeads      int      `json:"mamba_num_heads"`
	MambaHeadDim    int      `json:"mamba_head_dim"`
	MambaGroups     int      `json:"n_groups"`
	MambaState      int      `json:"ssm_state_size"`
	MambaKernel     int      `json:"conv_kernel"`
	StateDtype      string   `json:"mamba_ssm_dtype"`
	StateCacheDtype string   `json:"mamba_ssm_cache_dtype"`
}

// ReadConfig reads the config.json of a model. The size of the weights is not in it.
func ReadConfig(name string, content []byte) (Facts, error) {
	var c config
	if err := json.Unmarshal(content, &c); err != nil {
		return Facts{}, fmt.Errorf("no config.json of a model: %w", err)
	}
	if c.Text != nil {
		c = *c.Text
	}
	f := Facts{Name: name, KVHeads: c.KVHeads, HeadDim: c.HeadDim, MaxLen: c.MaxLen}
	if err := c.countLayers(&f); err != nil {
		return Facts{}, err
	}
	if f.KVHeads == 0 {
		f.KVHeads = c.Heads
	}
	if f.HeadDim == 0 && c.Heads > 0 {
		f.HeadDim = c.Hidden / c.Heads
	}
	if c.LoraRank > 0 {
		f.Latent = c.LoraRank + c.RopeDim
	}
	if f.Latent == 0 && f.KVHeads*f.HeadDim <= 0 {
		return Facts{}, errors.New("num_key_value_heads and head_dim are missing")
	}
	return f, c.checkSizes(&f)
}

// checkSizes adds the state of linear layers, and refuses sizes that are missing.
func (c *config) checkSizes(f *Facts) error {
	if f.Window > 0 {
		if f.WindowTokens = c.Window; c.Window < 2 {
			return errors.New("sliding_window is missing")
		}
	}
	size := 2
	if c.StateDtype == "float32" || c.StateCacheDtype == "float32" {
		size = 4
	}
	switch {
	case f.Linear == 0:
	case c.ValueHeads > 0:
		f.State = gatedState(c.KeyHeads, c.KeyDim, c.ValueHeads, c.ValueDim, c.LinearKernel, size)
	case c.MambaHeads > 0:
		f.State = mambaState(c.MambaHeads, c.MambaHeadDim, c.MambaGroups, c.MambaState, c.MambaKernel, size)
	}
	if f.Linear > 0 && (f.State.Values <= 0 || f.State.ConvValues <= 0) {
		return errors.New("the sizes of the linear layers are missing")
	}
	if f.MaxLen <= 0 {
		return errors.New("max_position_embeddings is missing")
	}
	return nil
}

// refused are models whose attention layers differ in size, or keep something else than keys and values.
var refused = []string{"gemma4", "gemma3n", "llama4", "deepseek_v4", "deepseek_ref", "deepseek_v32", "glm_moe_dsa",
	"mimo_v2_flash", "step3p7", "nemotron-nas", "kimi_linear", "minimax_m3"}

// countLayers counts the layers of each kind.
func (c *config) countLayers(f *Facts) error {
	for _, kind := range refused {
		if strings.HasPrefix(c.ModelType, kind) {
			return fmt.Errorf("model_type %s: its layers keep caches of different sizes, which are not simulated",
				c.ModelType)
		}
	}
	kinds := append(c.LayerTypes, c.LayersBlockType...)
	for _, letter := range c.Pattern {
		kinds = append(kinds, map[rune]string{'M': "mamba", '*': "attention", 'E': "moe", '-': "mlp"}[letter])
	}
	every, other := 0, &f.Window
	switch {
	case len(kinds) > 0:
	case c.FullEvery > 0:
		every, other = c.FullEvery, &f.Linear
	case strings.HasPrefix(c.ModelType, "gemma3"):
		if every = c.WindowPattern; every == 0 {
			every = 6
		}
	case c.ModelType == "gemma2":
		every = 2
	case c.Window > 0 && (c.UseWindow == nil || *c.UseWindow) && (c.ModelType == "mistral" || c.ModelType == "phi3"):
		return errors.New("all layers have sliding windows, which is not simulated")
	}
	for i := 0; i < c.Layers && len(kinds) == 0; i++ {
		if every > 0 && (i+1)%every != 0 {
			*other++
		} else {
			f.Full++
		}
	}
	for _, kind := range kinds {
		switch kind {
		case "full_attention", "attention":
			f.Full++
		case "sliding_attention":
			f.Window++
		case "linear_attention", "mamba":
			f.Linear++
		case "moe", "mlp":
		default:
			return fmt.Errorf("a layer of kind %q is not simulated", kind)
		}
	}
	if f.Full+f.Window+f.Linear == 0 {
		return errors.New("num_hidden_layers is missing")
	}
	return nil
}
