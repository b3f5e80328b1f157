package detokenize

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Vocabulary is what a tokenizer.json says about the text of tokens. It may be used from several goroutines.
type Vocabulary struct {
	tokens []token
	stages []func() stage // of a decoder
}

// token is one of a vocabulary. Its name is text before the decoders have worked on it.
type token struct {
	name    string
	known   bool
	special bool
}

// maxToken bounds the numbers of tokens, and with them the memory of a vocabulary.
const maxToken = 1 << 22

// unnumbered stands for the number of an added token until the vocabulary of the model names it.
const unnumbered = maxToken

// file is the part of a tokenizer.json that matters here.
type file struct {
	Added   []added        `json:"added_tokens"`
	Decoder jsontext.Value `json:"decoder"`
	Model   struct {
		Vocab jsontext.Value `json:"vocab"`
	} `json:"model"`
}

// added is a token that the vocabulary of the model may lack.
type added struct {
	ID      uint32 `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// Open reads a tokenizer.json.
func Open(path string) (*Vocabulary, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// Parse reads the text of a tokenizer.json.
func Parse(text []byte) (*Vocabulary, error) {
	var f file
	if err := json.Unmarshal(text, &f, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, err
	}
	v := &Vocabulary{}
	numbers := map[string]uint32{} // of added tokens
	for _, a := range f.Added {
		numbers[a.Content] = unnumbered
	}
	size, err := v.readModel(f.Model.Vocab, numbers)
	if err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	if err := v.add(f.Added, numbers, size); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if v.stages, err = parseChain(f.Decoder); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return v, nil
}

// readModel reads the vocabulary of the model: an object of numbers, or a list of names with scores. It returns its
// size, and sets the numbers that are asked for.
func (v *Vocabulary) readModel(vocab jsontext.Value, numbers map[string]uint32) (size int, err error) {
	each := func(name string, id uint32) error {
		if _, asked := numbers[name]; asked {
			numbers[name] = id
		}
		size++
		return v.set(name, id)
	}
	switch vocab.Kind() {
	case '{':
		err = readObject(vocab, each)
	case '[':
		err = readList(vocab, each)
	default:
		err = errors.New("want an object of tokens with their numbers, or a list of tokens with their scores")
	}
	return size, err
}

func readObject(vocab jsontext.Value, each func(string, uint32) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(vocab), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		text := name.String()
		var id uint32
		if err := json.UnmarshalDecode(d, &id); err != nil {
			return err
		}
		if err := each(text, id); err != nil {
			return err
		}
	}
	return nil
}

func readList(vocab jsontext.Value, each func(string, uint32) error) error {
	var rows [][]jsontext.Value
	if err := json.Unmarshal(vocab, &rows); err != nil {
		return err
	}
	for id, row := range rows {
		var name string
		if len(row) == 0 || json.Unmarshal(row[0], &name) != nil {
			return fmt.Errorf("token %d: want a list of its text and its score", id)
		}
		if err := each(name, uint32(id)); err != nil {
			return err
		}
	}
	return nil
}

func (v *Vocabulary) set(name string, id uint32) error {
	if id >= maxToken {
		return fmt.Errorf("%q has the number %d, want less than %d", name, id, maxToken)
	}
	for int(id) >= len(v.tokens) {
		v.tokens = append(v.tokens, token{})
	}
	v.tokens[id].name, v.tokens[id].known = name, true
	return nil
}

// add adds tokens as the library does: one that the model has keeps the model's number, and the others get the next
// numbers, whatever the file says. In files that the library has written, these are the same.
func (v *Vocabulary) add(all []added, numbers map[string]uint32, size int) error {
	next := uint32(size)
	special := map[string]bool{}
	for _, a := range all {
		if a.Content == "" {
			continue
		}
		special[a.Content] = special[a.Content] || a.Special
		id := numbers[a.Content]
		if id == unnumbered {
			id = next
			numbers[a.Content] = id
		}
		next = max(next, id+1)
		if err := v.set(a.Content, id); err != nil {
			return err
		}
	}
	for i := range v.tokens {
		v.tokens[i].special = special[v.tokens[i].name]
	}
	return nil
}

// Size returns one more than the greatest token.
func (v *Vocabulary) Size() int { return len(v.tokens) }

// Name returns how the tokenizer calls a token, "" if the model does not have it.
func (v *Vocabulary) Name(token uint32) string {
	if int64(token) >= int64(len(v.tokens)) {
		return ""
	}
	return v.tokens[token].name
}

// Text returns the text of tokens. special says whether special tokens are part of it.
func (v *Vocabulary) Text(tokens []uint32, special bool) string {
	d := v.Decoder(special)
	return d.Push(tokens) + d.Close()
}
