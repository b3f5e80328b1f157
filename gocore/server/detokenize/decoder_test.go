package detokenize

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// chains are decoders that keep text back for different reasons.
var chains = []string{
	`null`,
	`{"type":"ByteLevel"}`,
	`{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`,
	`{"type":"WordPiece","prefix":"##","cleanup":true}`,
	`{"type":"BPEDecoder","suffix":"</w>"}`,
	`{"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true}`,
	`{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},` +
		`{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}`,
	`{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Replace",` +
		`"pattern":{"String":"aab"},"content":"é"},{"type":"Strip","content":"a","start":2,"stop":3}]}`,
	`{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteLevel"},{"type":"Strip","content":"▁",` +
		`"start":0,"stop":1}]}`,
}

// parts are names of tokens that meet the rules of these decoders.
var parts = []string{"a", "b", "▁", "aab", "<0xE4>", "<0xBD>", "<0xA0>", "<0x41>", "ä", "½", "ł", "Ġ", "##a", " .",
	"a</w>", "<pad>", "|", " ", "", "漢", "<s>"}

func withDecoder(tb testing.TB, chain string) *Vocabulary {
	tb.Helper()
	numbers := map[string]int{}
	for i, name := range parts {
		numbers[name] = i
	}
	vocab, _ := json.Marshal(numbers)
	last := len(parts) - 1
	v, err := Parse(fmt.Appendf(nil, `{"added_tokens":[{"id":%d,"content":%q,"special":true}],"decoder":%s,`+
		`"model":{"vocab":%s}}`, last, parts[last], chain, vocab))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// FuzzPieces: what comes of tokens does not depend on the pieces in which they come, and each piece is valid text.
func FuzzPieces(f *testing.F) {
	var all []*Vocabulary
	for _, chain := range chains {
		all = append(all, withDecoder(f, chain))
	}
	for i := range chains {
		f.Add(uint8(i), []byte("\x02\x00\x04\x05\x06\x13\x00\x00\x03\x11\x11\xff"), uint64(i))
	}
	f.Fuzz(func(t *testing.T, chain uint8, tokens []byte, seed uint64) {
		v := all[int(chain)%len(all)]
		ids := make([]uint32, len(tokens))
		for i, b := range tokens {
			ids[i] = uint32(b) % uint32(len(parts)+2)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, special := range []bool{false, true} {
			whole := v.Text(ids, special)
			if !utf8.ValidString(whole) {
				t.Fatalf("got %q", whole)
			}
			if err := compare(v, ids, special, whole, rng); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzFiles: no file makes the program fail, and the text of one that is accepted is valid.
func FuzzFiles(f *testing.F) {
	for _, chain := range chains {
		f.Add([]byte(`{"added_tokens":[{"id":9,"content":"x"}],"decoder":` + chain +
			`,"model":{"vocab":{"▁a":0,"<0xE4>":3}}}`))
	}
	f.Add([]byte(`{"model":{"vocab":[["a",-1.5],["b"]]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Parse(text)
		if err != nil {
			return
		}
		ids := make([]uint32, min(v.Size()+1, 100))
		for i := range ids {
			ids[i] = uint32(i)
		}
		if got := v.Text(append(ids, ids...), true); !utf8.ValidString(got) {
			t.Fatalf("got %q", got)
		}
	})
}

// TestRefused: a file that cannot be obeyed is refused with the place and the reason.
func TestRefused(t *testing.T) {
	chain := func(text string) string { return `{"model":{"vocab":{"a":0}},"decoder":` + text + `}` }
	for _, test := range []struct{ text, want string }{
		{`{`, "EOF"},
		{`{}`, "model.vocab: want an object"},
		{`{"model":{"vocab":{"a":-1}}}`, "model.vocab"},
		{`{"model":{"vocab":{"a":4194304}}}`, `"a" has the number 4194304, want less than`},
		{`{"model":{"vocab":[[1,2]]}}`, "token 0: want a list of its text and its score"},
		{chain(`{"type":"Nope"}`), "decoder: Nope: this type is not known, want ByteLevel"},
		{chain(`{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"New"}]}`), "decoder: New: this type is not known"},
		{chain(`{"type":"Replace","pattern":{"Regex":" +"},"content":" "}`), "decoder: Replace: pattern: want a String"},
		{chain(`{"type":"Replace","pattern":{"String":""},"content":" "}`), "decoder: Replace: pattern: want a String"},
		{chain(`{"type":"Strip","content":"ab","start":1,"stop":0}`),
			`decoder: Strip: content: got "ab", want one character`},
		{chain(`{"type":"Strip","content":" ","start":-1,"stop":0}`), "decoder: Strip: start, stop: want " +
			"integers >= 0"},
		{chain(`{"type":"Metaspace","replacement":"","prepend_scheme":"always"}`),
			`decoder: Metaspace: replacement: got "", want one character`},
		{chain(`{"type":"Sequence","decoders":["Fuse"]}`), "decoder: decoders: want objects"},
		{chain(`17`), "decoder"},
	} {
		if _, err := Parse([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
	if _, err := Open("testdata/missing.json"); err == nil {
		t.Error("a missing file is a vocabulary")
	}
}

// TestWhatIsHeldBack: text comes with the first token with which it is certain.
func TestWhatIsHeldBack(t *testing.T) {
	llama, words := withDecoder(t, chains[6]), withDecoder(t, chains[4])
	id := func(name string) uint32 { return uint32(slices.Index(parts, name)) }
	for _, c := range []struct {
		v      *Vocabulary
		tokens []string
		want   []string // after each token, and at the end
	}{
		{llama, []string{"▁", "a", "<0xE4>", "<0xBD>", "<0xA0>", "b", "<0x41>"},
			[]string{"", "a", "", "", "", "你b", "", "A"}},
		{llama, []string{"<0xE4>", "<s>", "<0xBD>", "a"}, []string{"", "", "", "\uFFFD\uFFFDa", ""}},
		{withDecoder(t, chains[1]), []string{"ä", "½", "ł", "ä", "Ġ", "ä"},
			[]string{"", "", "你", "", "\uFFFD ", "", "\uFFFD"}},
		{words, []string{"a</w>", "b"}, []string{"", "a ", "b"}},
	} {
		d := c.v.Decoder(false)
		var got []string
		for _, name := range c.tokens {
			got = append(got, d.Push([]uint32{id(name)}))
		}
		if got = append(got, d.Close()); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.tokens, got, c.want)
		}
	}
}

// TestAfter: a text that goes on after a prompt keeps the blank of its first token. Tokens of the prompt whose text
// waits for others are passed over, and so are those that say nothing.
func TestAfter(t *testing.T) {
	id := func(name string) uint32 { return uint32(slices.Index(parts, name)) }
	for _, c := range []struct {
		chain  int
		prompt []string
		tokens []string
		want   string
	}{
		{0, nil, []string{"a", "b"}, "a b"},
		{0, []string{"b"}, []string{"a", "b"}, " a b"},
		{0, []string{"<s>"}, []string{"a", "b"}, "a b"},
		{2, []string{"▁", "a"}, []string{"▁", "a"}, " a"},
		{2, nil, []string{"▁", "a"}, "a"},
		{3, []string{"a"}, []string{"##a", "b"}, "a b"},
		{3, []string{"a"}, []string{"b"}, " b"},
		{4, []string{"a</w>"}, []string{"a</w>", "b"}, "a b"},
		{6, []string{"a", "<0xE4>"}, []string{"▁", "<0x41>"}, " A"},
		{6, []string{"<0xE4>", "<0xBD>"}, []string{"▁", "<0x41>"}, "A"},
		{6, []string{"a", "<s>"}, []string{"▁", "a"}, " a"},
		{6, []string{"▁"}, []string{"▁", "a"}, " a"},
		{1, []string{"ä"}, []string{"½", "a"}, "\uFFFDa"},
	} {
		var prompt, tokens []uint32
		for _, name := range c.prompt {
			prompt = append(prompt, id(name))
		}
		for _, name := range c.tokens {
			tokens = append(tokens, id(name))
		}
		d := withDecoder(t, chains[c.chain]).After(prompt, false)
		if got := d.Push(tokens) + d.Close(); got != c.want {
			t.Errorf("%s: %q after %q: got %q, want %q", chains[c.chain], c.tokens, c.prompt, got, c.want)
		}
	}
}

// TestStrip has what the library makes of tokens that are long enough for it; it fails on others.
func TestStrip(t *testing.T) {
	for _, c := range []struct {
		token       string
		start, stop int
		want        string
	}{
		{"aaab", 0, 2, "aaab"}, {"aaab", 1, 1, "aab"}, {"aaab", 2, 2, "ab"}, {"baaaa", 0, 2, "baa"},
		{"baaaa", 1, 1, "baaa"}, {"ba", 0, 2, "b"}, {"ba", 2, 2, "b"},
		{"aaaa", 0, 1, "aaa"}, {"aaaa", 1, 1, "aa"}, {"aaaa", 2, 2, ""}, {"abaa", 1, 1, "ba"}, {"abaa", 2, 2, "b"},
		{"aa", 0, 2, ""}, {"xaaxaa", 0, 2, "xaax"},
	} {
		var text sink
		s := strip{mark: 'a', start: c.start, stop: c.stop}
		s.feed(&text)
		s.begin()
		for i := range c.token {
			s.part(c.token[i : i+1])
		}
		s.end()
		s.close()
		if got := text.take(); got != c.want {
			t.Errorf("%q, %d and %d: got %q, want %q", c.token, c.start, c.stop, got, c.want)
		}
	}
}

func BenchmarkPush(b *testing.B) {
	text, err := os.ReadFile(tiny)
	if err != nil {
		b.Fatal(err)
	}
	v, err := Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	d, ids := v.Decoder(false), make([]uint32, 1)
	for i := 0; b.Loop(); i++ {
		ids[0] = uint32(i) % 2000
		d.Push(ids)
	}
}
