package tokens

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/detokenize"
)

// BuiltinBytes is the name by which users ask for Bytes.
const BuiltinBytes = "builtin:bytes"

// The tokens of Bytes beyond the 256 bytes.
const (
	beginOfText = 256 + iota
	endOfText
	messageStart
	messageEnd
	bytesSize
)

// specialTexts are how special tokens look as text.
var specialTexts = map[uint32]string{
	beginOfText: "<|begin_of_text|>", endOfText: "<|end_of_text|>", messageStart: "<|im_start|>",
	messageEnd: "<|im_end|>",
}

// Bytes is the tokenizer that needs no files: a token is a byte. A conversation is written with four tokens of its own:
//
//	<|im_start|>user
//	Hello<|im_end|>
//	<|im_start|>assistant
type Bytes struct{}

var _ Tokenizer = Bytes{}

// Prompt implements [Tokenizer].
func (Bytes) Prompt(_ context.Context, text string, special bool) ([]uint32, error) {
	tokens := make([]uint32, 0, len(text)+1)
	if special {
		tokens = append(tokens, beginOfText)
	}
	return appendBytes(tokens, text), nil
}

func appendBytes(tokens []uint32, text string) []uint32 {
	for i := range len(text) {
		tokens = append(tokens, uint32(text[i]))
	}
	return tokens
}

// Chat implements [Tokenizer].
func (Bytes) Chat(_ context.Context, c Chat) ([]uint32, error) {
	size := 16
	for i := range c.Messages {
		size += len(c.Messages[i].Role) + len(c.Messages[i].Content) + 4
	}
	tokens := make([]uint32, 1, size)
	tokens[0] = beginOfText
	if len(c.Tools) > 0 {
		tokens = appendMessage(tokens, "tools", joined(c.Tools))
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		tokens = appendMessage(tokens, m.Role, m.Content+joined(m.ToolCalls))
	}
	if c.Generate {
		tokens = append(tokens, messageStart)
		tokens = appendBytes(tokens, "assistant\n")
	}
	if len(c.Images) > 0 {
		return fill(splitAt(tokens, c.Images), c.Images, 256), nil
	}
	return tokens, nil
}

// splitAt returns the tokens between the marks of images, which there are in this order.
func splitAt(all []uint32, images []Image) (pieces [][]uint32) {
	for _, img := range images {
		mark := appendBytes(nil, img.Mark)
		at := 0
		for !slices.Equal(all[at:at+len(mark)], mark) {
			at++
		}
		pieces = append(pieces, slices.Clip(all[:at]))
		all = all[at+len(mark):]
	}
	return append(pieces, all)
}

// joined returns JSON values one after the other.
func joined(values []jsontext.Value) string {
	var text strings.Builder
	for _, v := range values {
		text.Write(v)
	}
	return text.String()
}

func appendMessage(tokens []uint32, role, content string) []uint32 {
	tokens = append(tokens, messageStart)
	tokens = appendBytes(tokens, role)
	tokens = append(tokens, '\n')
	tokens = appendBytes(tokens, content)
	return append(tokens, messageEnd, '\n')
}

// Text implements [Tokenizer]. Bytes that are no UTF-8 become replacement characters.
func (b Bytes) Text(tokens []uint32) (string, error) {
	for _, token := range tokens {
		if token >= bytesSize {
			return "", inputError("tokens: got %d, want numbers below %d", token, bytesSize)
		}
	}
	d := b.Decoder(nil, true)
	return d.Push(tokens) + d.Close(), nil
}

// Decoder implements [Tokenizer].
func (Bytes) Decoder(_ []uint32, special bool) Decoder { return &bytesDecoder{special: special} }

// bytesDecoder is the decoder of Bytes.
type bytesDecoder struct {
	special bool
	valid   detokenize.Valid
	buffer  []byte
}

// Push implements [Decoder].
func (d *bytesDecoder) Push(tokens []uint32) string {
	d.buffer = d.buffer[:0]
	for _, token := range tokens {
		if token < 256 {
			d.buffer = d.valid.Append(d.buffer, byte(token))
		} else if text := specialTexts[token]; d.special && text != "" {
			d.buffer = append(d.valid.End(d.buffer), text...)
		}
	}
	return string(d.buffer)
}

// Close implements [Decoder].
func (d *bytesDecoder) Close() string { return string(d.valid.End(nil)) }

// Answer implements [Tokenizer].
func (Bytes) Answer(_ context.Context, text string) (Spoken, error) {
	return spell(valid(text)), nil
}

// spell makes a token of each byte of a valid text.
func spell(text string) Spoken {
	s := Spoken{Tokens: appendBytes(make([]uint32, 0, len(text)), text), Text: text, Ends: make([]int32, len(text))}
	complete := 0
	for i := range len(text) {
		if i+1 == len(text) || utf8.RuneStart(text[i+1]) {
			complete = i + 1
		}
		s.Ends[i] = int32(complete)
	}
	return s
}

// words are what texts are made up of.
var words = strings.Fields(`the a one this that every some time way day thing world life hand part place case week
company system program question work government number night point home water room mother area money story fact
month lot right study book eye job word business issue side kind head house service friend father power hour game
line end member law car city community name president team minute idea kid body information back parent face others
level office door health person art war history party result change morning reason research girl guy moment air
teacher force education foot boy age policy music mind process is was has had said made found used may can will
would went came saw knew took got gave of in to for with on by from at about as into like through after over between
out against during without before under around among and but or so if when than because`)

// ring is text from which answers of Bytes are cut, made when the first one is.
var ring = sync.OnceValue(func() string {
	const size = 1 << 16
	rng := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for text.Len() < size {
		text.WriteString(words[rng.IntN(len(words))])
		text.WriteByte(' ')
	}
	return text.String()[:size]
})

// Draw implements [Tokenizer].
func (Bytes) Draw(n int, seed uint64) Spoken {
	ring := ring()
	var text strings.Builder
	text.Grow(n)
	from := wordAt(ring, int(seed%uint64(len(ring))))
	for text.Len() < n {
		text.WriteString(ring[from:min(len(ring), from+n-text.Len())])
		from = 0
	}
	return spell(text.String())
}

// wordAt returns where the first word begins at a place of the ring or after it.
func wordAt(ring string, place int) int {
	if i := strings.IndexByte(ring[place:], ' '); i >= 0 {
		return (place + i + 1) % len(ring)
	}
	return 0
}

// Size implements [Tokenizer].
func (Bytes) Size() int { return bytesSize }

// Name implements [Tokenizer].
func (Bytes) Name(token uint32) string {
	switch {
	case token < utf8.RuneSelf:
		return string(rune(token))
	case token < 256:
		return fmt.Sprintf("<0x%02X>", token)
	default:
		return specialTexts[token]
	}
}

// Close implements [Tokenizer].
func (Bytes) Close() {}
