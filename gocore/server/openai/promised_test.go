package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestPromisedObject: with json_object an answer has the form of the schema that the messages describe.
func TestPromisedObject(t *testing.T) {
	_, url := start(t, fast, nil)
	schema := `{"type":"object","title":"City","properties":{"city":{"type":"string"},"people":{"type":"integer"}},` +
		`"required":["city","people"]}`
	ask := func(role, content string) map[string]any {
		body, _ := json.Marshal(map[string]any{
			"messages": []map[string]string{{"role": "system", "content": "Answer."},
				{"role": role, "content": content}, {"role": "user", "content": "Rome {really}?"}},
			"response_format": map[string]string{"type": "json_object"}, "max_tokens": 300,
		})
		got := post(t, url+"/v1/chat/completions", string(body)).json(t)
		var said map[string]any
		if text := at(got, "choices", 0, "message", "content").(string); json.Unmarshal([]byte(text), &said) != nil {
			t.Fatalf("got %s", text)
		}
		return said
	}
	for _, role := range []string{"system", "user", "developer"} {
		said := ask(role, "Match the following {json} schema, as in {\"a\": 1}:\n```\n"+schema+
			"\n```\nNot the schema itself.")
		if _, text := said["city"].(string); !text || said["people"] == nil || len(said) != 2 {
			t.Errorf("%s: got %v", role, said)
		}
	}
	for _, c := range []struct{ role, content string }{
		{"assistant", schema}, {"user", `{"type":"object","properties":{"city":1}}`},
		{"user", `{"type":"object","properties":{"city":{"type":"nothing"}}}`},
	} {
		if said := ask(c.role, c.content); said["city"] != nil && said["people"] != nil {
			t.Errorf("%.60s: got %v", c.content, said)
		}
	}
	for _, text := range []string{strings.Repeat(`{"a":`, 1000) + schema, strings.Repeat(" ", maxSchemaText) + schema,
		"", "{", schema[:20]} {
		if found := schemaInText(text); found != nil {
			t.Errorf("%.60s: got %s", text, found)
		}
	}
	if found := schemaInText(schema + " or {} or " + schema + "{"); string(found) != schema {
		t.Errorf("got %s", found)
	}
}
