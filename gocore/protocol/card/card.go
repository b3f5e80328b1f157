package card

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"
)

// Card is the document that frontends read, as JSON.
type Card struct {
	DisplayName      string                  `json:"display_name"`
	Slug             string                  `json:"slug"`
	SourcePath       string                  `json:"source_path,omitempty"` // where the model is, for 1.6
	ModelInfo        map[string]File         `json:"model_info"`
	Tokenizer        map[string]File         `json:"tokenizer"`
	PromptFormatter  map[string]File         `json:"prompt_formatter,omitempty"`
	ChatTemplateFile map[string]ChatTemplate `json:"chat_template_file,omitempty"`
	GenConfig        map[string]File         `json:"gen_config,omitempty"`
	MaxContextLength int                     `json:"architectural_max_context_length,omitempty"`
	ContextLength    int                     `json:"context_length"` // 0: no limit
	KVCacheBlockSize int                     `json:"kv_cache_block_size"`
	MigrationLimit   int                     `json:"migration_limit"`
	ModelType        string                  `json:"model_type"`
	ModelInput       string                  `json:"model_input"`
	WorkerType       WorkerType              `json:"worker_type"`
	Needs            [][]WorkerType          `json:"needs"`
	RuntimeConfig    RuntimeConfig           `json:"runtime_config"`
	MediaDecoder     *struct{}               `json:"media_decoder"`
	MediaFetcher     *struct{}               `json:"media_fetcher"`
}

// File names a file and its checksum.
type File struct {
	Path     string `json:"path"`
	Checksum string `json:"checksum"` // "blake3:" and hexadecimal digits
	Size     int64  `json:"size"`
}

// ChatTemplate is a template in a file of its own.
type ChatTemplate struct {
	IsCustom bool `json:"is_custom"`
	File     File `json:"file"`
}

// WorkerType is the part of a request's life that a worker serves.
type WorkerType string

// Aggregated workers serve all of it.
const (
	Aggregated WorkerType = "aggregated"
	Prefill    WorkerType = "prefill"
	Decode     WorkerType = "decode"
)

// RuntimeConfig is what a router needs to know about the engine.
type RuntimeConfig struct {
	ContextLength            int     `json:"context_length"` // 0: no limit
	TotalKVBlocks            int     `json:"total_kv_blocks"`
	MaxNumSeqs               int     `json:"max_num_seqs"`
	MaxNumBatchedTokens      int     `json:"max_num_batched_tokens"`
	ToolCallParser           *string `json:"tool_call_parser"`
	ReasoningParser          *string `json:"reasoning_parser"`
	ToolCallArgumentsFormat  string  `json:"tool_call_arguments_format,omitempty"`
	StructuralTagMode        string  `json:"structural_tag_mode"`
	StructuralTagScope       string  `json:"structural_tag_scope"`
	StructuralTagSchema      string  `json:"structural_tag_schema"`
	ExcludeToolsWhenNoChoice bool    `json:"exclude_tools_when_tool_choice_none"`
	DataParallelStartRank    int     `json:"data_parallel_start_rank"`
	DataParallelSize         int     `json:"data_parallel_size"`
	EnableLocalIndexer       bool    `json:"enable_local_indexer"`
	// PublishesKVEvents tells routers of 1.6 whether to look for KV events; cards of 1.3 do not say it.
	PublishesKVEvents *bool       `json:"kv_event_publishing_enabled,omitempty"`
	RuntimeData       RuntimeData `json:"runtime_data"`
	EnableEagle       bool        `json:"enable_eagle"`
	// DisaggregatedEndpoint is the address for hand-offs of a prefill worker; nil if it has none.
	DisaggregatedEndpoint *DisaggregatedEndpoint `json:"disaggregated_endpoint,omitempty"`
}

// DisaggregatedEndpoint is the address at which decode workers reach a prefill worker.
type DisaggregatedEndpoint struct {
	Host string `json:"bootstrap_host"`
	Port int    `json:"bootstrap_port"`
}

// RuntimeData tells frontends that annotations with planned outputs are understood.
type RuntimeData struct {
	OutputReplayConsumer bool `json:"output_replay_consumer"`
}

// Model is what a card is made from.
type Model struct {
	Folder              string
	DisplayName         string
	BlockSize           int
	TotalKVBlocks       int
	MaxNumSeqs          int
	MaxNumBatchedTokens int
	Ranks               int
	LocalIndexer        bool
	KVEvents            bool // it publishes some
	WorkerType          WorkerType
	// Hub is the name of the model on the Hugging Face hub, if Folder is from there: frontends get the files by it.
	// Otherwise the card names Folder, and that of 1.6, unlike that of 1.3, once more as Source.
	Hub, Source string
}

// kinds lists for each type of worker what frontends may use it for, and which other workers it needs.
var kinds = map[WorkerType]struct {
	modelType string
	needs     [][]WorkerType
}{
	Aggregated: {"Chat | Completions", [][]WorkerType{}},
	Prefill:    {"", [][]WorkerType{{Decode}}},
	Decode:     {"Chat | Completions", [][]WorkerType{{Prefill}}},
}

// New makes the card of a worker from the files in the folder of a model: config.json and tokenizer.json must be there.
func New(m Model) (Card, error) {
	c := Card{
		DisplayName:      m.DisplayName,
		Slug:             Slug(m.DisplayName),
		SourcePath:       m.Source,
		KVCacheBlockSize: m.BlockSize,
		ModelType:        kinds[m.WorkerType].modelType,
		ModelInput:       "Tokens",
		WorkerType:       m.WorkerType,
		Needs:            kinds[m.WorkerType].needs,
		RuntimeConfig: RuntimeConfig{
			TotalKVBlocks:            m.TotalKVBlocks,
			MaxNumSeqs:               m.MaxNumSeqs,
			MaxNumBatchedTokens:      m.MaxNumBatchedTokens,
			StructuralTagMode:        "off",
			StructuralTagScope:       "auto",
			StructuralTagSchema:      "auto",
			ExcludeToolsWhenNoChoice: true,
			ToolCallArgumentsFormat:  "json_string",
			PublishesKVEvents:        &m.KVEvents,
			DataParallelSize:         m.Ranks,
			EnableLocalIndexer:       m.LocalIndexer,
			RuntimeData:              RuntimeData{OutputReplayConsumer: true},
		},
	}
	if err := c.addFiles(m.Folder, m.Hub); err != nil {
		return Card{}, err
	}
	if m.Hub != "" {
		c.SourcePath = m.Hub
	}
	length, err := MaxContextLength(m.Folder)
	c.MaxContextLength = length
	return c, err
}

// addFiles names the files in a folder, by their place on the hub if it is from there.
func (c *Card) addFiles(folder, name string) error {
	describe := func(file string) (File, error) {
		f, err := describe(filepath.Join(folder, file))
		if name != "" {
			f.Path = hub + name + "/" + file
		}
		return f, err
	}
	for _, f := range []struct {
		name, kind string
		required   bool
		into       *map[string]File
	}{
		{"config.json", "hf_config_json", true, &c.ModelInfo},
		{"tokenizer.json", "hf_tokenizer_json", true, &c.Tokenizer},
		{"tokenizer_config.json", "hf_tokenizer_config_json", false, &c.PromptFormatter},
		{"generation_config.json", "hf_generation_config_json", false, &c.GenConfig},
	} {
		file, err := describe(f.name)
		switch {
		case err == nil:
			*f.into = map[string]File{f.kind: file}
		case f.required || !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	file, err := describe("chat_template.jinja")
	if err == nil {
		c.ChatTemplateFile = map[string]ChatTemplate{"hf_chat_template": {File: file}}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// describe hashes a file. Frontends on the same host read it again under its absolute path.
func describe(path string) (File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return File{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	hash := blake3.New()
	size, err := io.Copy(hash, f)
	if err != nil {
		return File{}, err
	}
	return File{Path: path, Checksum: "blake3:" + hex.EncodeToString(hash.Sum(nil)), Size: size}, nil
}

// Slug returns a name in which frontends see only letters, digits, hyphens and underscores.
func Slug(name string) string {
	slug := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
	return strings.TrimLeft(slug, "_")
}

// JSON returns the card as it is published.
func (c *Card) JSON() json.RawMessage {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("card: %v", err)) // it is all plain values
	}
	return text
}
