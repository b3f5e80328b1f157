// Package tokens turns text into tokens and back for one model: Bytes needs no files, Folder uses the tokenizer and the
// chat template in the folder of a model.
package tokens

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Tokenizer is the tokenizer of one model. It may be used from several goroutines. A context bounds the wait for
// helpers; an error of type *InputError is the fault of the text.
type Tokenizer interface {
	// Prompt returns the tokens of a text that a client sends as a prompt; special says whether the tokens with which
	// prompts of this model begin are added.
	Prompt(ctx context.Context, text string, special bool) ([]uint32, error)
	// Chat returns the tokens of a conversation.
	Chat(ctx context.Context, c Chat) ([]uint32, error)
	// Text returns the text that tokens stand for.
	Text(tokens []uint32) (string, error)
	// Answer returns the tokens of a text that the model is to say.
	Answer(ctx context.Context, text string) (Spoken, error)
	// Draw makes up n tokens of text. Equal seeds give equal text.
	Draw(n int, seed uint64) Spoken
	// Decoder returns a decoder of one text that arrives, and that goes on after the tokens of a prompt. special says
	// whether special tokens are part of the text.
	Decoder(prompt []uint32, special bool) Decoder
	// Size is the number of tokens in the vocabulary: every token is below it.
	Size() int
	// Name returns how the tokenizer calls a token.
	Name(token uint32) string
	// Info describes the tokenizer to clients.
	Info() (Info, error)
	// Close ends helpers.
	Close()
}

// Decoder makes text of tokens that arrive. One goroutine uses it.
//
// All that Push and Close return, one after the other, is the text of all tokens at once, in whatever pieces they come.
type Decoder interface {
	// Push takes the next tokens and returns the text that is certain now, never a part of a character. Tokens that the
	// model does not have say nothing.
	Push(tokens []uint32) string
	// Close returns the text that was not certain before all tokens had come. Nothing may be pushed afterwards.
	Close() string
}

// Chat is a conversation whose next message the model is to write.
type Chat struct {
	Messages []Message `json:"messages"`
	// Tools, ToolCalls and Extra are as the client has sent them.
	Tools []jsontext.Value `json:"tools,omitempty"`
	// Generate says whether the tokens that begin the next message are added.
	Generate bool           `json:"add_generation_prompt"`
	Extra    jsontext.Value `json:"chat_template_kwargs,omitempty"`
	// Images stand as marks in the contents of messages.
	Images []Image `json:"-"`
}

// Image is an image in a conversation.
type Image struct {
	Mark   string `json:"mark"`
	Tokens int    `json:"tokens"`
	Seed   uint64 `json:"-"` // of its tokens: equal images have equal ones
}

// fill puts tokens of images between the pieces of a conversation, of which there is one more. Tokens are below size.
func fill(pieces [][]uint32, images []Image, size int) []uint32 {
	all := pieces[0]
	for i, img := range images {
		rng := rand.New(rand.NewPCG(img.Seed, 0))
		for range img.Tokens {
			all = append(all, uint32(rng.IntN(size)))
		}
		all = append(all, pieces[i+1]...)
	}
	return all
}

// Message is one message of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Name    string `json:"name,omitempty"`

	ToolCalls  []jsontext.Value `json:"tool_calls,omitempty"`
	ToolCallID string           `json:"tool_call_id,omitempty"`
}

// Spoken is text and the tokens that it consists of.
type Spoken struct {
	Tokens []uint32
	Text   string
	// Ends has for each token the length of the text that is known with it. A token that is only a part of a character
	// adds nothing; the last part adds the whole character.
	Ends []int32
}

// Cut returns the first n tokens.
func (s Spoken) Cut(n int) Spoken {
	if n >= len(s.Tokens) {
		return s
	}
	end := int32(0)
	if n > 0 {
		end = s.Ends[n-1]
	}
	return Spoken{s.Tokens[:n], s.Text[:end], s.Ends[:n]}
}

// Repeat returns the same again and again, n tokens in all. There must be tokens.
func (s Spoken) Repeat(n int) Spoken {
	times := (n + len(s.Tokens) - 1) / len(s.Tokens)
	if times <= 1 {
		return s.Cut(n)
	}
	all := Spoken{
		Tokens: slices.Repeat(s.Tokens, times), Text: strings.Repeat(s.Text, times), Ends: slices.Repeat(s.Ends, times),
	}
	for i := range all.Ends {
		all.Ends[i] += int32(i / len(s.Ends) * len(s.Text))
	}
	return all.Cut(n)
}

// InputError is what is wrong with a text or a conversation.
type InputError struct{ Reason string }

func (e *InputError) Error() string { return e.Reason }

func inputError(format string, args ...any) error {
	return &InputError{fmt.Sprintf(format, args...)}
}

// valid returns a text in which bytes that are no UTF-8 have become replacement characters.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
