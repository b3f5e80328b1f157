package openai

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

const (
	toolsMember = `"tools":[{"type":"function","function":{"name":"weather","parameters":` + city +
		`}},{"type":"function","function":{"name":"now"}}]`
	asking = `"messages":[{"role":"user","content":"Hi"}]`
)

// said is what a chat has got, whole or in a stream.
type said struct {
	content, finish string
	calls           []toolCall
	tokens          int
}

func readChat(t *testing.T, a answer) said {
	t.Helper()
	type part struct {
		Content *string
		Calls   []struct {
			toolCall
			Index int `json:"index"`
		} `json:"tool_calls"`
	}
	type document struct {
		Choices []struct {
			Message, Delta part
			Finish         *string `json:"finish_reason"`
		}
		Usage struct {
			Tokens int `json:"completion_tokens"`
		}
	}
	if a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	var s said
	for line := range strings.Lines(a.text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if line == "" || line == "[DONE]" {
			continue
		}
		var d document
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		s.tokens += d.Usage.Tokens
		for _, c := range d.Choices {
			whole := strings.Contains(line, `"message"`)
			p := c.Delta
			if whole {
				p = c.Message
			}
			if p.Content != nil {
				s.content += *p.Content
			}
			for i, call := range p.Calls {
				if whole {
					call.Index = i
				}
				if call.Index == len(s.calls) {
					s.calls = append(s.calls, toolCall{})
				}
				into := &s.calls[call.Index]
				into.ID += call.ID
				into.Type += call.Type
				into.Function.Name += call.Function.Name
				into.Function.Arguments += call.Function.Arguments
			}
			if c.Finish != nil {
				s.finish = *c.Finish
			}
		}
	}
	return s
}

// TestToolCalls: answers call tools when the request says so, whole and in a stream.
func TestToolCalls(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Answers.MostCalls = 3 })
	for _, c := range []struct {
		choice, names, finish string
		most                  int
	}{
		{`"required"`, "weather|now", "tool_calls", 3},
		{`"required","parallel_tool_calls":false`, "weather|now", "tool_calls", 1},
		{`{"type":"function","function":{"name":"weather"}}`, "weather", "stop", 1},
		{`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function",` +
			`"function":{"name":"now"}}]}}`, "now", "tool_calls", 3},
	} {
		most := 0
		for seed := range 10 {
			body := fmt.Sprintf(`{%s,%s,"tool_choice":%s,"max_tokens":240,"seed":%d%%s}`, asking, toolsMember, c.choice,
				seed)
			whole := readChat(t, post(t, url+chatPath, fmt.Sprintf(body, "")))
			stream := readChat(t, post(t, url+chatPath,
				fmt.Sprintf(body, `,"stream":true,"stream_options":{"include_usage":true}`)))
			most = max(most, len(whole.calls))
			if whole.finish != c.finish || whole.content != "" || len(whole.calls) == 0 {
				t.Errorf("%s: got %+v", c.choice, whole)
			}
			ids := map[string]bool{}
			for i := range whole.calls {
				call := &whole.calls[i]
				ids[call.ID] = true
				want := map[string]string{"weather": `^\{"city": "[^"]*", "days": [1-9]\}$`, "now": `^\{\}$`}[call.Function.Name]
				if !regexp.MustCompile(`^(`+c.names+`)$`).MatchString(call.Function.Name) ||
					!regexp.MustCompile(want).MatchString(call.Function.Arguments) || call.Type != "function" {
					t.Errorf("%s: got %+v", c.choice, call)
				}
				call.ID = ""
			}
			if len(ids) != len(whole.calls) || ids[""] {
				t.Errorf("%s: got ids %v", c.choice, ids)
			}
			for i := range stream.calls {
				stream.calls[i].ID = ""
			}
			if fmt.Sprint(stream) != fmt.Sprint(whole) {
				t.Errorf("%s: streamed %+v, want %+v", c.choice, stream, whole)
			}
		}
		if most != c.most {
			t.Errorf("%s: at most %d calls, want %d", c.choice, most, c.most)
		}
	}
}

// TestNoToolCalls: where it is left to the model, answers call nothing unless the server was started so, and never
// after a result.
func TestNoToolCalls(t *testing.T) {
	never, url := start(t, fast, nil)
	_ = never
	for _, choice := range []string{`"auto"`, `"none"`, `null`} {
		if s := readChat(t,
			post(t, url+chatPath,
				`{`+asking+`,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"objekt"}}}],"tool_choice":`+
					choice+`}`)); s.content == "" || s.calls != nil {
			t.Errorf("%s: got %+v", choice, s)
		}
	}
	_, url = start(t, fast, func(c *Config) { c.Models[0].Answers.ToolCalls = 1 })
	s := readChat(t, post(t, url+chatPath, `{`+asking+`,`+toolsMember+`}`))
	if len(s.calls) != 1 || s.finish != "tool_calls" || s.content != "" {
		t.Errorf("got %+v", s)
	}
	call, _ := json.Marshal(s.calls[0])
	after := fmt.Sprintf(`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[%s]},`+
		`{"role":"tool","tool_call_id":"x","content":"42"}]`, call)
	if s := readChat(t, post(t, url+chatPath, `{`+after+`,`+toolsMember+`}`)); s.calls != nil || s.content == "" ||
		s.finish != "stop" {
		t.Errorf("got %+v", s)
	}
}

// TestWrongTools: what cannot be called is refused by its name.
func TestWrongTools(t *testing.T) {
	_, url := start(t, fast, nil)
	for _, test := range []struct {
		members string
		want    [2]string
	}{
		{`"tool_choice":"required"`, [2]string{"tool_choice", "and no tools"}},
		{`"tool_choice":"sometimes",` + toolsMember, [2]string{"tool_choice", "want auto, none, required"}},
		{`"tool_choice":3,` + toolsMember, [2]string{"tool_choice", "want auto, none, required"}},
		{`"tool_choice":{"type":"custom","custom":{"name":"x"}},` + toolsMember, [2]string{"tool_choice",
			"want auto, none, required"}},
		{`"tool_choice":{"type":"function","function":{"name":"rain"}},` + toolsMember, [2]string{"tool_choice",
			"want one of tools"}},
		{`"tool_choice":{"type":"allowed_tools","mode":"never","tools":[]},` + toolsMember, [2]string{"tool_choice",
			"want auto or required"}},
		{`"tool_choice":"required","tools":[{"type":"web_search"}]`, [2]string{"tools", "none of them is a function"}},
		{`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"objekt"}}}]`,
			[2]string{"tools.0.function.parameters", "at '/type'"}},
		{`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`,
			[2]string{"tools.0.function.parameters", "want a JSON Schema"}},
	} {
		a := post(t, url+chatPath, `{`+asking+`,`+test.members+`}`)
		if a.status != 400 || !strings.Contains(a.text, `"param":"`+test.want[0]+`"`) || !strings.Contains(a.text,
			test.want[1]) {
			t.Errorf("%s: got %d %s, want %s", test.members, a.status, a.text, test.want)
		}
	}
}

// TestCallsOfResponses: /v1/responses has calls as items, whole and in a stream, and takes them back with their
// results.
func TestCallsOfResponses(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Answers.MostCalls = 3 })
	tools := `"tools":[{"type":"function","name":"weather","parameters":` + city + `}]`
	type item struct {
		ID, Type, Status, Name, Arguments string
		Call                              string `json:"call_id"`
	}
	for seed := range 6 {
		body := fmt.Sprintf(`{"input":"Hi",%s,"tool_choice":"required","max_output_tokens":240,"seed":%d%%s}`, tools, seed)
		var whole struct {
			Output []item
			Tools  []any
			Choice string `json:"tool_choice"`
		}
		a := post(t, url+responsesPath, fmt.Sprintf(body, ""))
		if err := json.Unmarshal([]byte(a.text), &whole); err != nil || len(whole.Output) == 0 || len(whole.Tools) != 1 ||
			whole.Choice != "required" {
			t.Fatalf("got %s, %v", a.text, err)
		}
		var deltas, done []string
		for line := range strings.Lines(post(t, url+responsesPath, fmt.Sprintf(body, `,"stream":true`)).text) {
			var event struct {
				Type, Delta, Arguments string
				Index                  int `json:"output_index"`
				Item                   item
			}
			if text, found := strings.CutPrefix(line, "data: "); !found || json.Unmarshal([]byte(text), &event) != nil {
				continue
			}
			switch event.Type {
			case "response.output_item.added":
				deltas = append(deltas, "")
			case "response.function_call_arguments.delta":
				deltas[event.Index] += event.Delta
			case "response.function_call_arguments.done":
				if event.Arguments != deltas[event.Index] {
					t.Errorf("got %s, want %s", event.Arguments, deltas[event.Index])
				}
			case "response.output_item.done":
				done = append(done, event.Item.Arguments)
			}
		}
		for i, call := range whole.Output {
			if call.Type != "function_call" || call.Name != "weather" || call.Call == "" || call.ID == "" ||
				call.Status != "completed" ||
				!regexp.MustCompile(`^\{"city": "[^"]*", "days": [1-9]\}$`).MatchString(call.Arguments) {
				t.Errorf("got %+v", call)
			}
			if i >= len(done) || done[i] != call.Arguments {
				t.Errorf("got %q in a stream, want %s", done, call.Arguments)
			}
		}
	}
	a := post(t, url+responsesPath, `{`+tools+`,"input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[]},
		{"type":"function_call","call_id":"c","name":"weather","arguments":"{}"},{"type":"function_call_output",`+
		`"call_id":"c","output":"42"}]}`)
	if a.status != 200 || !strings.Contains(a.text, `"type":"message"`) {
		t.Errorf("got %d %s", a.status, a.text)
	}
}
