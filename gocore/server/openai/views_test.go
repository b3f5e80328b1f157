package openai

import (
	"net/http"
	"strings"
	"testing"
)

// TestViews: a worker below /models/NAME has this name alone, for routers that take one name from each worker.
func TestViews(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Adapters = []string{"sql", "org/chat", "org"} })
	for _, name := range []string{"m", "sql", "org/chat", "org"} {
		view := url + "/models/" + name
		list := get(t, view+"/v1/models").json(t)
		if data := list["data"].([]any); len(data) != 1 || at(list, "data", 0, "id") != name {
			t.Errorf("%s: got %v", name, list)
		}
		for _, path := range []string{"/server_info", "/get_model_info"} {
			if got := get(t, view+path).json(t); got["served_model_name"] != name || got["model_path"] != "m" {
				t.Errorf("%s%s: got %v", view, path, got)
			}
		}
		for _, body := range []string{`{"prompt":"a","max_tokens":1}`,
			`{"prompt":"a","max_tokens":1,"model":"` + name + `"}`} {
			if got := post(t, view+"/v1/completions", body).json(t); got["model"] != name {
				t.Errorf("%s: %s: got %v", name, body, got)
			}
		}
		for _, path := range []string{"/health", "/metrics", "/v1/loads", "/loads?model=" + name} {
			if got := get(t, view+path); got.status != http.StatusOK {
				t.Errorf("%s%s: got %d", view, path, got.status)
			}
		}
	}
	for _, c := range []struct{ path, body, says string }{
		{"/models/sql/v1/completions", `{"prompt":"a","model":"m"}`, "does not exist; there are: sql"},
		{"/models/none/v1/completions", `{"prompt":"a"}`, "there is no model `none`; there are: m, sql"},
		{"/models/sqlx/v1/completions", `{"prompt":"a"}`, "there is no model `sqlx`"},
		{"/models/", "", "there is no model ``"},
		{"/models/sql/nowhere", "{}", "there is no /nowhere"},
	} {
		if got := post(t, url+c.path, c.body); got.status != http.StatusNotFound ||
			!strings.Contains(got.text, c.says) {
			t.Errorf("%s: got %d %s", c.path, got.status, got.text)
		}
	}
	if got := get(t, url+"/models/sql/v1/models/m"); got.status != http.StatusNotFound {
		t.Errorf("another model of a view: got %d", got.status)
	}
}

// TestAdapterInRequest: SGLang's ways to name an adapter.
func TestAdapterInRequest(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Adapters = []string{"sql", "m:odd"} })
	for _, c := range []struct{ body, model string }{
		{`"model":"m:sql"`, "sql"}, {`"model":"m","lora_path":"sql"`, "sql"}, {`"lora_path":"sql"`, "sql"},
		{`"model":"m:sql","lora_path":"none"`, "sql"},
		{`"model":"m:odd"`, "m:odd"}, {`"model":"m:m:odd"`, "m:odd"}, {`"lora_path":null`, "m"},
		{`"lora_path":""`, "m"},
	} {
		for path, prompt := range map[string]string{
			"/v1/completions": `"prompt":"a"`, "/v1/chat/completions": `"messages":[{"role":"user","content":"a"}]`,
			"/v1/embeddings": `"input":"a"`,
		} {
			if got := post(t, url+path, `{`+prompt+`,`+c.body+`}`); got.status != http.StatusOK ||
				got.json(t)["model"] != c.model {
				t.Errorf("%s %s: got %d %s", path, c.body, got.status, got.text)
			}
		}
	}
	for body, says := range map[string]string{
		`"lora_path":"none"`:    "has no adapter `none`",
		`"lora_path":["sql"]`:   "lora_path",
		`"model":"m:none"`:      "The model `m:none` does not exist",
		`"model":"m:"`:          "The model `m:` does not exist",
		`"model":"sql:m:odd"`:   "does not exist",
		`"model":"none:sql"`:    "does not exist",
		`"lora_path":{"a":"b"}`: "lora_path",
	} {
		got := post(t, url+"/v1/completions", `{"prompt":"a",`+body+`}`)
		if got.status < 400 || !strings.Contains(got.text, says) {
			t.Errorf("%s: got %d %s", body, got.status, got.text)
		}
	}
	if got := post(t, url+"/generate", `{"text":"a","model":"m","lora_path":"sql"}`); got.status != http.StatusOK {
		t.Errorf("/generate: got %d %s", got.status, got.text)
	}
	if got := post(t, url+"/generate", `{"text":"a","model":"none"}`); got.status != http.StatusNotFound {
		t.Errorf("/generate of a model that is not there: got %d %s", got.status, got.text)
	}
}
