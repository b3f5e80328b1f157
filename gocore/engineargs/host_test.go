package engineargs

import (
	"strings"
	"testing"
)

func TestHostWords(t *testing.T) {
	const vllm = `"scheduler": "vllm", "block_size": 16, "kv_bytes_per_token": 131072`
	tests := []struct {
		text                  string
		blocks                int
		loadMs, storeMs       float64
		threshold, tokenBytes int
	}{
		{`{"scheduler": "vllm", "num_host_blocks": 7}`, 7, 0, 0, 1, 0},
		{`{` + vllm + `, "num_host_blocks": 7, "host_offload_h2d_bandwidth_gbps": 2.097152}`, 7, 1, 0, 1, 131072},
		{`{` + vllm + `, "host_cache_gb": 0.02097152, "host_offload_d2h_bandwidth_gbps": 20.97152}`, 10, 0, 0.1, 1,
			131072},
		{`{` + vllm + `, "host_cache_gb": 1, "host_cache": {"store_threshold": 2, "load_ms_per_block": 3}}`, 476, 3, 0,
			2, 131072},
		{`{` + vllm + `, "num_host_blocks": 7, "host_link": "nvlink-c2c"}`, 7, 2.097152 / 450, 2.097152 / 450, 1,
			131072},
		{`{` + vllm + `, "num_host_blocks": 7, "aic_tp_size": 2, "host_link": "nvlink-c2c", ` +
			`"host_offload_d2h_bandwidth_gbps": 2.097152}`,
			7, 2.097152 / 900, 1, 1, 131072},
		{`{` + vllm + `, "num_g2_blocks": 9, "bandwidth_g1_to_g2_gbps": 2.097152}`, 9, 2.097152 / 14, 1, 1, 131072},
		{`{"engine_type": "sglang", "scheduler": "sglang", "num_host_blocks": 7, ` +
			`"host_cache": {"write_policy": "write_back"}}`, 7, 0, 0, 1, 0},
		{`{"scheduler": "vllm", "num_g2_blocks": 0, "num_g3_blocks": 0, "offload_batch_size": 0}`, 0, 0, 0, 0, 0},
	}
	for _, test := range tests {
		args, _, err := Parse(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		h := args.HostCache
		if h.Blocks != test.blocks || !near(h.LoadMsPerBlock, test.loadMs) || !near(h.StoreMsPerBlock, test.storeMs) ||
			h.StoreThreshold != test.threshold || h.TokenBytes != test.tokenBytes || h.Unsized() {
			t.Errorf("%s: got %+v", test.text, h)
		}
		if test.blocks > 0 && args.Scheduler == VLLMOwn && args.VLLM.Async {
			t.Errorf("%s: scheduling is asynchronous", test.text)
		}
	}
}

func near(got, want float64) bool { return got-want < 1e-12 && want-got < 1e-12 }

// TestHostUnsized checks that a tier in bytes has no number of blocks until the bytes of a token are known.
func TestHostUnsized(t *testing.T) {
	args, _, err := Parse(`{"scheduler": "vllm", "block_size": 16, "aic_backend": "vllm", "aic_system": "h100_sxm",
		"aic_model_path": "x",
		"aic_tp_size": 1, "host_cache_gb": 1, "host_link": "pcie5"}`)
	if err != nil || !args.HostCache.Unsized() || !args.HostCache.Asked() {
		t.Fatalf("got %+v, %v", args.HostCache, err)
	}
	if err := args.SizeHost(131072); err != nil || args.HostCache.Blocks != 476 || args.HostCache.Unsized() {
		t.Fatalf("got %+v, %v", args.HostCache, err)
	}
}

func TestHostWordsRefused(t *testing.T) {
	const vllm = `"scheduler": "vllm", "kv_bytes_per_token": 131072`
	for _, test := range []struct{ text, want string }{
		{`{"scheduler": "vllm", "host_cache_gb": 1}`, "kv_bytes_per_token: got nothing, want the bytes of a token's KV"},
		{`{"scheduler": "vllm", "num_host_blocks": 1, "host_link": "pcie4"}`, "kv_bytes_per_token: got nothing"},
		{`{"scheduler": "vllm", "num_host_blocks": 1, "host_cache": {"num_blocks": 2}}`,
			"num_host_blocks: got 1, want it left out, as host_cache.num_blocks"},
		{`{` + vllm + `, "num_host_blocks": 1, "host_cache_gb": 2}`,
			"host_cache_gb: got 2, want it left out, as num_host_blocks"},
		{`{"scheduler": "vllm", "host_link": "pcie4"}`,
			`host_link: got "pcie4", want num_host_blocks or host_cache_gb with it`},
		{`{` + vllm + `, "host_cache_gb": 1e-9}`, "host_cache_gb: got 1e-09, want 0.008388608 to"},
		{`{` + vllm + `, "num_host_blocks": 1, "host_offload_h2d_bandwidth_gbps": 1e-300}`,
			"host_offload_h2d_bandwidth_gbps: got 1e-300, want at least"},
		{`{` + vllm + `, "num_g2_blocks": 5, "num_g3_blocks": 5}`,
			"num_g3_blocks: 5 is not built yet (Dynamo's rules of tiers below host memory; host_cache.storage_blocks"},
		{`{` + vllm + `, "num_g2_blocks": 5, "offload_batch_size": 4}`,
			"offload_batch_size: 4 is not built yet (copies in batches: the engines' own rules say what"},
		{`{` + vllm + `, "num_host_blocks": 5, "host_cache": {"blocks_per_chunk": 6}, "dp_size": 1}`,
			"host_cache.blocks_per_chunk: got 6, want at most"},
		{`{` + vllm + `, "num_host_blocks": 5, "host_link": "pcie5", "host_cache": {"load_ms_per_block": 6}}`,
			"host_cache.load_ms_per_block: got 6, want it left out"},
		{`{` + vllm + `, "num_g2_blocks": 5, "bandwidth_g2_to_g1_gbps": 9, "host_offload_h2d_bandwidth_gbps": 7}`,
			"host_offload_h2d_bandwidth_gbps: got 7, want it left out, as bandwidth_g2_to_g1_gbps is given"},
		{`{` + vllm + `, "num_g2_blocks": 5, "bandwidth_g1_to_g2_gbps": 9, "host_offload_d2h_bandwidth_gbps": 7}`,
			"host_offload_d2h_bandwidth_gbps: got 7, want it left out, as bandwidth_g1_to_g2_gbps is given"},
	} {
		if _, _, err := Parse(test.text); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
	args, _, err := ParseLive(`{` + vllm + `, "num_g2_blocks": 5, "bandwidth_g2_to_g1_gbps": 100}`)
	if h := args.HostCache; err != nil || h.Blocks != 5 || h.LoadMsPerBlock == 0 {
		t.Errorf("a live worker: got %+v, %v", h, err)
	}
	for text, want := range map[string]string{
		`{"num_g2_blocks": 5}`:   "num_g2_blocks: 5 is not built yet (KV offload tiers of live workers)",
		`{"num_host_blocks": 5}`: "num_host_blocks: 5 is not built yet (KV offload tiers with scheduler dynamo)",
		`{"scheduler": "vllm", "host_cache": {"num_blocks": 5, "shared": true}}`: "host_cache.shared: got true, want " +
			"false with live workers, of which each has a loop of its own",
		`{"scheduler": "vllm", "host_cache": {"num_blocks": 5, "storage_blocks": 9}}`: "host_cache.storage_blocks: got 9, " +
			"want it left out with live workers, of which each has a loop of its own",
	} {
		if _, _, err := ParseLive(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a live worker with %s: got %v, want %s", text, err, want)
		}
	}
}

// TestHostOfGroups takes a tier below several KV groups, and refuses what is not known of it.
func TestHostOfGroups(t *testing.T) {
	const groups = `{"scheduler": "vllm", "kv_cache_groups": [{"type": "full"}, {"type": "linear"}], `
	args, _, err := Parse(groups + `"kv_bytes_per_token": 1000, "num_host_blocks": 5, "host_link": "pcie4"}`)
	if h := args.HostCache; err != nil || h.Blocks != 5 || h.LoadMsPerBlock == 0 || args.VLLM.Groups.Beside != 1 {
		t.Errorf("got %+v, %v", h, err)
	}
	for _, test := range []struct{ text, want string }{
		{`"host_cache": {"num_blocks": 8, "blocks_per_chunk": 2}, "prefix_cache_retention_interval": 64}`,
			"prefix_cache_retention_interval: got 64, want 0 or a multiple of a chunk of host_cache, 128 tokens"},
		{`"host_cache": {"num_blocks": 8, "shared": true}}`,
			"host_cache.shared: got true, want false with several kv_cache_groups"},
		{`"host_cache": {"num_blocks": 8, "storage_blocks": 9}}`,
			"host_cache.storage_blocks: got 9, want it left out with several"},
		{`"host_cache_gb": 1}`, "kv_bytes_per_token: got nothing, want the bytes of a token's KV in the layers of one"},
	} {
		if _, _, err := Parse(groups + test.text); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
	args, _, err = Parse(groups + `"host_cache": {"num_blocks": 8, "blocks_per_chunk": 2}, "num_gpu_blocks": 100,
		"prefix_cache_retention_interval": 256}`)
	if err != nil || args.HostCache.ChunkBlocks != 2 || args.VLLM.Groups.Retention != 256 {
		t.Errorf("chunks of two blocks: got %+v, %v", args.HostCache, err)
	}
	if _, _, err = ParseLive(groups + `"host_cache": {"num_blocks": 8}}`); err != nil {
		t.Errorf("a live worker: %v", err)
	}
}

// TestHostOfRanks gives each rank host memory and a link of its own, and has what is not known of them refused.
func TestHostOfRanks(t *testing.T) {
	const vllm = `"scheduler": "vllm", "kv_bytes_per_token": 131072, "host_cache_gb": 1, "host_link": "pcie5"`
	one, _, err := Parse(`{` + vllm + `}`)
	if err != nil {
		t.Fatal(err)
	}
	ranks, _, err := Parse(`{` + vllm + `, "dp_size": 4}`)
	if err != nil || ranks.Ranks != 4 || ranks.HostCache != one.HostCache {
		t.Errorf("got %+v of %d ranks, %v, want %+v", ranks.HostCache, ranks.Ranks, err, one.HostCache)
	}
	for more, want := range map[string]string{
		`"dp_size": 2, "host_cache": {"shared": true}`:      "dp_size: got 2, want 1 with host_cache.shared or storage",
		`"dp_size": 2, "host_cache": {"storage_blocks": 9}`: "dp_size: got 2, want 1 with host_cache.shared or storage",
	} {
		if _, _, err := Parse(`{` + vllm + `, ` + more + `}`); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", more, err, want)
		}
	}
}
