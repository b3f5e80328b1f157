package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const city = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer",` +
	`"minimum":1,"maximum":9}},` +
	`"required":["city","days"],"additionalProperties":false}`

// forms are what requests may say about the form of answers, and what answers then match.
var forms = []struct{ member, matches string }{
	{`"response_format":{"type":"json_object"}`, `^\{.+\}$`},
	{`"response_format":{"type":"json_schema","json_schema":{"name":"c","strict":true,"schema":` + city + `}}`,
		`^\{"city": "[^"]*", "days": [1-9]\}$`},
	{`"structured_outputs":{"json":` + city + `}`, `^\{"city": "[^"]*", "days": [1-9]\}$`},
	{`"guided_json":` + fmt.Sprintf("%q", city), `^\{"city": "[^"]*", "days": [1-9]\}$`},
	{`"structured_outputs":{"regex":"[a-c]{3}-\\d+"}`, `^[a-c]{3}-\d+$`},
	{`"guided_regex":"[a-c]{3}-\\d+"`, `^[a-c]{3}-\d+$`},
	{`"regex":"[a-c]{3}-\\d+"`, `^[a-c]{3}-\d+$`},
	{`"structured_outputs":{"choice":["red","green"]}`, `^(red|green)$`},
	{`"guided_choice":["red","green"]`, `^(red|green)$`},
	{`"structured_outputs":{"json_object":true}`, `^\{.+\}$`},
}

// TestForms: answers have the form that is demanded, and as many tokens as are asked for where it allows that; streams
// say the same.
func TestForms(t *testing.T) {
	_, url := start(t, fast, nil)
	for _, f := range forms {
		for _, path := range []string{chatPath, completionsPath} {
			prompt := `"messages":[{"role":"user","content":"Hi"}]`
			if path == completionsPath {
				prompt = `"prompt":"Hi"`
			}
			body := `{` + prompt + `,` + f.member + `,"max_tokens":60,"seed":3%s}`
			a := post(t, url+path, fmt.Sprintf(body, ""))
			var whole struct {
				Choices []struct {
					Message struct{ Content string }
					Text    string
					Finish  string `json:"finish_reason"`
				}
				Usage struct {
					Tokens int `json:"completion_tokens"`
				}
			}
			if a.status != 200 || json.Unmarshal([]byte(a.text), &whole) != nil {
				t.Errorf("%s %s: %d %s", path, f.member, a.status, a.text)
				continue
			}
			text := whole.Choices[0].Message.Content + whole.Choices[0].Text
			if !regexp.MustCompile(f.matches).MatchString(text) || whole.Choices[0].Finish != "stop" ||
				whole.Usage.Tokens != len(text) {
				t.Errorf("%s %s: %s", path, f.member, a.text)
			}
			if !strings.Contains(f.member, "choice") && len(text) != 60 {
				t.Errorf("%s %s: %d tokens, want 60: %s", path, f.member, len(text), text)
			}
			streamed := post(t, url+path, fmt.Sprintf(body, `,"stream":true`)).text
			var again strings.Builder
			for _, part := range regexp.MustCompile(`"(?:content|text)":("(?:[^"\\]|\\.)*")`).
				FindAllStringSubmatch(streamed, -1) {
				var piece string
				if err := json.Unmarshal([]byte(part[1]), &piece); err != nil {
					t.Fatal(err)
				}
				again.WriteString(piece)
			}
			if again.String() != text {
				t.Errorf("%s %s: streamed %s, want %s", path, f.member, again.String(), text)
			}
		}
	}
}

// TestFormIsCutOff: a form does not make an answer longer than it may be.
func TestFormIsCutOff(t *testing.T) {
	_, url := start(t, fast, nil)
	a := post(t, url+chatPath, `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":9,"guided_json":`+city+`}`)
	if !strings.Contains(a.text, `"content":"{\"city\": "`) || !strings.Contains(a.text, `"finish_reason":"length"`) {
		t.Errorf("got %s", a.text)
	}
}

// TestImpossibleForms: what cannot be fulfilled is refused by its name.
func TestImpossibleForms(t *testing.T) {
	_, url := start(t, fast, nil)
	for _, test := range []struct {
		member string
		want   [2]string
	}{
		{`"response_format":{"type":"json_schema"}`, [2]string{"response_format",
			"no schema"}},
		{`"response_format":{"type":"structural_tag"}`, [2]string{"response_format",
			`got the type \"structural_tag\"`}},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"objekt"}}}`, [2]string{"response_format",
			"at '/type': value must be one of"}},
		{`"guided_json":{"$ref":"file:///etc/hosts"}`, [2]string{"guided_json",
			"is another document"}},
		{`"guided_json":"{"`, [2]string{"guided_json", "no JSON"}},
		{`"structured_outputs":{"json":{"type":"integer","minimum":3,"maximum":2}}`, [2]string{"",
			"structured_outputs.json: no number"}},
		{`"structured_outputs":{"json":{"type":"string","minLength":1000000}},"max_tokens":100`, [2]string{"", ""}},
		{`"structured_outputs":{"regex":"("}`, [2]string{"structured_outputs.regex", "missing closing"}},
		{`"guided_choice":[]`, [2]string{"guided_choice",
			"got 0 choices"}},
		{`"structured_outputs":{"grammar":"root ::= \"a\""}`, [2]string{"structured_outputs.grammar",
			"no parser of grammars"}},
		{`"guided_grammar":"root ::= \"a\""`, [2]string{"guided_grammar",
			"no parser of grammars"}},
		{`"ebnf":"root ::= \"a\""`, [2]string{"ebnf", "not supported"}},
		{`"structured_outputs":{"structural_tag":"x"}`, [2]string{"structured_outputs.structural_tag", "not supported"}},
		{`"structured_outputs":{"regex":"a","choice":["a"]}`, [2]string{"structured_outputs.choice", "one form only"}},
		{`"guided_regex":"a","response_format":{"type":"json_object"}`, [2]string{"guided_regex",
			"response_format, guided_regex are given"}},
		{`"structured_outputs":{"regex":3}`, [2]string{"structured_outputs.regex", "want a string"}},
	} {
		a := post(t, url+chatPath, `{"messages":[{"role":"user","content":"Hi"}],`+test.member+`}`)
		if test.want[1] == "" { // it is possible, and cut off
			if a.status != 200 || !strings.Contains(a.text, `"finish_reason":"length"`) {
				t.Errorf("%s: got %d %.200s", test.member, a.status, a.text)
			}
			continue
		}
		if a.status != 400 || !strings.Contains(a.text, test.want[1]) ||
			test.want[0] != "" && !strings.Contains(a.text, `"param":"`+test.want[0]+`"`) {
			t.Errorf("%s: got %d %s, want %s", test.member, a.status, a.text, test.want)
		}
	}
	a := post(t, url+responsesPath, `{"input":"Hi","text":{"format":{"type":"json_schema","name":"c",`+
		`"schema":{"type":"objekt"}}}}`)
	if a.status != 400 || !strings.Contains(a.text, `"param":"text.format"`) {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

// TestResponseInAForm: /v1/responses has the form in text.format.
func TestResponseInAForm(t *testing.T) {
	_, url := start(t, fast, nil)
	body := `{"input":"Hi","max_output_tokens":70,"text":{"format":{"type":"json_schema","name":"c","strict":true,` +
		`"schema":` + city + `}}}`
	r, err := http.Post(url+responsesPath, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, _ := io.ReadAll(r.Body)
	var whole struct {
		Status string
		Output []struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(text, &whole); err != nil || whole.Status != "completed" {
		t.Fatalf("got %s, %v", text, err)
	}
	if said := whole.Output[0].Content[0].Text; len(said) != 70 ||
		!regexp.MustCompile(`^\{"city": "[^"]*", "days": [1-9]\}$`).MatchString(said) {
		t.Errorf("got %s", said)
	}
}
