package card

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/blake3"
)

// workerTypes are the bytes that stand for worker types in a checksum.
var workerTypes = map[WorkerType]byte{Prefill: 1, Decode: 2, Aggregated: 4}

// Checksum is the identity of the card, BLAKE3 of what makes it up: a frontend refuses a worker that joins others of the
// same model with another one. Nothing that differs between workers may go into it.
func (c *Card) Checksum() string {
	h := blake3.New()
	text := func(s string) { _, _ = h.WriteString(s) }
	number := func(n int) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n))
		_, _ = h.Write(b[:])
	}
	text(c.DisplayName)
	for _, files := range []map[string]File{c.ModelInfo, c.Tokenizer, c.PromptFormatter} {
		for _, f := range files { // one at most
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
