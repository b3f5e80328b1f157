package openai

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/conform"
)

// Limits on the search for a schema in messages.
const (
	maxSchemaText  = 64 << 10 // bytes of a message
	maxSchemaTries = 64       // braces of a message
)

// schemaIn finds a JSON Schema of an object in the text of messages, the last one if there are several. Clients that
// ask for any JSON object say there which one they mean, as instructor does in its mode JSON.
func schemaIn(messages []message) jsontext.Value {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "assistant" || messages[i].Role == "tool" {
			continue
		}
		if found := schemaInText(string(messages[i].Content)); found != nil {
			return found
		}
	}
	return nil
}

func schemaInText(text string) (found jsontext.Value) {
	if len(text) > maxSchemaText {
		return nil
	}
	for range maxSchemaTries {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			break
		}
		text = text[at:]
		decoder := jsontext.NewDecoder(strings.NewReader(text))
		value, err := decoder.ReadValue()
		if err != nil {
			text = text[1:]
			continue
		}
		if isObjectSchema(value) {
			found = value.Clone()
		}
		text = text[decoder.InputOffset():]
	}
	return found
}

// isObjectSchema reports whether a JSON object is a schema of objects, by its members.
func isObjectSchema(value jsontext.Value) bool {
	var schema struct {
		Type       string                    `json:"type"`
		Properties map[string]jsontext.Value `json:"properties"`
	}
	if json.Unmarshal(value, &schema) != nil || len(schema.Properties) == 0 {
		return false
	}
	for _, property := range schema.Properties {
		if property.Kind() != '{' {
			return false
		}
	}
	return schema.Type == "object"
}

// promisedObject returns the form of any JSON object, or of the one that messages describe if there is such a form.
func (f *form) promisedObject() (conform.Form, error) {
	if f.promised != nil {
		if made, err := conform.Schema(f.promised); err == nil {
			return made, nil
		}
	}
	return conform.Object(), nil
}
