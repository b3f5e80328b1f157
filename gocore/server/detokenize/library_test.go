package detokenize

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const tiny = "../../../examples/models/tiny/tokenizer.json"

// library starts the library with 10,000 texts, and returns what it writes.
func library(t *testing.T) *bufio.Reader {
	t.Helper()
	python := filepath.Join("..", "..", "..", ".venv", "bin", "python")
	if exec.Command(python, "-c", "import tokenizers").Run() != nil {
		python = "python3"
		if exec.Command(python, "-c", "import tokenizers").Run() != nil {
			t.Skip("no Python with tokenizers")
		}
	}
	command := exec.Command(python, filepath.Join("testdata", "library.py"), "10000", tiny)
	command.Env = append(os.Environ(), "TOKENIZERS_PARALLELISM=false", "PYTHONUTF8=1")
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = out.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("library.py: %v\n%s", err, complaints.String())
		}
	})
	return bufio.NewReaderSize(out, 1<<20)
}

// goesOn matches tokenizers for which the text of all tokens is that of a first part with that of the rest after it.
var goesOn = regexp.MustCompile("^(byte-level BPE|Llama 2|Gemma|Unigram|WordPiece|WordLevel)")

// TestLikeTheLibrary compares all decoders with those of the library: at once, and with tokens that come one by one and
// in pieces.
func TestLikeTheLibrary(t *testing.T) {
	lines := bufio.NewScanner(library(t))
	lines.Buffer(nil, 64<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	var name string
	var v *Vocabulary
	tokenizers, cases, wrong := 0, 0, map[string]int{}
	for lines.Scan() {
		var row struct {
			Name      string         `json:"name"`
			Tokenizer jsontext.Value `json:"tokenizer"`
			IDs       []uint32       `json:"ids"`
			Text      string         `json:"text"`
			All       string         `json:"all"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Tokenizer != nil {
			var err error
			name = row.Name
			if v, err = Parse(row.Tokenizer); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tokenizers++
			continue
		}
		cases++
		if half := row.IDs[:len(row.IDs)/2]; goesOn.MatchString(name) && v.Decoder(true).settles(half) {
			d := v.After(half, true)
			if got := v.Text(half, true) + d.Push(row.IDs[len(half):]) + d.Close(); got != row.All {
				t.Fatalf("%s: %v in two halves: got %q, want %q", name, row.IDs, got, row.All)
			}
		}
		for special, want := range map[bool]string{false: row.Text, true: row.All} {
			if err := compare(v, row.IDs, special, want, rng); err != nil {
				if wrong[name]++; wrong[name] <= 3 {
					t.Errorf("%s, special %v: %v", name, special, err)
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if tokenizers < 24 || cases < 120_000 {
		t.Errorf("got %d tokenizers, %d cases", tokenizers, cases)
	}
}

// compare decodes tokens at once, one by one, and in pieces.
func compare(v *Vocabulary, ids []uint32, special bool, want string, rng *rand.Rand) error {
	if got := v.Text(ids, special); got != want {
		return fmt.Errorf("%v: got %q, want %q", ids, got, want)
	}
	one, some := v.Decoder(special), v.Decoder(special)
	var oneByOne, inPieces strings.Builder
	for i := range ids {
		text := one.Push(ids[i : i+1])
		if !utf8.ValidString(text) {
			return fmt.Errorf("%v: got %q, which is no UTF-8", ids, text)
		}
		oneByOne.WriteString(text)
	}
	for left := ids; len(left) > 0; {
		n := 1 + rng.IntN(len(left))
		inPieces.WriteString(some.Push(left[:n]))
		left = left[n:]
	}
	oneByOne.WriteString(one.Close())
	inPieces.WriteString(some.Close())
	if oneByOne.String() != want || inPieces.String() != want {
		return fmt.Errorf("%v: got %q one by one, %q in pieces, want %q", ids, oneByOne.String(), inPieces.String(),
			want)
	}
	return nil
}
