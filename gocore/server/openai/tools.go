package openai

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/conform"
)

// toolChoice is what a request says about calls.
type toolChoice struct {
	mode string   // "auto", "none", "required" or "named"
	only []string // the functions that may be called, nil for all
}

// namedTool is a tool in a choice: as /v1/chat/completions has it, or as /v1/responses does.
type namedTool struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// called returns the name of the function.
func (t *namedTool) called() string {
	if t.Function.Name != "" {
		return t.Function.Name
	}
	return t.Name
}

// parseToolChoice reads tool_choice.
func parseToolChoice(value jsontext.Value) (toolChoice, error) {
	wrong := badRequest("tool_choice", "got %s, want auto, none, required, the name of a function, or allowed tools",
		shortened(value))
	switch value.Kind() {
	case 'n', 0:
		return toolChoice{mode: "auto"}, nil
	case '"':
		var mode string
		if err := json.Unmarshal(value, &mode); err != nil ||
			!slices.Contains([]string{"auto", "none", "required"}, mode) {
			return toolChoice{}, wrong
		}
		return toolChoice{mode: mode}, nil
	case '{':
	default:
		return toolChoice{}, wrong
	}
	type allowed struct {
		Mode  string      `json:"mode"`
		Tools []namedTool `json:"tools"`
	}
	var object struct {
		namedTool `json:",inline"`
		allowed   `json:",inline"`
		Allowed   *allowed `json:"allowed_tools"`
	}
	if err := json.Unmarshal(value, &object); err != nil {
		return toolChoice{}, wrong
	}
	switch {
	case object.Type == "function" && object.called() != "":
		return toolChoice{mode: "named", only: []string{object.called()}}, nil
	case object.Type != "allowed_tools":
		return toolChoice{}, wrong
	}
	list := object.allowed
	if object.Allowed != nil {
		list = *object.Allowed
	}
	if list.Mode != "auto" && list.Mode != "required" || len(list.Tools) == 0 {
		return toolChoice{}, badRequest("tool_choice",
			"got allowed tools with the mode %q, want auto or required, and tools", shortened([]byte(list.Mode)))
	}
	c := toolChoice{mode: list.Mode}
	for i := range list.Tools {
		c.only = append(c.only, list.Tools[i].called())
	}
	return c, nil
}

// tool is a tool as /v1/chat/completions has it, or as /v1/responses does.
type tool struct {
	Type       string         `json:"type"`
	Name       string         `json:"name"`
	Parameters jsontext.Value `json:"parameters"`
	Function   *struct {
		Name       string         `json:"name"`
		Parameters jsontext.Value `json:"parameters"`
	} `json:"function"`
}

// noParameters is the schema of a function that takes none.
const noParameters = `{"type":"object","properties":{},"additionalProperties":false}`

// callable returns the tools that an answer may call, nil for none. Schemas are read only if there may be a call.
func (r *chatRequest) callable(m *Model) (*answers.Tools, error) {
	c, err := parseToolChoice(r.ToolChoice)
	if err != nil {
		return nil, err
	}
	must := c.mode == "required" || c.mode == "named"
	switch {
	case c.mode == "none":
		return nil, nil
	case must && m.elsewhere():
		return nil, badRequest("tool_choice",
			"workers elsewhere decide what answers say, and they make text up; want auto or none, or --standalone")
	case must && len(r.Tools) == 0:
		return nil, badRequest("tool_choice", "got %s and no tools, want functions in tools", shortened(r.ToolChoice))
	case len(r.Tools) == 0 || m.elsewhere() || !must && m.Answers.ToolCalls == 0 && m.Answers.Mode != answers.Recorded:
		return nil, nil
	}
	functions, err := r.functions(c)
	switch {
	case err != nil:
		return nil, err
	case len(functions) == 0 && must:
		return nil, badRequest("tools", "none of them is a function with a name")
	case len(functions) == 0:
		return nil, nil
	}
	t := &answers.Tools{Must: must, Named: c.mode == "named", Parallel: r.Parallel == nil || *r.Parallel,
		Functions: functions}
	if t.Named {
		t.Functions = t.Functions[:1]
	}
	return t, nil
}

// functions reads those of the tools that the choice allows.
func (r *chatRequest) functions(c toolChoice) (list []answers.Function, err error) {
	var names []string
	for i, value := range r.Tools {
		var one tool
		if err := json.Unmarshal(value, &one); err != nil {
			return nil, badRequest(fmt.Sprintf("tools.%d", i), "got %s, want a tool of type function", shortened(value))
		}
		if one.Function != nil {
			one.Name, one.Parameters = one.Function.Name, one.Function.Parameters
		}
		if one.Type != "" && one.Type != "function" || one.Name == "" { // those of a provider are not called here
			continue
		}
		names = append(names, one.Name)
		if c.only != nil && !slices.Contains(c.only, one.Name) {
			continue
		}
		f, err := one.function(i)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	for _, name := range c.only {
		if !slices.Contains(names, name) {
			return nil, badRequest("tool_choice", "got the function %q, want one of tools", shortened([]byte(name)))
		}
	}
	return list, nil
}

// function makes a function of which answers may have calls.
func (t *tool) function(place int) (answers.Function, error) {
	schema := t.Parameters
	if !given(schema) {
		schema = jsontext.Value(noParameters)
	}
	name := fmt.Sprintf("tools.%d.function.parameters", place)
	if schema.Kind() != '{' {
		return answers.Function{}, badRequest(name, "got %s, want a JSON Schema", shortened(schema))
	}
	form, err := conform.Schema(schema)
	if err != nil {
		return answers.Function{}, badRequest(name, "%s", err)
	}
	return answers.Function{Name: t.Name, Arguments: &namedForm{form, name}}, nil
}

// calling is a call in an answer on its way to the client.
type calling struct {
	id    string
	begun bool // the client has its name
}

// eachCall tells which parts of calls the client gets once the text is known up to end, and not only up to from: of
// a call that begins, its place, and then what its arguments have more.
func (c *choice) eachCall(from, end int, begin func(i int, id string), more func(i int, arguments string)) {
	for i := range c.answer.Calls {
		call := &c.answer.Calls[i]
		if len(c.calls) <= i {
			c.calls = append(c.calls, calling{id: newID("call_", "")})
		}
		if end < call.Begin {
			break
		}
		if !c.calls[i].begun {
			c.calls[i].begun = true
			begin(i, c.calls[i].id)
		}
		if piece := between(c.answer.Text, max(from, call.Begin), min(end, call.End)); piece != "" {
			more(i, piece)
		}
	}
}

// arguments returns the text of the arguments of a call, as far as it is known.
func (c *choice) arguments(i int) string {
	call := &c.answer.Calls[i]
	return between(c.answer.Text, call.Begin, min(call.End, c.seen))
}

// appendCalls appends the events of calls that a choice has more with its first to tokens.
func (s *chatShape) appendCalls(b []byte, g *generation, c *choice, from, to int) []byte {
	event := func(members string) {
		b = append(b, s.head...)
		b = append(strconv.AppendInt(append(b, `{"index":`...), int64(c.index), 10), `,"delta":{"tool_calls":[{`...)
		b = c.appendDetails(append(append(b, members...), `}]},`...), g, to)
		b = s.close(append(b, `"finish_reason":null}`...), g)
	}
	c.eachCall(from, c.seen, func(i int, id string) {
		event(fmt.Sprintf(`"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}`, i, quote(id),
			quote(c.answer.Calls[i].Name)))
	}, func(i int, arguments string) {
		event(fmt.Sprintf(`"index":%d,"function":{"arguments":%s}`, i, quote(arguments)))
	})
	return b
}

// toolCall is a call in a whole answer.
type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// toolCalls returns the calls of an answer that is complete.
func (c *choice) toolCalls() (list []toolCall) {
	c.eachCall(0, c.seen, func(i int, id string) {
		call := toolCall{ID: id, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.answer.Calls[i].Name, c.arguments(i)
		list = append(list, call)
	}, func(int, string) {})
	return list
}
