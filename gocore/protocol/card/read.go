package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Limits of what a card may say, so that a broken one does no harm: a router has room for each rank.
const (
	maxRanks = 1024
	maxRank  = math.MaxInt32 // requests name a rank by 32 bits
)

// Parse reads the card of a worker. Members that are missing have the values that frontends take for them.
func Parse(text json.RawMessage) (Card, error) {
	c := Card{RuntimeConfig: RuntimeConfig{DataParallelSize: 1, EnableLocalIndexer: true}}
	if err := json.Unmarshal(text, &c); err != nil {
		return Card{}, fmt.Errorf("card: %w", err)
	}
	r := &c.RuntimeConfig
	switch {
	case c.DisplayName == "":
		return Card{}, errors.New("card: display_name: missing")
	case c.KVCacheBlockSize < 1:
		return Card{}, fmt.Errorf("card: kv_cache_block_size: got %d, want at least 1", c.KVCacheBlockSize)
	case r.DataParallelSize < 1 || r.DataParallelSize > maxRanks:
		return Card{}, fmt.Errorf("card: data_parallel_size: got %d, want 1 to %d", r.DataParallelSize, maxRanks)
	case r.DataParallelStartRank < 0 || r.DataParallelStartRank > maxRank-maxRanks:
		return Card{}, fmt.Errorf("card: data_parallel_start_rank: got %d, want 0 to %d", r.DataParallelStartRank,
			maxRank-maxRanks)
	case r.MaxNumBatchedTokens < 0:
		return Card{}, fmt.Errorf("card: max_num_batched_tokens: got %d, want at least 0", r.MaxNumBatchedTokens)
	}
	if c.WorkerType == "" {
		c.WorkerType = Aggregated
	}
	return c, nil
}

// LongestSequence returns the number of tokens that a prompt and its answer may have, 0 if the card names no limit.
func (c *Card) LongestSequence() int {
	longest := 0
	for _, limit := range []int{c.RuntimeConfig.ContextLength, c.MaxContextLength,
		c.RuntimeConfig.TotalKVBlocks * c.KVCacheBlockSize} {
		if limit > 0 && (longest == 0 || limit < longest) {
			longest = limit
		}
	}
	return longest
}

// files returns all files that the card names.
func (c *Card) files() []File {
	var all []File
	for _, named := range []map[string]File{c.Tokenizer, c.ModelInfo, c.PromptFormatter, c.GenConfig} {
		for _, f := range named { // at most one
			all = append(all, f)
		}
	}
	for _, t := range c.ChatTemplateFile {
		all = append(all, t.File)
	}
	return all
}

// Folder returns where this host has the files of the model: where the card says, or in the folder instead, which may
// be "", or in the Hugging Face cache. Files with another content than the card says are an error.
func (c *Card) Folder(instead, cache string) (string, error) {
	if len(c.Tokenizer) == 0 {
		return "", errors.New("the card names no tokenizer")
	}
	var folder string
	for i, f := range c.files() {
		path, err := f.find(instead, cache)
		if err != nil {
			return "", err
		}
		if i == 0 {
			folder = filepath.Dir(path)
		}
		if filepath.Dir(path) != folder {
			return "", fmt.Errorf("%s is not in the folder of the tokenizer, %s", path, folder)
		}
		own, err := describe(path)
		if err != nil {
			return "", err
		}
		if f.Checksum != "" && own.Checksum != f.Checksum {
			return "", fmt.Errorf("%s is another file than that of the worker, whose checksum is %s", path, f.Checksum)
		}
	}
	return folder, nil
}

// hub begins the place of a file on the Hugging Face hub.
const hub = "hf://"

// find returns where this host has a file.
func (f *File) find(instead, cache string) (string, error) {
	path := strings.TrimPrefix(f.Path, "file://")
	candidates := []string{path}
	if instead != "" {
		candidates = append(candidates, filepath.Join(instead, filepath.Base(path)))
	}
	if name, found := strings.CutPrefix(f.Path, hub); found {
		if folder, err := FindModel(filepath.Dir(name), cache); err == nil {
			candidates = append(candidates, filepath.Join(folder, filepath.Base(name)))
		}
	}
	for _, candidate := range candidates {
		if _, err := os.Stat(candidate); err == nil && filepath.IsAbs(candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s: %w on this host; give the folder of the model by model_path", f.Path, fs.ErrNotExist)
}

// EndTokens returns those with which the model in a folder ends its texts, as generation_config.json or config.json has
// them.
func EndTokens(folder string) []uint32 {
	for _, name := range []string{"generation_config.json", "config.json"} {
		var d struct {
			End json.RawMessage `json:"eos_token_id"`
		}
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || json.Unmarshal(text, &d) != nil {
			continue
		}
		var several []uint32
		if json.Unmarshal(d.End, &several) == nil && len(several) > 0 {
			return several
		}
		var one *uint32
		if json.Unmarshal(d.End, &one) == nil && one != nil {
			return []uint32{*one}
		}
	}
	return nil
}
