package card

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Checksums that frontends of ai-dynamo 1.3.1 compute.
func TestChecksum(t *testing.T) {
	file := func(kind, sum string) map[string]File { return map[string]File{kind: {Checksum: "blake3:" + sum}} }
	card := func(worker WorkerType, needs [][]WorkerType) *Card {
		return &Card{
			DisplayName:      "tiny",
			ModelInfo:        file("c", "733c4a571030a53edec3dbf5ade69d4fe7475b349bef1cb28d01eb5ce02acae2"),
			Tokenizer:        file("t", "0ede9571bc8e0b1c42ce36630d75e3518fb27c9ee17a46008de3dbf689fac9b9"),
			PromptFormatter:  file("p", "6fe720aee67c87b054f399f04cda143c34ef2db4107c7dff2bb47fe16bda4e45"),
			GenConfig:        file("g", "d7294c8ad1909b9f8d9e34ceab4dbb0ebf895899cb152735a060f8f6ff8618b9"),
			KVCacheBlockSize: 64, WorkerType: worker, Needs: needs,
		}
	}
	tests := []struct {
		card *Card
		want string
	}{
		{card(Aggregated, nil), "722b730b80d69e5b3fcd56435c707eaf085902344571ee609d740f3ebceaa712"},
		{card(Decode, [][]WorkerType{{Prefill}}), "7fb7d619e8cddd4efc249f3e7ecc1774c25ad6bf207a7141b730a8dd5579d882"},
	}
	for _, test := range tests {
		if got := test.card.Checksum(); got != test.want {
			t.Errorf("%s: got %s, want %s", test.card.WorkerType, got, test.want)
		}
	}
}

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{"/data/x/tiny": "data_x_tiny", "Qwen/Qwen3-0.6B": "qwen_qwen3-0_6b",
		"a_b": "a_b"} {
		if got := Slug(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func writeModel(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestNew(t *testing.T) {
	folder := writeModel(t, map[string]string{
		"config.json": `{"text_config": {"max_position_embeddings": 4096}}`, "tokenizer.json": "{}",
		"chat_template.jinja": "x",
	})
	c, err := New(Model{Folder: folder, DisplayName: "tiny", BlockSize: 16, Ranks: 2, WorkerType: Aggregated})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(c.JSON(), &got); err != nil {
		t.Fatal(err)
	}
	if got["architectural_max_context_length"] != 4096.0 || got["gen_config"] != nil || len(got["needs"].([]any)) != 0 {
		t.Errorf("got %v", got)
	}
	// BLAKE3 of "{}".
	tokenizer := c.Tokenizer["hf_tokenizer_json"]
	if tokenizer.Size != 2 || !strings.HasPrefix(tokenizer.Checksum, "blake3:") || !filepath.IsAbs(tokenizer.Path) {
		t.Errorf("got %+v", tokenizer)
	}
	for _, name := range []string{"config.json", "tokenizer.json"} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Model{Folder: folder}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: got %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindModel(t *testing.T) {
	cache := t.TempDir()
	snapshot := filepath.Join(cache, "models--org--tiny", "snapshots", "abc")
	refs := filepath.Join(cache, "models--org--tiny", "refs")
	for _, folder := range []string{snapshot, refs} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(refs, "main"), []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"HF_HUB_CACHE": cache}[name] }
	for path, want := range map[string]string{cache: cache, "org/tiny": snapshot, "org/none": "", "/no/where": "",
		filepath.Join(refs, "main"): ""} {
		got, err := FindModel(path, HubCache(getenv))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
}

func TestKVBytesPerToken(t *testing.T) {
	const base = `"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32`
	tests := []struct {
		config, dtype string
		want          int
	}{
		{base + `, "num_key_value_heads": 8, "torch_dtype": "bfloat16"`, "auto", 131072},
		{base + `, "num_key_value_heads": 8, "torch_dtype": "bfloat16"`, "fp8_e4m3", 65536},
		{base + `, "num_key_value_heads": 8, "torch_dtype": "bfloat16"`, "fp8_e5m2", 65536},
		{base + `, "num_key_value_heads": 8, "dtype": "torch.float32"`, "auto", 262144},
		{base + `, "num_key_value_heads": 8`, "auto", 131072},
		{base + `, "num_key_value_heads": 8, "head_dim": 256`, "auto", 262144},
		{base, "auto", 524288},
		{`"num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128`,
			"auto", 114688},
		{`"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2`, "bfloat16",
			256},
		{`"num_hidden_layers": 2, "hidden_size": 4100, "num_attention_heads": 32`, "auto", 0},
		{`"hidden_size": 64`, "auto", 0},
	}
	for _, test := range tests {
		folder := writeModel(t, map[string]string{"config.json": "{" + test.config + "}"})
		got, err := KVBytesPerToken(folder, test.dtype)
		if got != test.want || (err == nil) != (test.want != 0) {
			t.Errorf("%s, %s: got %d, %v, want %d", test.config, test.dtype, got, err, test.want)
		}
	}
}

// FuzzConfig: the files of a model come from anywhere.
func FuzzConfig(f *testing.F) {
	f.Add(`{"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}`, `{"model_max_length": 1e30}`)
	f.Add(`{"text_config": {"max_position_embeddings": 5}}`, `[]`)
	f.Fuzz(func(t *testing.T, config, tokenizer string) {
		folder := writeModel(t, map[string]string{"config.json": config, "tokenizer_config.json": tokenizer})
		if n, err := MaxContextLength(folder); err == nil && n < 0 {
			t.Errorf("context of %d tokens", n)
		}
		if n, err := KVBytesPerToken(folder, "auto"); err == nil && n < 0 {
			t.Errorf("%d bytes for a token", n)
		}
	})
}
