package card

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/blake3"
)

// workerTypes are the bytes that stand for worker types in a checksum.
var workerTypes = map[WorkerType]byte{Prefill: 1, Decode: 2, Aggregated: 4}

// Checksum returns the identity of the card, the BLAKE3 hash of its content. A frontend refuses a worker whose checksum
// differs from that of other workers of the same model, so nothing that differs between workers may be part of it.
func (c *Card) Checksum() string {
	h := blake3.New()
	text := func(s string) { _, _ = h.WriteString(s) }
	number := func(n int) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n))
		_, _ = h.Write(b[:])
	}
	text(c.DisplayName)
	text(c.SourcePath)
	for _, files := range []map[string]File{c.ModelInfo, c.Tokenizer, c.PromptFormatter} {
		for _, f := range files { // at most one
			text(f.Checksum)
		}
	}
	for _, t := range c.ChatTemplateFile {
		text(t.File.Checksum)
	}
	for _, f := range c.GenConfig {
		text(f.Checksum)
	}
	number(c.RuntimeConfig.ContextLength)
	number(c.KVCacheBlockSize)
	_, _ = h.Write([]byte{workerTypes[c.WorkerType]})
	number(len(c.Needs))
	for _, alternative := range c.Needs {
		number(len(alternative))
		for _, t := range alternative {
			_, _ = h.Write([]byte{workerTypes[t]})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
