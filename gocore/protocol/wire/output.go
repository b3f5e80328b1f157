package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// Output is a piece of a generated answer. It may have tokens without their text, because frontends have the tokenizer,
// too.
type Output struct {
	TokenIDs []uint32
	Tokens   []string
	Text     *string
	Finish   Finish
	// DisaggregatedParams are what a prefill worker sends to the decode worker through the frontend; "" for nothing.
	DisaggregatedParams string
	// Usage is what the request has taken so far; nil if the piece does not say. Workers say it with the first token
	// and at the end.
	Usage *Usage
}

// Usage counts the tokens of a request.
type Usage struct {
	Prompt, Completion int
	Cached             int // of the prompt, found in the cache
}

// Finish is why an answer has ended. The zero value means that it has not.
type Finish struct {
	Reason string // FinishLength, FinishStop, FinishEOS or FinishError
	Error  string // of FinishError
}

// Reasons of a Finish.
const (
	FinishLength = "length"
	FinishStop   = "stop"
	FinishEOS    = "eos"
	FinishError  = "error"
)

// AppendOutput appends a message with a piece of the answer.
func AppendOutput(dst []byte, codec Codec, o Output) []byte {
	return appendBody(dst, func(dst []byte) []byte {
		if codec == MessagePack {
			dst = msgp.AppendMapHeader(dst, 2)
			dst = msgp.AppendString(dst, "data")
			dst = PackItem(dst, o)
			dst = msgp.AppendString(dst, "complete_final")
			return msgp.AppendBool(dst, false)
		}
		dst = append(dst, `{"data":`...)
		dst = AppendItem(dst, o)
		return append(dst, `,"complete_final":false}`...)
	})
}

// AppendItem appends the JSON of an output as an item of a stream, without the wrapper that the response stream needs.
func AppendItem(dst []byte, o Output) []byte {
	dst = append(dst, `{"data":{"token_ids":[`...)
	for i, id := range o.TokenIDs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	dst = append(dst, `],"tokens":[`...)
	for i, text := range o.Tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, text)
	}
	dst = append(dst, `],"text":`...)
	if o.Text == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendText(dst, *o.Text)
	}
	dst = append(dst, `,"cum_log_probs":null,"log_probs":null,"top_logprobs":null,"finish_reason":`...)
	switch o.Finish.Reason {
	case "":
		dst = append(dst, "null"...)
	case FinishError:
		dst = append(dst, `{"error":`...)
		dst = append(appendText(dst, o.Finish.Error), '}')
	default:
		dst = appendText(dst, o.Finish.Reason)
	}
	dst = append(dst, `,"index":null`...)
	if o.DisaggregatedParams != "" {
		dst = append(dst, `,"disaggregated_params":`...)
		dst = appendText(dst, o.DisaggregatedParams)
	}
	if u := o.Usage; u != nil {
		dst = strconv.AppendInt(append(dst, `,"completion_usage":{"prompt_tokens":`...), int64(u.Prompt), 10)
		dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(u.Completion), 10)
		dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(u.Prompt+u.Completion), 10)
		dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"audio_tokens":null,"cached_tokens":`...),
			int64(u.Cached), 10)
		dst = append(dst, "}}"...)
	}
	return append(dst, "}}"...)
}

func appendText(dst []byte, text string) []byte {
	quoted, _ := json.Marshal(text)
	return append(dst, quoted...)
}

// PackItem does what AppendItem does, in MessagePack.
func PackItem(dst []byte, o Output) []byte {
	dst = msgp.AppendMapHeader(dst, 1)
	dst = msgp.AppendString(dst, "data")
	members := uint32(8)
	if o.DisaggregatedParams != "" {
		members++
	}
	if o.Usage != nil {
		members++
	}
	dst = msgp.AppendMapHeader(dst, members)
	dst = msgp.AppendString(dst, "token_ids")
	dst = msgp.AppendArrayHeader(dst, uint32(len(o.TokenIDs)))
	for _, id := range o.TokenIDs {
		dst = msgp.AppendUint32(dst, id)
	}
	dst = msgp.AppendString(dst, "tokens")
	dst = msgp.AppendArrayHeader(dst, uint32(len(o.Tokens)))
	for _, text := range o.Tokens {
		dst = msgp.AppendString(dst, text)
	}
	dst = msgp.AppendString(dst, "text")
	if o.Text == nil {
		dst = msgp.AppendNil(dst)
	} else {
		dst = msgp.AppendString(dst, *o.Text)
	}
	for _, name := range []string{"cum_log_probs", "log_probs", "top_logprobs"} {
		dst = msgp.AppendNil(msgp.AppendString(dst, name))
	}
	dst = msgp.AppendString(dst, "finish_reason")
	switch o.Finish.Reason {
	case "":
		dst = msgp.AppendNil(dst)
	case FinishError:
		dst = msgp.AppendString(msgp.AppendMapHeader(dst, 1), "error")
		dst = msgp.AppendString(dst, o.Finish.Error)
	default:
		dst = msgp.AppendString(dst, o.Finish.Reason)
	}
	dst = msgp.AppendNil(msgp.AppendString(dst, "index"))
	if o.DisaggregatedParams != "" {
		dst = msgp.AppendString(dst, "disaggregated_params")
		dst = msgp.AppendString(dst, o.DisaggregatedParams)
	}
	if u := o.Usage; u != nil {
		dst = msgp.AppendMapHeader(msgp.AppendString(dst, "completion_usage"), 4)
		dst = msgp.AppendInt(msgp.AppendString(dst, "prompt_tokens"), u.Prompt)
		dst = msgp.AppendInt(msgp.AppendString(dst, "completion_tokens"), u.Completion)
		dst = msgp.AppendInt(msgp.AppendString(dst, "total_tokens"), u.Prompt+u.Completion)
		dst = msgp.AppendMapHeader(msgp.AppendString(dst, "prompt_tokens_details"), 2)
		dst = msgp.AppendNil(msgp.AppendString(dst, "audio_tokens"))
		dst = msgp.AppendInt(msgp.AppendString(dst, "cached_tokens"), u.Cached)
	}
	return dst
}

// Problem is the error of a request that has failed after it was accepted. The code is an HTTP status.
type Problem struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    int    `json:"code"`
}

// AppendProblem appends a message with an item that is an error instead of data. The request fails with it, even after
// tokens. If nothing was sent before, frontends pass the problem on to the client unchanged.
func AppendProblem(dst []byte, codec Codec, p Problem) []byte {
	return appendBody(dst, func(dst []byte) []byte {
		p.Message = strings.ToValidUTF8(p.Message, "\uFFFD")
		comment, _ := json.Marshal(p)
		return appendWrapped(dst, codec, errorItem{"error", []string{string(comment)}})
	})
}

type errorItem struct {
	Event   string   `json:"event"`
	Comment []string `json:"comment"`
}

// AppendData appends a message with any item, which is encoded by its JSON tags.
func AppendData(dst []byte, codec Codec, item any) []byte {
	return appendBody(dst, func(dst []byte) []byte { return appendWrapped(dst, codec, item) })
}

func appendWrapped(dst []byte, codec Codec, item any) []byte {
	body, err := Encode(codec, item)
	if err != nil {
		panic(err) // items are plain values of our own
	}
	if codec == MessagePack {
		dst = msgp.AppendString(msgp.AppendMapHeader(dst, 2), "data")
		dst = append(dst, body...)
		return msgp.AppendBool(msgp.AppendString(dst, "complete_final"), false)
	}
	dst = append(append(dst, `{"data":`...), body...)
	return append(dst, `,"complete_final":false}`...)
}

// AppendFinal appends the message after the last item, which says that the answer is complete.
func AppendFinal(dst []byte, codec Codec) []byte {
	return appendBody(dst, func(dst []byte) []byte {
		if codec == MessagePack {
			return msgp.AppendBool(msgp.AppendString(msgp.AppendMapHeader(dst, 1), "complete_final"), true)
		}
		return append(dst, `{"complete_final":true}`...)
	})
}

// Chunk is the body of a data message as a frontend sees it.
type Chunk struct {
	Output *Output
	Error  string // message of an error item
	Code   int    // its HTTP status, 0 if it has none
	Final  bool
}

type chunkBody struct {
	Data          *chunkItem `json:"data"`
	CompleteFinal bool       `json:"complete_final"`
}

type chunkItem struct {
	Data    *chunkOutput `json:"data"`
	Event   string       `json:"event"`
	Comment []string     `json:"comment"`
}

type chunkOutput struct {
	TokenIDs     []uint32 `json:"token_ids"`
	Tokens       []string `json:"tokens"`
	Text         *string  `json:"text"`
	FinishReason any      `json:"finish_reason"`

	DisaggregatedParams string `json:"disaggregated_params"`

	Usage *chunkUsage `json:"completion_usage"`
}

type chunkUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// usage returns nil if nothing is said about the cache.
func (u *chunkUsage) usage() *Usage {
	if u == nil || u.Details.Cached == nil {
		return nil
	}
	return &Usage{Prompt: u.Prompt, Completion: u.Completion, Cached: *u.Details.Cached}
}

// DecodeChunk reads the body of a data message.
func DecodeChunk(codec Codec, body []byte) (Chunk, error) {
	var b chunkBody
	if err := Decode(codec, body, &b); err != nil {
		return Chunk{}, fmt.Errorf("chunk: %w", err)
	}
	c := Chunk{Final: b.CompleteFinal}
	switch {
	case b.Data == nil:
		return c, nil
	case b.Data.Event == "error":
		c.Error = "error"
		if len(b.Data.Comment) > 0 {
			c.Error = b.Data.Comment[0]
			var p Problem
			if json.Unmarshal([]byte(c.Error), &p) == nil && p.Message != "" {
				c.Error, c.Code = p.Message, p.Code
			}
		}
		return c, nil
	case b.Data.Data == nil:
		return c, nil
	}
	o := b.Data.Data
	finish, err := decodeFinish(o.FinishReason)
	if err != nil {
		return Chunk{}, fmt.Errorf("chunk: %w", err)
	}
	c.Output = &Output{
		TokenIDs: o.TokenIDs, Tokens: o.Tokens, Text: o.Text, Finish: finish,
		DisaggregatedParams: o.DisaggregatedParams, Usage: o.Usage.usage(),
	}
	return c, nil
}

func decodeFinish(v any) (Finish, error) {
	switch v := v.(type) {
	case nil:
		return Finish{}, nil
	case string:
		return Finish{Reason: v}, nil
	case map[string]any:
		if text, ok := v["error"].(string); ok {
			return Finish{Reason: FinishError, Error: text}, nil
		}
	}
	return Finish{}, errors.New("finish_reason: want a word or an error")
}
