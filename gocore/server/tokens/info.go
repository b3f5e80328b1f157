package tokens

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Info describes a tokenizer to clients that write prompts themselves: the members of tokenizer_config.json, among them
// tokenizer_class, names of special tokens, and chat_template.
type Info map[string]jsontext.Value

// Members of Info.
const (
	classMember    = "tokenizer_class"
	templateMember = "chat_template"
)

func (i Info) set(name, text string) {
	value, _ := json.Marshal(text)
	i[name] = value
}

// Info implements [Tokenizer]. The template is that of conversations without tools.
func (Bytes) Info() (Info, error) {
	i := Info{}
	i.set(classMember, "Bytes")
	i.set("bos_token", specialTexts[beginOfText])
	i.set("eos_token", specialTexts[endOfText])
	i.set(templateMember, strings.NewReplacer("BEGIN", specialTexts[beginOfText], "START", specialTexts[messageStart],
		"END", specialTexts[messageEnd]).Replace(bytesTemplate))
	return i, nil
}

const bytesTemplate = "BEGIN{% for message in messages %}START{{ message.role }}\n{{ message.content }}END\n" +
	"{% endfor %}{% if add_generation_prompt %}STARTassistant\n{% endif %}"

// Info implements [Tokenizer]. The chat template is the one that conversations are written with, wherever it is kept.
func (f *Folder) Info() (Info, error) {
	i := Info{}
	text, err := os.ReadFile(filepath.Join(f.folder, "tokenizer_config.json"))
	if err == nil {
		err = json.Unmarshal(text, &i, jsontext.AllowDuplicateNames(true)) // as Python reads it
	}
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	if i == nil { // the file has null
		i = Info{}
	}
	if _, known := i[classMember]; !known {
		i.set(classMember, "PreTrainedTokenizerFast")
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if json.Unmarshal(i[templateMember], &named) == nil && len(named) > 0 {
		i.set(templateMember, named[0].Template)
		for _, one := range named {
			if one.Name == "default" {
				i.set(templateMember, one.Template)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(f.folder, "chat_template.jinja")); err == nil {
		i.set(templateMember, string(text))
	}
	return i, nil
}
