package detokenize

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// stage is one decoder of a chain. Each token begins, has parts, each of them valid text, and ends; after the last one
// comes close.
type stage interface {
	// feed sets the stage that gets the result.
	feed(next stage)
	begin()
	part(text string)
	end()
	close()
}

// whole hands on a token that is complete.
func whole(to stage, text string) {
	to.begin()
	to.part(text)
	to.end()
}

// link holds the next stage; all stages embed it.
type link struct{ next stage }

func (l *link) feed(next stage) { l.next = next }

// settings are the keys of all kinds of decoders.
type settings struct {
	Type        string           `json:"type"`
	Decoders    []jsontext.Value `json:"decoders"`
	Pattern     jsontext.Value   `json:"pattern"`
	Content     string           `json:"content"`
	Start       int              `json:"start"`
	Stop        int              `json:"stop"`
	Prefix      *string          `json:"prefix"`
	Cleanup     *bool            `json:"cleanup"`
	Suffix      *string          `json:"suffix"`
	Replacement string           `json:"replacement"`
	Prepend     string           `json:"prepend_scheme"`
	AddPrefix   *bool            `json:"add_prefix_space"`
	Pad         *string          `json:"pad_token"`
	Delimiter   *string          `json:"word_delimiter_token"`
}

// parseChain reads a decoder, which may be a sequence of others. Without one tokens are words.
func parseChain(text jsontext.Value) ([]func() stage, error) {
	if len(text) == 0 || text.Kind() == 'n' {
		return []func() stage{func() stage { return &words{} }}, nil
	}
	var s settings
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.Type != "Sequence" {
		one, err := s.stage()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Type, err)
		}
		return []func() stage{one}, nil
	}
	var all []func() stage
	for _, inner := range s.Decoders {
		if inner.Kind() != '{' {
			return nil, errors.New("decoders: want objects")
		}
		some, err := parseChain(inner)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// stage returns a constructor of the stage of a decoder. Each stream of tokens gets a stage of its own.
func (s *settings) stage() (func() stage, error) {
	switch s.Type {
	case "ByteLevel":
		return func() stage { return &byteLevel{} }, nil
	case "ByteFallback":
		return func() stage { return &byteFallback{} }, nil
	case "Fuse":
		return func() stage { return &fuse{} }, nil
	case "Metaspace":
		return s.metaspace()
	case "Replace":
		return s.replace()
	case "Strip":
		return s.strip()
	case "WordPiece":
		prefix, cleanup := or(s.Prefix, "##"), s.Cleanup == nil || *s.Cleanup
		return func() stage { return &wordPiece{prefix: prefix, cleanup: cleanup} }, nil
	case "BPEDecoder":
		suffix := or(s.Suffix, "</w>")
		return func() stage { return &endOfWord{suffix: suffix} }, nil
	case "CTC":
		c := ctc{pad: or(s.Pad, "<pad>"), delimiter: or(s.Delimiter, "|"), cleanup: s.Cleanup == nil || *s.Cleanup}
		return func() stage { one := c; return &one }, nil
	default:
		return nil, errors.New("this type is not known, want ByteLevel, ByteFallback, Fuse, Metaspace, Replace, " +
			"Strip, WordPiece, BPEDecoder, CTC or Sequence")
	}
}

func or(value *string, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return *value
}

func oneRune(name, text string) (rune, error) {
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 || size != len(text) {
		return 0, fmt.Errorf("%s: got %q, want one character", name, text)
	}
	return r, nil
}
