package tokens

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestInfoOfAFolder: what the files say, and the chat template that is used, wherever it is kept.
func TestInfoOfAFolder(t *testing.T) {
	for _, c := range []struct{ config, template, class, want string }{
		{"", "", "PreTrainedTokenizerFast", ""},
		{"null", "", "PreTrainedTokenizerFast", ""},
		{`{"chat_template":"a","chat_template":"b"}`, "", "PreTrainedTokenizerFast", "b"},
		{`{"tokenizer_class":"X","model_max_length":1e30,"chat_template":"a"}`, "", "X", "a"},
		{`{"chat_template":[{"name":"tools","template":"a"},{"name":"default","template":"b"}]}`, "",
			"PreTrainedTokenizerFast", "b"},
		{`{"chat_template":"a"}`, "c", "PreTrainedTokenizerFast", "c"},
	} {
		f := &Folder{folder: t.TempDir()}
		for name, text := range map[string]string{"tokenizer_config.json": c.config, "chat_template.jinja": c.template} {
			if text != "" {
				if err := os.WriteFile(filepath.Join(f.folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		i, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		var class, template string
		_ = json.Unmarshal(i[classMember], &class)
		_ = json.Unmarshal(i[templateMember], &template)
		if class != c.class || template != c.want {
			t.Errorf("%s: got %q and %q, want %q and %q", c.config, class, template, c.class, c.want)
		}
		if c.class == "X" && string(i["model_max_length"]) != "1e30" {
			t.Errorf("got %s", i["model_max_length"])
		}
	}
}
