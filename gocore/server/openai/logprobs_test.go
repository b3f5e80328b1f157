package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// chunk is an answer, or a part of one, with what it says of tokens.
type chunk struct {
	Prompt  []uint32 `json:"prompt_token_ids"`
	Choices []struct {
		Index          int
		Text           string
		Message, Delta struct{ Content string }
		IDs            []uint32 `json:"token_ids"`
		Prompt         []uint32 `json:"prompt_token_ids"`
		Logprobs       *struct {
			Content []logged
			Tokens  []string
			Own     []*float64           `json:"token_logprobs"`
			Top     []map[string]float64 `json:"top_logprobs"`
			Offsets []int                `json:"text_offset"`
		}
	}
}

// put puts the parts of the only choice together.
func put(t *testing.T, a answer) (whole chunk, text string) {
	t.Helper()
	for line := range strings.Lines(a.text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if line == "" || line == "[DONE]" {
			continue
		}
		var part chunk
		if err := json.Unmarshal([]byte(line), &part); err != nil || a.status != 200 {
			t.Fatalf("%d %s: %v", a.status, line, err)
		}
		whole.Prompt = append(whole.Prompt, part.Prompt...)
		for i, c := range part.Choices {
			text += c.Text + c.Message.Content + c.Delta.Content
			if whole.Choices == nil {
				whole.Choices = part.Choices[:1]
				continue
			}
			into := &whole.Choices[0]
			into.IDs = append(into.IDs, part.Choices[i].IDs...)
			into.Prompt = append(into.Prompt, c.Prompt...)
			if into.Logprobs == nil {
				into.Logprobs = c.Logprobs
			} else if more := c.Logprobs; more != nil {
				l := into.Logprobs
				l.Content, l.Tokens, l.Own = append(l.Content, more.Content...), append(l.Tokens, more.Tokens...),
					append(l.Own, more.Own...)
				l.Top, l.Offsets = append(l.Top, more.Top...), append(l.Offsets, more.Offsets...)
			}
		}
	}
	return whole, text
}

// TestLogprobs: a token of an answer is the most likely one, probabilities sum to less than one, and streams say the
// same.
func TestLogprobs(t *testing.T) {
	_, url := start(t, fast, nil)
	body := `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":30,"logprobs":true,"top_logprobs":5,` +
		`"return_token_ids":true%s}`
	whole, text := put(t, post(t, url+chatPath, fmt.Sprintf(body, "")))
	stream, streamed := put(t, post(t, url+chatPath, fmt.Sprintf(body, `,"stream":true`)))
	c := whole.Choices[0]
	if len(c.Logprobs.Content) != 30 || len(c.IDs) != 30 || len(whole.Prompt) < 10 {
		t.Fatalf("got %+v", whole)
	}
	for i, token := range c.Logprobs.Content {
		sum := 0.0
		for n, other := range token.Top {
			sum += math.Exp(other.Logprob)
			if n == 0 && other.Token != token.Token ||
				n > 0 && (other.Logprob >= token.Top[n-1].Logprob || other.Token == token.Token) {
				t.Errorf("got %+v", token)
			}
		}
		if len(token.Top) != 5 || sum >= 1 || token.Token != text[i:i+1] || len(token.Bytes) != 1 ||
			c.IDs[i] != uint32(text[i]) {
			t.Errorf("token %d: got %+v, %v in all, of %q", i, token, sum, text)
		}
	}
	if s := stream.Choices[0]; streamed != text ||
		fmt.Sprint(*s.Logprobs, s.IDs, stream.Prompt) != fmt.Sprint(*c.Logprobs, c.IDs, whole.Prompt) {
		t.Errorf("got %+v in a stream, want %+v", stream, whole)
	}
	if plain := post(t, url+chatPath, `{"messages":[{"role":"user","content":"Hi"}]}`).
		text; !strings.Contains(plain, `"logprobs":null`) || strings.Contains(plain, "token_ids") {
		t.Errorf("got %s", plain)
	}
}

// TestEchoedLogprobs asks what lm-eval asks: how likely the tokens of a prompt are.
func TestEchoedLogprobs(t *testing.T) {
	_, url := start(t, fast, nil)
	for _, most := range []int{0, 1, 3} {
		body := fmt.Sprintf(`{"prompt":"Rome is","max_tokens":%d,"echo":true,"logprobs":1,"add_special_tokens":false,`+
			`"return_token_ids":true`, most) + `%s}`
		whole, text := put(t, post(t, url+completionsPath, fmt.Sprintf(body, "")))
		stream, streamed := put(t, post(t, url+completionsPath, fmt.Sprintf(body, `,"stream":true`)))
		l := whole.Choices[0].Logprobs
		if !strings.HasPrefix(text, "Rome is") || len(text) != 7+most || strings.Join(l.Tokens, "") != text ||
			len(l.Own) != len(text) || len(l.Top) != len(text) {
			t.Fatalf("%d: got %q, %+v", most, text, whole)
		}
		for i := range l.Tokens {
			if (l.Own[i] == nil) != (i == 0) || l.Offsets[i] != i || i > 0 && l.Top[i][l.Tokens[i]] != *l.Own[i] {
				t.Errorf("%d: token %d: got %+v", most, i, l)
			}
		}
		if len(whole.Choices[0].IDs) != most || string(rune(whole.Choices[0].Prompt[0])) != "R" {
			t.Errorf("%d: got %+v", most, whole)
		}
		a, _ := json.Marshal(whole.Choices[0].Logprobs)
		b, _ := json.Marshal(stream.Choices[0].Logprobs)
		if streamed != text || string(a) != string(b) {
			t.Errorf("%d: got %s in a stream, want %s", most, b, a)
		}
	}
}

// TestTruncatedPrompts: the last tokens are kept, and counted.
func TestTruncatedPrompts(t *testing.T) {
	_, url := start(t, fast, nil)
	a := post(t, url+completionsPath, `{"prompt":"one two three","truncate_prompt_tokens":5,"echo":true,"max_tokens":1}`)
	if !strings.Contains(a.text, `"text":"three`) || !strings.Contains(a.text, `"prompt_tokens":5,`) {
		t.Errorf("got %s", a.text)
	}
	long := strings.Repeat("x", 5000)
	if a := post(t, url+completionsPath, `{"prompt":"`+long+`","truncate_prompt_tokens":4000}`); a.status != 200 {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := post(t, url+chatPath,
		`{"messages":[{"role":"user","content":"Hi"}],"truncate_prompt_tokens":6}`); !strings.Contains(a.text,
		`"prompt_tokens":6,`) {
		t.Errorf("got %s", a.text)
	}
}

// TestShownStops: a stop sequence is a part of the text if the client wants it.
func TestShownStops(t *testing.T) {
	_, url := start(t, fast, nil)
	body := `{"prompt":"x","max_tokens":60,"stop":" "%s}`
	_, hidden := put(t, post(t, url+completionsPath, fmt.Sprintf(body, "")))
	_, shown := put(t, post(t, url+completionsPath, fmt.Sprintf(body, `,"include_stop_str_in_output":true`)))
	if shown != hidden+" " || hidden == "" {
		t.Errorf("got %q and %q", hidden, shown)
	}
}
