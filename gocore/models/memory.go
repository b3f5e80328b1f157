package models

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Serving is how an engine serves a model, as far as the memory of its KV cache depends on it.
type Serving struct {
	SGLang   bool
	Release  string // of the engine, such as "0.19.0"; "" for the newest
	Hopper   bool   // whether the GPUs are older than Blackwell, whose kernels for experts need less
	GPUGiB   float64
	Fraction float64 // gpu_memory_utilization or mem_fraction_static
	TP       int
	// ExpertTP and ExpertEP spread the experts; both 0 spreads them as TP.
	ExpertTP, ExpertEP int
	MaxTokens, MaxSeqs int // of a pass
	FP8                bool
}

// Memory is how an engine divides the memory of a GPU, in bytes. KV is what the other parts leave of Usable.
type Memory struct {
	Usable      int `json:"usable"`
	Weights     int `json:"weights"`
	Activations int `json:"activations"`
	Graphs      int `json:"graphs"`
	Other       int `json:"other"`
	KV          int `json:"kv_cache"`
	TokenBytes  int `json:"bytes_per_token"`
	Tokens      int `json:"tokens"`
}

// Constants of the estimate, found on the published sizes that are not kept aside (docs/kv_pools.md).
const (
	gib = 1 << 30
	// Bytes that sampling takes for each request and word of the vocabulary while vLLM measures its peak: until 0.16, and
	// since.
	samplerBytes, samplerBytesNow = 38.3, 16.3
	samplerRelease, graphsRelease = 17, 21 // of 0.x
	// Copies of what the chosen experts of a pass read and write.
	expertCopies, expertCopiesHopper = 1, 2.1
	contextGiB                       = 0.14 // of libraries on one GPU, beside what vLLM's share counts
	// What vLLM and SGLang need to exchange results among GPUs; vLLM's fused collectives since 0.17 have workspaces.
	collectiveGiB, collectiveGPUGiB, workspaceGiB = 0.33, 0.075, 1.4
	sglangContextGiB, sglangCollectiveGiB         = 0.5, 2.0
	graphLayerGiB                                 = 0.06 // of CUDA graphs of a layer with experts
	// mambaShare is SGLang's mamba_full_memory_ratio: memory of linear states for each byte of KV.
	mambaShare = 0.9
)

// Weights returns the bytes of the weights on each GPU.
func (a *Architecture) Weights(s Serving) int {
	tp := float64(s.TP)
	perLayer, whole := a.attention(tp)
	bytes := float64(a.Full+a.Window)*(perLayer*a.formats.attention+whole*a.formats.attention) +
		float64(a.Indexers)*a.indexer()*a.formats.indexer + float64(a.Full)*a.absorbed()*bf16/tp
	bytes += float64(a.Linear) * float64(a.Hidden*(a.LinearIn+a.LinearOut)) / tp * a.formats.attention
	bytes += float64(a.DenseLayers) * float64(3*a.Hidden*a.Dense) / tp * a.formats.dense
	if a.Experts > 0 {
		sparse := float64(a.Layers - a.DenseLayers)
		experts := float64(a.Experts) * float64(3*a.Hidden) * a.expertWidth() / s.expertGPUs()
		bytes += sparse * (experts*a.formats.experts + float64(3*a.Hidden*a.SharedWidth)/tp*a.formats.shared +
			float64(a.Hidden*a.Experts)*bf16)
	}
	tables := 2.0
	if a.Tied {
		tables = 1
	}
	bytes += tables * float64(a.Vocab) * float64(a.Hidden) / tp * bf16
	return int(bytes + float64(a.VisionWeights)*bf16)
}

// attention returns the weights of a layer of attention: those of one of the GPUs that share the heads, and those that
// all of them keep.
func (a *Architecture) attention(tp float64) (shared, whole float64) {
	hidden, heads := float64(a.Hidden), float64(a.Heads)/tp
	if a.Latent > 0 {
		rank := float64(a.Latent - a.RopeDim)
		queries, from := float64(a.NopeDim+a.RopeDim)*heads, hidden
		if a.QRank > 0 {
			whole, from = hidden*float64(a.QRank), float64(a.QRank)
		}
		shared = from*queries + rank*heads*float64(a.NopeDim+a.ValueDim) + heads*float64(a.ValueDim)*hidden
		return shared, whole + hidden*float64(a.Latent)
	}
	dim, queries := float64(a.HeadDim), heads
	if a.GatedOutput {
		queries *= 2
	}
	return hidden * dim * (queries + heads + 2*max(1, float64(a.KVHeads)/tp)), 0
}

// absorbed returns the weights of the copies that latent attention keeps to decode without expanding keys and values.
func (a *Architecture) absorbed() float64 {
	if a.Latent == 0 {
		return 0
	}
	return float64(a.Latent-a.RopeDim) * float64(a.Heads*(a.NopeDim+a.ValueDim))
}

func (a *Architecture) indexer() float64 {
	return float64(a.QRank*a.IndexHeads*a.IndexDim + a.Hidden*(a.IndexDim+a.IndexHeads))
}

// expertWidth returns that of an expert, which MXFP4 fills up to a multiple of 256.
func (a *Architecture) expertWidth() float64 {
	if a.formats.mxfp4 {
		return float64(ceilDiv(a.ExpertWidth, 256) * 256)
	}
	return float64(a.ExpertWidth)
}

func (s Serving) expertGPUs() float64 {
	if s.ExpertTP == 0 && s.ExpertEP == 0 {
		return float64(s.TP)
	}
	return float64(max(1, s.ExpertTP) * max(1, s.ExpertEP))
}

// TokenBytes returns what a GPU keeps of a token in all layers that keep every token.
func (a *Architecture) TokenBytes(s Serving) int {
	token := a.Facts.tokenBytes(Shape{Ranks: s.TP, FP8: s.FP8})
	if a.Indexers > 0 && s.FP8 && s.Hopper {
		token = a.Latent - a.RopeDim + 4*4 + 2*a.RopeDim // FP8 with a scale for 128 values, and positions in bf16
	}
	return a.Full*token + a.Indexers*(a.IndexDim+4)
}

// Estimate divides the memory of a GPU as the engine does when it starts.
func (a *Architecture) Estimate(s Serving) (Memory, error) {
	m := Memory{Weights: a.Weights(s), TokenBytes: a.TokenBytes(s)}
	usable := s.GPUGiB * s.Fraction
	if s.SGLang {
		m.Other = int(s.Fraction * s.outsideSGLang() * gib)
	} else {
		m.Activations, m.Graphs = a.activations(s), a.graphs(s)
		m.Other = int(s.outside() * gib)
	}
	m.Usable = int(usable * gib)
	m.KV = m.Usable - m.Weights - m.Activations - m.Graphs - m.Other
	if m.KV <= 0 {
		return m, fmt.Errorf("%.1f GiB of weights and %.1f GiB of activations and libraries leave nothing of %.1f GiB",
			float64(m.Weights)/gib, float64(m.Activations+m.Graphs+m.Other)/gib, usable)
	}
	tokens, err := a.tokens(s, m.KV)
	m.Tokens = tokens
	return m, err
}

// activations returns the peak that vLLM measures: of sampling for as many requests as may run, or of a pass through a
// layer of experts, whichever is more.
func (a *Architecture) activations(s Serving) int {
	perWord := samplerBytesNow
	if s.before(samplerRelease) {
		perWord = samplerBytes
	}
	tokens, hidden := float64(s.MaxTokens), float64(a.Hidden)
	sampling := perWord * float64(s.MaxSeqs) * float64(a.Vocab)
	layer := tokens * (3*hidden + 3*float64(a.Dense)/float64(s.TP)) * bf16
	if a.Experts > 0 {
		copies := float64(expertCopies)
		if s.Hopper {
			copies = expertCopiesHopper
		}
		width := a.expertWidth() / max(1, s.expertGPUs()/float64(max(1, s.ExpertEP)))
		layer = copies * tokens * float64(a.TopK) * (2*hidden + 3*width) * bf16
	}
	return int(tokens*hidden*bf16 + max(sampling, layer))
}

// graphs returns the memory of CUDA graphs, which vLLM counts since 0.21.
func (a *Architecture) graphs(s Serving) int {
	if s.before(graphsRelease) || a.Experts == 0 {
		return 0
	}
	return int(graphLayerGiB * gib * float64(a.Layers))
}

// outside returns what libraries take on each GPU with vLLM, in GiB.
func (s Serving) outside() float64 {
	other := contextGiB
	if s.TP > 1 {
		other = collectiveGiB + collectiveGPUGiB*float64(s.TP)
		if !s.before(samplerRelease) {
			other += workspaceGiB
		}
	}
	return other
}

// outsideSGLang returns what libraries take before SGLang looks how much memory there is, in GiB.
func (s Serving) outsideSGLang() float64 {
	if s.TP > 1 {
		return sglangContextGiB + sglangCollectiveGiB
	}
	return sglangContextGiB
}

// before reports whether the release of the engine is older than 0.minor.
func (s Serving) before(minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(s.Release, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil || major > 0 {
		return false
	}
	of, err := strconv.Atoi(parts[1])
	return err == nil && of < minor
}

// tokens returns how many tokens the given number of bytes holds: for a model with windows or linear attention those of
// the longest request, as many times as it fits.
func (a *Architecture) tokens(s Serving, bytes int) (int, error) {
	switch {
	case a.Window+a.Linear == 0:
		return bytes / a.TokenBytes(s), nil
	case s.SGLang && a.Linear > 0:
		return int(float64(bytes) / (1 + mambaShare) / float64(a.TokenBytes(s))), nil
	case s.SGLang:
		pools, err := a.Pools(Shape{Ranks: s.TP, BlockSize: 1, FP8: s.FP8})
		if err != nil {
			return 0, err
		}
		full, _ := pools.Pages(bytes)
		return full, nil
	}
	layout, err := a.Layout(Shape{Ranks: s.TP, FP8: s.FP8})
	if err != nil {
		return 0, err
	}
	limits := Limits{Length: a.MaxLen, Budget: min(s.MaxTokens, math.MaxInt32), Flights: 1}
	if limits.Length <= 0 {
		return 0, errors.New("max_position_embeddings is missing")
	}
	return layout.Tokens(layout.Blocks(bytes), limits), nil
}
