package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Architecture is what decides how many bytes the weights of a model take on a GPU, and what a pass needs beside them.
type Architecture struct {
	Facts
	Layers, Hidden, Vocab, Heads int
	Tied                         bool // whether the output shares the embedding

	Dense, DenseLayers                      int // width of a layer without experts, and how many there are
	Experts, ExpertWidth, TopK, SharedWidth int

	QRank, NopeDim, RopeDim, ValueDim int // of latent attention
	// IndexDim and IndexHeads are those of the indexer of sparse attention, in Indexers layers; 0 without one.
	IndexDim, IndexHeads, Indexers int
	GatedOutput                    bool // whether queries have a gate as wide as they are
	// LinearIn is the width of what a layer of linear attention projects its input to, LinearOut of what it projects back.
	LinearIn, LinearOut int
	// VisionWeights are those of the part that reads images, which every GPU keeps.
	VisionWeights int

	formats formats
}

// wide is what counts of a config.json beside the layers.
type wide struct {
	Text         json.RawMessage `json:"text_config"`
	Vision       *vision         `json:"vision_config"`
	ModelType    string          `json:"model_type"`
	Layers       int             `json:"num_hidden_layers"`
	Hidden       int             `json:"hidden_size"`
	Vocab        int             `json:"vocab_size"`
	Heads        int             `json:"num_attention_heads"`
	Tied         bool            `json:"tie_word_embeddings"`
	Width        int             `json:"intermediate_size"`
	ExpertWidth  int             `json:"moe_intermediate_size"`
	SharedWidth  int             `json:"shared_expert_intermediate_size"`
	Routed       int             `json:"n_routed_experts"`
	Local        int             `json:"num_local_experts"`
	Experts      int             `json:"num_experts"`
	Shared       int             `json:"n_shared_experts"`
	TopK         int             `json:"num_experts_per_tok"`
	FirstDense   int             `json:"first_k_dense_replace"`
	KVRank       int             `json:"kv_lora_rank"`
	QRank        int             `json:"q_lora_rank"`
	NopeDim      int             `json:"qk_nope_head_dim"`
	RopeDim      int             `json:"qk_rope_head_dim"`
	ValueDim     int             `json:"v_head_dim"`
	IndexDim     int             `json:"index_head_dim"`
	IndexHeads   int             `json:"index_n_heads"`
	IndexerTypes []string        `json:"indexer_types"`
	GatedOutput  bool            `json:"attn_output_gate"`
	KeyHeads     int             `json:"linear_num_key_heads"`
	KeyDim       int             `json:"linear_key_head_dim"`
	ValueHeads   int             `json:"linear_num_value_heads"`
	LinearDim    int             `json:"linear_value_head_dim"`
	Quantization json.RawMessage `json:"quantization_config"`
}

// vision is the part that reads images. Kimi has names of its own.
type vision struct {
	Layers      int `json:"num_hidden_layers"`
	Depth       int `json:"depth"`
	KimiLayers  int `json:"vt_num_hidden_layers"`
	Hidden      int `json:"hidden_size"`
	KimiHidden  int `json:"vt_hidden_size"`
	Width       int `json:"intermediate_size"`
	KimiWidth   int `json:"vt_intermediate_size"`
	OutputWidth int `json:"out_hidden_size"`
	Merge       int `json:"spatial_merge_size"`
}

// ReadArchitecture reads the config.json of a model and, where the checkpoint has one, its hf_quant_config.json. It
// fails for a model of which it cannot say how many weights there are.
func ReadArchitecture(name string, content, quantization []byte) (Architecture, error) {
	c, err := readWide(content)
	if err != nil {
		return Architecture{}, err
	}
	facts, err := layersOf(name, content, c.ModelType)
	if err != nil {
		return Architecture{}, err
	}
	a := Architecture{
		Facts: facts, Layers: c.Layers, Hidden: c.Hidden, Vocab: c.Vocab, Heads: c.Heads, Tied: c.Tied,
		TopK: c.TopK, QRank: c.QRank, NopeDim: c.NopeDim, RopeDim: c.RopeDim, ValueDim: c.ValueDim,
		IndexDim: c.IndexDim, IndexHeads: c.IndexHeads, GatedOutput: c.GatedOutput,
	}
	c.addExperts(&a)
	c.addIndexers(&a)
	if facts.Linear > 0 {
		keys, values := c.KeyHeads*c.KeyDim, c.ValueHeads*c.LinearDim
		a.LinearIn, a.LinearOut = 2*keys+2*values+2*c.ValueHeads, values
	}
	if c.Vision != nil {
		a.VisionWeights = c.Vision.weights()
	}
	if a.formats, err = readFormats(c.Quantization, quantization); err != nil {
		return Architecture{}, err
	}
	return a, a.check()
}

// readWide returns the outer config with the text model's members, where the model also reads images.
func readWide(content []byte) (wide, error) {
	var outer wide
	if err := json.Unmarshal(content, &outer); err != nil {
		return wide{}, fmt.Errorf("no config.json of a model: %w", err)
	}
	if outer.Text == nil {
		return outer, nil
	}
	inner := wide{Tied: outer.Tied, Vision: outer.Vision, Quantization: outer.Quantization}
	if err := json.Unmarshal(outer.Text, &inner); err != nil {
		return wide{}, fmt.Errorf("no config.json of a model: %w", err)
	}
	return inner, nil
}

// layersOf returns the layers of a model. Sparse attention has those of latent attention, and an indexer.
func layersOf(name string, content []byte, modelType string) (Facts, error) {
	for _, sparse := range []string{"deepseek_v32", "glm_moe_dsa"} {
		if strings.HasPrefix(modelType, sparse) {
			content = []byte(strings.Replace(string(content), `"`+modelType+`"`, `"deepseek_v3"`, 1))
		}
	}
	return ReadConfig(name, content)
}

func (c *wide) addExperts(a *Architecture) {
	a.Experts = max(c.Routed, c.Local, c.Experts)
	if a.Experts == 0 {
		a.Dense, a.DenseLayers = c.Width, c.Layers
		return
	}
	a.ExpertWidth, a.DenseLayers, a.Dense = c.ExpertWidth, c.FirstDense, c.Width
	if a.ExpertWidth == 0 {
		a.ExpertWidth = c.Width
	}
	if a.SharedWidth = c.SharedWidth; a.SharedWidth == 0 {
		a.SharedWidth = c.Shared * a.ExpertWidth
	}
}

func (c *wide) addIndexers(a *Architecture) {
	if a.IndexDim == 0 {
		return
	}
	a.Indexers = c.Layers
	if len(c.IndexerTypes) > 0 {
		a.Indexers = 0
	}
	for _, kind := range c.IndexerTypes {
		if kind == "full" {
			a.Indexers++
		}
	}
}

func (v *vision) weights() int {
	layers, hidden, width := max(v.Layers, v.Depth, v.KimiLayers), max(v.Hidden, v.KimiHidden), max(v.Width, v.KimiWidth)
	merged := hidden * max(1, v.Merge*v.Merge)
	return layers*(4*hidden*hidden+2*hidden*width) + merged*(merged+v.OutputWidth)
}

// check refuses a model of which something is missing, or of which the weights are not known.
func (a *Architecture) check() error {
	switch {
	case a.Layers <= 0 || a.Hidden <= 0 || a.Vocab <= 0 || a.Heads <= 0:
		return errors.New("num_hidden_layers, hidden_size, vocab_size or num_attention_heads is missing")
	case a.Dense*a.DenseLayers+a.Experts*a.ExpertWidth <= 0:
		return errors.New("intermediate_size is missing")
	case a.Latent > 0 && (a.NopeDim <= 0 || a.ValueDim <= 0):
		return errors.New("qk_nope_head_dim or v_head_dim is missing")
	case a.Linear > 0 && a.LinearIn <= 0:
		return errors.New("the weights of its linear layers are not known")
	case a.Full+a.Window+a.Linear != a.Layers:
		return errors.New("it has layers without attention, whose weights are not known")
	}
	return nil
}
