package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// spoken is a message of /v1/messages, whole or put together from a stream.
type spoken struct {
	Content []struct {
		Type, Text, Thinking, Name string
		Input                      json.RawMessage
	}
	Reason   string `json:"stop_reason"`
	Sequence string `json:"stop_sequence"`
	Usage    struct {
		Input  int `json:"input_tokens"`
		Cached int `json:"cache_read_input_tokens"`
		Output int `json:"output_tokens"`
	}
}

// readMessage puts the events of a stream together as clients do.
func readMessage(t *testing.T, a answer) (m spoken) {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	if !strings.HasPrefix(a.text, "event: ") {
		if err := json.Unmarshal([]byte(a.text), &m); err != nil {
			t.Fatalf("%s: %v", a.text, err)
		}
		return m
	}
	parts, inputs := []string{}, map[int]string{}
	for line := range strings.Lines(a.text) {
		text, found := strings.CutPrefix(line, "data: ")
		if !found {
			continue
		}
		var event struct {
			Type    string
			Index   int
			Message json.RawMessage
			Block   json.RawMessage `json:"content_block"`
			Delta   struct {
				Type, Text, Thinking string
				Partial              string `json:"partial_json"`
				Reason               string `json:"stop_reason"`
				Sequence             string `json:"stop_sequence"`
			}
			Usage json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		parts = append(parts, event.Type)
		switch event.Type {
		case "message_start":
			_ = json.Unmarshal(event.Message, &m)
		case "content_block_start":
			m.Content = append(m.Content, struct {
				Type, Text, Thinking, Name string
				Input                      json.RawMessage
			}{})
			_ = json.Unmarshal(event.Block, &m.Content[event.Index])
		case "content_block_delta":
			m.Content[event.Index].Text += event.Delta.Text
			m.Content[event.Index].Thinking += event.Delta.Thinking
			inputs[event.Index] += event.Delta.Partial
		case "message_delta":
			m.Reason, m.Sequence = event.Delta.Reason, event.Delta.Sequence
			_ = json.Unmarshal(event.Usage, &m.Usage)
		}
	}
	for i, input := range inputs {
		if input != "" {
			m.Content[i].Input = json.RawMessage(input)
		}
	}
	starts, stops := strings.Count(fmt.Sprint(parts), "block_start"), strings.Count(fmt.Sprint(parts), "block_stop")
	if parts[0] != "message_start" || parts[len(parts)-1] != "message_stop" || starts != stops ||
		starts != len(m.Content) {
		t.Errorf("got %v", parts)
	}
	return m
}

// TestMessages: /v1/messages answers with text, thoughts and calls, whole and in a stream.
func TestMessages(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Answers.Thinking, c.Models[0].Answers.MostCalls = 0.5, 3 })
	tools := `"tools":[{"name":"weather","description":"x","input_schema":` + city +
		`},{"type":"web_search_20250305","name":"web_search"}]`
	hello := `"messages":[{"role":"user","content":"Hi"}]`
	for _, test := range []struct{ members, want string }{
		{`"max_tokens":30,` + hello, "text max_tokens"},
		{`"max_tokens":40,"system":[{"type":"text","text":"Be brief."}],"thinking":{"type":"enabled","budget_tokens":1024},` +
			hello, "thinking text max_tokens"},
		{`"max_tokens":60,"stop_sequences":[" "],` +
			hello, "text stop_sequence"},
		{`"max_tokens":90,"tool_choice":{"type":"tool","name":"weather"},` + tools + `,` +
			hello, "tool_use tool_use"},
		{`"max_tokens":400,"tool_choice":{"type":"any","disable_parallel_tool_use":true},` + tools + `,` +
			hello, "tool_use tool_use"},
		{`"max_tokens":30,` + tools + `,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"Hm"},{"type":"tool_use","id":"t","name":"weather",
			"input":{"city":"Rome"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"31"}]}]}]`,
			"text max_tokens"},
	} {
		whole := readMessage(t, post(t, url+messagesPath, `{`+test.members+`}`))
		stream := readMessage(t, post(t, url+messagesPath, `{"stream":true,`+test.members+`}`))
		got := ""
		for _, block := range whole.Content {
			got += block.Type + " "
			if block.Type == "tool_use" {
				var input struct {
					City *string
					Days int
				}
				if err := json.Unmarshal(block.Input, &input); err != nil || input.City == nil || input.Days < 1 ||
					block.Name != "weather" {
					t.Errorf("%s: got %+v", test.members, block)
				}
			}
		}
		if got+whole.Reason != test.want || (whole.Sequence == " ") != strings.Contains(test.members, "stop_seq") ||
			whole.Usage.Output == 0 {
			t.Errorf("%s: got %+v", test.members, whole)
		}
		if whole.Usage.Input+whole.Usage.Cached != stream.Usage.Input+stream.Usage.Cached {
			t.Errorf("%s: got %+v and %+v", test.members, whole.Usage, stream.Usage)
		}
		whole.Usage = stream.Usage // the second request finds its prompt in the cache
		a, _ := json.Marshal(whole)
		b, _ := json.Marshal(stream)
		if string(a) != string(b) {
			t.Errorf("%s: streamed %s, want %s", test.members, b, a)
		}
	}
	counted := post(t, url+messagesPath+"/count_tokens", `{`+hello+`}`)
	said := readMessage(t, post(t, url+messagesPath, `{"max_tokens":1,`+hello+`}`))
	if want := fmt.Sprintf(`{"input_tokens":%d}`, said.Usage.Input+said.Usage.Cached); counted.text != want {
		t.Errorf("got %s, want %s", counted.text, want)
	}
}

// TestWrongMessages: errors have Anthropic's schema.
func TestWrongMessages(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Keys = []string{"key"} })
	for _, test := range []struct{ body, want string }{
		{`{"messages":[{"role":"user","content":"Hi"}]}`, `{"type":"error","error":{"type":"invalid_request_error",` +
			`"message":"max_tokens: missing`},
		{`{"max_tokens":9,"model":"no"}`, `{"type":"error","error":{"type":"not_found_error"`},
		{`{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"audio"}]}]}`, `got a block of type \"audio\"`},
		{`{"max_tokens":9,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"all"}}`,
			`want auto, any, tool or none`},
		{`{"max_tokens":9,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"any"},"tools":[{"name":"f",` +
			`"input_schema":{"type":"objekt"}}]}`, `tools.0.function.parameters`},
		{`{"max_tokens":9}`, `messages: got none`},
		{`{"max_tokens":9,"messages":[{"role":"user","content":3}]}`, `want a string or a list of blocks`},
	} {
		if a := post(t, url+messagesPath, test.body, "X-Api-Key", "key"); a.status < 400 ||
			!strings.Contains(a.text, test.want) || !strings.HasPrefix(a.text, `{"type":"error"`) {
			t.Errorf("%s: got %d %s, want %s", test.body, a.status, a.text, test.want)
		}
	}
	if a := post(t, url+messagesPath, `{}`); a.status != 401 ||
		!strings.Contains(a.text, `"type":"authentication_error"`) {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

// TestEmbeddings: vectors have length one, and are equal for equal texts.
func TestEmbeddings(t *testing.T) {
	_, url := start(t, fast, nil)
	type answer struct {
		Data  []struct{ Embedding any }
		Usage struct {
			Tokens int `json:"prompt_tokens"`
		}
	}
	ask := func(members string) (vectors [][]float64, tokens int) {
		t.Helper()
		var a answer
		got := post(t, url+embeddingsPath, `{`+members+`}`)
		if err := json.Unmarshal([]byte(got.text), &a); err != nil || got.status != 200 {
			t.Fatalf("%s: got %d %.300s", members, got.status, got.text)
		}
		for _, item := range a.Data {
			var vector []float64
			switch e := item.Embedding.(type) {
			case string:
				b, err := base64.StdEncoding.DecodeString(e)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(b); i += 4 {
					vector = append(vector, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))))
				}
			case []any:
				for _, x := range e {
					vector = append(vector, x.(float64))
				}
			}
			sum := 0.0
			for _, x := range vector {
				sum += x * x
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Errorf("%s: got length %v", members, sum)
			}
			vectors = append(vectors, vector)
		}
		return vectors, a.Usage.Tokens
	}
	plain, tokens := ask(`"input":["one","two","one"]`)
	packed, _ := ask(`"input":["one","two"],"encoding_format":"base64"`)
	short, _ := ask(`"input":"one","dimensions":7`)
	ids, _ := ask(`"input":[256,111,110,101]`)
	if len(plain) != 3 || tokens != 12 || len(plain[0]) != 1024 || len(short[0]) != 7 {
		t.Errorf("got %d vectors of %d numbers for %d tokens", len(plain), len(plain[0]), tokens)
	}
	for i := range plain[0] {
		if plain[0][i] != plain[2][i] || math.Abs(plain[0][i]-packed[0][i]) > 1e-7 ||
			math.Abs(plain[1][i]-packed[1][i]) > 1e-7 || plain[0][i] != ids[0][i] {
			t.Fatalf("number %d differs", i)
		}
	}
	if plain[0][0] == plain[1][0] {
		t.Error("different texts have the same vector")
	}
	for members, want := range map[string]string{
		`"input":[]`: "input", `"input":"x","dimensions":0`: "dimensions",
		`"input":"x","encoding_format":"int8"`: "encoding_format", `"user":"x"`: "input",
	} {
		if a := post(t, url+embeddingsPath, `{`+members+`}`); a.status != 400 ||
			!strings.Contains(a.text, `"param":"`+want+`"`) {
			t.Errorf("%s: got %d %s", members, a.status, a.text)
		}
	}
}
