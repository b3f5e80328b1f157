package models

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// published is the KV pool of an engine as its log says it. Tokens or bytes are known.
type publishedPool struct {
	Model, Engine, Version, GPU, Source string
	TP, EP                              int
	Fraction                            float64
	Batch                               int    `json:"max_num_batched_tokens"`
	Seqs                                int    `json:"max_num_seqs"`
	KVType                              string `json:"kv_cache_dtype"`
	Tokens                              int
	GiB                                 float64 `json:"kv_gib"`
	Record                              string
	Aside                               bool
}

func (p publishedPool) serving() Serving {
	s := Serving{SGLang: p.Engine == "sglang", Release: p.Version, Hopper: p.GPU != "b200_sxm",
		GPUGiB:   map[string]float64{"h100_sxm": 79.2, "h200_sxm": 139.8, "b200_sxm": 178.4, "a100_sxm": 79.2, "l40s": 44.4}[p.GPU],
		Fraction: p.Fraction, TP: p.TP, MaxTokens: p.Batch, MaxSeqs: p.Seqs, FP8: p.KVType == "fp8"}
	if p.EP > 1 {
		s.ExpertTP, s.ExpertEP = 1, p.EP
	}
	return s
}

// The constants of the estimate were found on the rows that are not aside.
func TestPublishedPools(t *testing.T) {
	var pools []publishedPool
	facts := map[string]json.RawMessage{}
	for name, into := range map[string]any{"pools.json": &pools, "models.json": &facts} {
		content, err := os.ReadFile("../../examples/measured/kv_pools/" + name)
		if err == nil {
			err = json.Unmarshal(content, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(pools) < 40 {
		t.Fatal("fewer than forty published sizes")
	}
	errors := map[bool][]float64{}
	for _, p := range pools {
		a, err := ReadArchitecture(p.Model, facts[p.Model], nil)
		if err != nil {
			t.Fatalf("%s: %v", p.Model, err)
		}
		m, err := a.Estimate(p.serving())
		if err != nil {
			t.Errorf("%s, %s, TP %d: %v", p.Model, p.GPU, p.TP, err)
			continue
		}
		got, want := float64(m.Tokens), float64(p.Tokens)
		if p.GiB > 0 {
			got, want = float64(m.KV)/gib, p.GiB
		}
		off := 100 * (got/want - 1)
		errors[p.Aside] = append(errors[p.Aside], math.Abs(off))
		t.Logf("%-42s %-7s %-7s %-9s %d: %12.2f %12.2f %+6.1f %%  weights %.2f activations %.2f graphs %.2f other %.2f%s", p.Model,
			p.Engine, p.Version, p.GPU, p.TP, want, got, off, float64(m.Weights)/gib, float64(m.Activations)/gib,
			float64(m.Graphs)/gib, float64(m.Other)/gib, map[bool]string{true: " aside"}[p.Aside])
	}
	for _, aside := range []bool{false, true} {
		list := errors[aside]
		slices.Sort(list)
		median := list[len(list)/2]
		t.Logf("aside %v: %d, median %.1f %%, p90 %.1f %%", aside, len(list), median, list[len(list)*9/10])
		if median > 5 {
			t.Errorf("the median error is %.1f %% (aside: %v)", median, aside)
		}
	}
}
