package tokens

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scripts are texts in 20 scripts, and what is not text.
var scripts = []string{
	"Hello, world", "Grüße aus Köln", "Привет, мир", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया",
	"হ্যালো বিশ্ব", "ਸਤ ਸ੍ਰੀ ਅਕਾਲ", "வணக்கம்",
	"హలో", "ಹಲೋ", "ഹലോ", "สวัสดีชาวโลก", "ສະບາຍດີ", "မင်္ဂလာပါ", "გამარჯობა", "Բարեւ", "你好，世界", "こんにちは", "안녕하세요", "ሰላም",
	"🙂👩‍👩‍👧 e\u0301", "\x00\t\n", "",
}

func checkSpoken(t *testing.T, name string, s Spoken) {
	t.Helper()
	if len(s.Tokens) != len(s.Ends) || !slices.IsSorted(s.Ends) ||
		len(s.Ends) > 0 && int(s.Ends[len(s.Ends)-1]) != len(s.Text) {
		t.Fatalf("%s: %d tokens, ends %v of %d bytes", name, len(s.Tokens), s.Ends, len(s.Text))
	}
	for _, end := range s.Ends {
		if !utf8.ValidString(s.Text[:end]) {
			t.Fatalf("%s: %q ends inside a character", name, s.Text[:end])
		}
	}
}

func roundTrip(t *testing.T, tokenizer Tokenizer) {
	t.Helper()
	ctx := context.Background()
	for _, text := range scripts {
		tokens, err := tokenizer.Prompt(ctx, text, false)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := tokenizer.Text(tokens); err != nil || back != text {
			t.Errorf("%q: got %q, %v", text, back, err)
		}
		spoken, err := tokenizer.Answer(ctx, text)
		if err != nil || spoken.Text != text || !slices.Equal(spoken.Tokens, tokens) {
			t.Errorf("%q: got %q, %v", text, spoken.Text, err)
		}
		checkSpoken(t, text, spoken)
	}
	for n := range 50 {
		drawn := tokenizer.Draw(n, 77)
		checkSpoken(t, "drawn", drawn)
		if again := tokenizer.Draw(n, 77); again.Text != drawn.Text || len(drawn.Tokens) != n {
			t.Fatalf("%d tokens: got %q and %q", n, drawn.Text, again.Text)
		}
		if again, err := tokenizer.Prompt(ctx, drawn.Text, false); err != nil || !slices.Equal(again, drawn.Tokens) {
			t.Errorf("%q: got tokens %v, want %v", drawn.Text, again, drawn.Tokens)
		}
	}
	if a, b := tokenizer.Draw(40, 1), tokenizer.Draw(40, 99991); a.Text == b.Text {
		t.Errorf("different seeds give %q", a.Text)
	}
}

func TestBytes(t *testing.T) {
	roundTrip(t, Bytes{})
	chat := Chat{Messages: []Message{{Role: "user", Content: "Hi"}}, Generate: true}
	tokens, err := Bytes{}.Chat(context.Background(), chat)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Bytes{}.Text(tokens)
	if want := "<|begin_of_text|><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"; err != nil || text != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	if _, err := (Bytes{}).Text([]uint32{bytesSize}); err == nil {
		t.Error("a token out of range became text")
	}
}

// TestGrowingConversation: the prompt of the second turn begins with the prompt and the answer of the first one.
func TestGrowingConversation(t *testing.T) {
	ctx := context.Background()
	chat := Chat{Messages: []Message{{Role: "user", Content: "Hi"}}, Generate: true}
	first, _ := Bytes{}.Chat(ctx, chat)
	answer := Bytes{}.Draw(20, 5)
	chat.Messages = append(chat.Messages, Message{Role: "assistant", Content: answer.Text},
		Message{Role: "user", Content: "And?"})
	second, _ := Bytes{}.Chat(ctx, chat)
	if begin := append(first, answer.Tokens...); !slices.Equal(second[:len(begin)], begin) {
		t.Errorf("got %v, want it to begin with %v", second, begin)
	}
}

func TestCutAndRepeat(t *testing.T) {
	s := spell("añb")
	if cut := s.Cut(2); cut.Text != "a" || len(cut.Tokens) != 2 {
		t.Errorf("got %+v", cut)
	}
	long := s.Repeat(10)
	checkSpoken(t, "repeated", long)
	if len(long.Tokens) != 10 || long.Text != "añbañba" {
		t.Errorf("got %q", long.Text)
	}
}

// python returns an interpreter with the libraries, "" if there is none.
func python() string {
	for _, candidate := range []string{filepath.Join("..", "..", "..", ".venv", "bin", "python"), "python3"} {
		if exec.Command(candidate, "-c", "import tokenizers, jinja2").Run() == nil {
			path, err := filepath.Abs(candidate)
			if err != nil || candidate == "python3" {
				return candidate
			}
			return path
		}
	}
	return ""
}

func openFolder(t *testing.T, folder string) *Folder {
	t.Helper()
	interpreter := python()
	if interpreter == "" {
		t.Skip("no Python with tokenizers and jinja2")
	}
	f, err := OpenFolder(interpreter, folder, 2, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

const tiny = "../../../examples/models/tiny"

func TestFolder(t *testing.T) {
	f := openFolder(t, tiny)
	roundTrip(t, f)
	ctx := context.Background()
	tokens, err := f.Chat(ctx, Chat{Messages: []Message{{Role: "user", Content: "Hello"}}, Generate: true})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := f.Text(tokens); err != nil || text != "user: Hello\nassistant:" {
		t.Errorf("got %q, %v", text, err)
	}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			text := strings.Repeat("word ", i+1)
			tokens, err := f.Prompt(ctx, text, false)
			if err != nil {
				t.Error(err)
			}
			if back, err := f.Text(tokens); err != nil || back != text {
				t.Errorf("got %q, %v", back, err)
			}
		})
	}
	all.Wait()
}

// TestHelperEnds: what a helper that dies was asked fails, and another one takes its place.
func TestHelperEnds(t *testing.T) {
	f := openFolder(t, tiny)
	ctx := context.Background()
	for range 4 {
		// an error of its own
		f.jobs <- &job{question{Kind: "nothing", Text: strings.Repeat("x", 10)}, make(chan result, 1)}
	}
	h, _, err := startHelper(f.python, f.folder, false)
	if err != nil {
		t.Fatal(err)
	}
	_ = h.command.Process.Kill()
	answer := make(chan result, 1)
	f.done.Go(func() { f.serve(h) })
	for i := 0; ; i++ { // until the dead helper gets a question
		f.jobs <- &job{question{Kind: "prompt", Text: "a"}, answer}
		if r := <-answer; r.err != nil {
			break
		}
		if i == 10_000 {
			t.Fatal("the dead helper was never asked")
		}
	}
	for range 20 {
		if _, err := f.Prompt(ctx, "a b", false); err != nil {
			t.Error(err)
		}
	}
}

// TestTemplates: templates that refuse or that are missing are the fault of the request.
func TestTemplates(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"tokenizer.json", "config.json"} {
		content, err := os.ReadFile(filepath.Join(tiny, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	chat := Chat{Messages: []Message{{Role: "user", Content: "Hello"}}}
	if _, err := openFolder(t, folder).Chat(ctx, chat); err == nil ||
		!strings.Contains(err.Error(), "no chat template") {
		t.Errorf("got %v", err)
	}
	template := `{% if messages[0].role == 'user' %}{{ raise_exception('system first') }}{% endif %}{{ tools | tojson ` +
		`}}{% for m in messages %}{% break %}{% endfor %}`
	if err := os.WriteFile(filepath.Join(folder, "chat_template.jinja"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	f := openFolder(t, folder)
	var input *InputError
	if _, err := f.Chat(ctx, chat); err == nil || !strings.Contains(err.Error(), "system first") {
		t.Errorf("got %v, %T", err, input)
	}
	chat.Messages[0].Role = "system"
	if _, err := f.Chat(ctx, chat); err != nil {
		t.Error(err)
	}
	// Half a character in the arguments of a call ends no tokenizer: the next request is answered by the same process.
	chat.Messages[0].ToolCalls = []jsontext.Value{jsontext.Value(`{"function":{"arguments":"{\"a\":\"\\ud800\"}"}}`)}
	template = `{{ messages[0].tool_calls | tojson }}`
	if err := os.WriteFile(filepath.Join(folder, "chat_template.jinja"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(t, folder).Chat(ctx, chat); err != nil {
		t.Error(err)
	}
}

func TestNoFolder(t *testing.T) {
	interpreter := python()
	if interpreter == "" {
		t.Skip("no Python with tokenizers and jinja2")
	}
	if f, err := OpenFolder(interpreter, t.TempDir(), 1, true, slog.New(slog.DiscardHandler)); err == nil {
		f.Close()
		t.Error("an empty folder has a tokenizer")
	}
	if f, err := OpenFolder("/nonexistent/python", tiny, 1, true, slog.New(slog.DiscardHandler)); err == nil {
		f.Close()
		t.Error("a missing interpreter runs")
	}
}
