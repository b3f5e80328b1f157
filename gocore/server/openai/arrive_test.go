package openai

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/deployment"
	"dynosim/gocore/server/tokens"
)

// script is a backend that answers as a test says.
type script struct {
	play  func(*backend.Call)
	calls sync.WaitGroup
}

func (s *script) Submit(c *backend.Call) error {
	if s.play == nil {
		return unavailable("no worker has the model")
	}
	s.calls.Go(func() { s.play(c) })
	return nil
}

func (*script) Waiting() int { return 0 }

// frontend starts a server in front of a backend.
func frontend(t *testing.T, play func(*backend.Call)) string {
	t.Helper()
	s := &script{play: play}
	_, url := start(t, fast, func(c *Config) {
		c.Registry = prometheus.NewRegistry()
		m := &Model{Name: "m", MaxLength: 4096, Tokenizer: tokens.Bytes{}, Backend: s, EndTokens: []uint32{257},
			Marks: &answers.Marks{Begin: 1, End: 2}}
		c.Models = []*Model{m}
	})
	t.Cleanup(s.calls.Wait)
	return url
}

// say sends a text token by token.
func say(c *backend.Call, text string) {
	for i := range len(text) {
		c.Arrived([]uint32{uint32(text[i])}, "")
	}
}

// told is what a client has got of the choices of a stream or of a document.
type told struct {
	text, reasoning, finish map[int]string
	usage                   any
}

func tell(parts []map[string]any) told {
	all := told{map[int]string{}, map[int]string{}, map[int]string{}, nil}
	for _, part := range parts {
		choices, _ := part["choices"].([]any)
		for _, c := range choices {
			index := int(at(c, "index").(float64))
			for _, path := range [][]any{{"text"}, {"delta", "content"}, {"message", "content"}} {
				text, _ := at(c, path...).(string)
				all.text[index] += text
			}
			for _, path := range [][]any{{"delta", "reasoning_content"}, {"message", "reasoning_content"}} {
				text, _ := at(c, path...).(string)
				all.reasoning[index] += text
			}
			if finish, _ := at(c, "finish_reason").(string); finish != "" {
				all.finish[index] = finish
			}
		}
		if used := part["usage"]; used != nil {
			all.usage = used
		}
	}
	return all
}

// TestBackendAnswers: what a backend sends is what clients get, streamed and not, on all endpoints.
func TestBackendAnswers(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		play             func(*backend.Call)
		texts            []string
		reasoning        string
		finish           string
		completion       int
	}{
		{"text", "completions", `"prompt":"Hi","max_tokens":50`,
			func(c *backend.Call) { say(c, "Grüße"); c.Arrived(nil, "stop") }, []string{"Grüße"}, "", "stop", 7},
		{"all at once", "completions", `"prompt":"Hi","max_tokens":3`,
			func(c *backend.Call) { c.Arrived([]uint32{'a', 'b', 'c'}, "length") }, []string{"abc"}, "", "length", 3},
		{"no tokens", "completions", `"prompt":"Hi"`, func(c *backend.Call) { c.Arrived(nil, "content_filter") },
			[]string{""}, "", "content_filter", 0},
		{"no tokens in a chat", "chat/completions", `"messages":[{"role":"user","content":"Hi"}]`,
			func(c *backend.Call) { c.Arrived(nil, "stop") }, []string{""}, "", "stop", 0},
		{"echo", "completions", `"prompt":"Hi","echo":true`,
			func(c *backend.Call) { say(c, "!"); c.Arrived(nil, "stop") }, []string{"Hi!"}, "", "stop", 1},
		{
			"stop sequence", "completions", `"prompt":"Hi","stop":["cd"],"max_tokens":50`,
			func(c *backend.Call) { say(c, "abcacdef"); <-c.Context().Done() }, []string{"abca"}, "", "stop", 6,
		},
		{"end token", "completions", `"prompt":"Hi","max_tokens":50`,
			func(c *backend.Call) { say(c, "ab"); c.Arrived([]uint32{257}, "stop") }, []string{"ab"}, "", "stop", 3},
		{
			"end token ignored", "completions",
			`"prompt":"Hi","max_tokens":3,"ignore_eos":true,"skip_special_tokens":false`,
			func(c *backend.Call) { say(c, "ab"); c.Arrived([]uint32{257}, "length") }, []string{"ab<|end_of_text|>"},
			"", "length", 3,
		},
		{
			"several", "completions", `"prompt":["Hi","Ho"],"n":2`,
			func(c *backend.Call) { say(c, c.Request.ID[len(c.Request.ID)-1:]); c.Arrived(nil, "stop") },
			[]string{"0", "1", "2", "3"}, "", "stop", 4,
		},
		{
			"reasoning", "chat/completions", `"messages":[{"role":"user","content":"Hi"}]`,
			func(c *backend.Call) { say(c, "\x01why\x02so"); c.Arrived(nil, "stop") }, []string{"so"}, "why", "stop", 7,
		},
	} {
		url := frontend(t, c.play) + "/v1/" + c.path
		whole := post(t, url, `{"model":"m",`+c.body+`}`).json(t)
		streamed := events(t, post(t, url,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},`+c.body+`}`))
		for form, parts := range map[string][]map[string]any{"whole": {whole}, "streamed": streamed} {
			got := tell(parts)
			for i, want := range c.texts {
				if got.text[i] != want || got.reasoning[i] != c.reasoning || got.finish[i] != c.finish {
					t.Errorf("%s, %s: got %q, %q, %q", c.name, form, got.text[i], got.reasoning[i], got.finish[i])
				}
			}
			if at(got.usage, "completion_tokens") != float64(c.completion) {
				t.Errorf("%s, %s: got %v", c.name, form, got.usage)
			}
		}
	}
}

// TestBackendResponses: /v1/responses shows what a backend sends.
func TestBackendResponses(t *testing.T) {
	url := frontend(t, func(c *backend.Call) { c.Admitted(5); say(c, "hello"); c.Arrived(nil, "stop") }) +
		"/v1/responses"
	got := post(t, url, `{"model":"m","input":"Hi"}`).text
	for _, want := range []string{`"text":"hello"`, `"status":"completed"`, `"cached_tokens":5`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	got = post(t, url, `{"model":"m","input":"Hi","stream":true}`).text
	for _, want := range []string{`"type":"response.output_text.done"`, `"text":"hello"`,
		`"type":"response.completed"`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestBackendFails: an error before the first token is an answer, one after it an event, and no worker at all is 503.
func TestBackendFails(t *testing.T) {
	body := `{"model":"m","prompt":"Hi","stream":%v}`
	lost := func(c *backend.Call) { c.Fail(deployment.Failure{Reason: "the worker has gone", Shutdown: true}) }
	for _, stream := range []bool{false, true} {
		if got := post(t, frontend(t, lost)+"/v1/completions", fmt.Sprintf(body, stream)); got.status != 503 ||
			!strings.Contains(got.text, "has gone") {
			t.Errorf("got %d %s", got.status, got.text)
		}
		if got := post(t, frontend(t, nil)+"/v1/completions", fmt.Sprintf(body, stream)); got.status != 503 ||
			!strings.Contains(got.text, "no worker") {
			t.Errorf("got %d %s", got.status, got.text)
		}
	}
	seen := make(chan struct{})
	url := frontend(t, func(c *backend.Call) { say(c, "x"); <-seen; lost(c) })
	response, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(body, true)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"text":"x"`) {
		t.Errorf("got %s", lines.Text())
	}
	close(seen)
	rest := ""
	for lines.Scan() {
		rest += lines.Text() + "\n"
	}
	if !strings.Contains(rest, "has gone") || !strings.Contains(rest, "service_unavailable") ||
		!strings.HasSuffix(rest, "data: [DONE]\n\n") {
		t.Errorf("got %s", rest)
	}
}

// TestBackendLearnsThatClientsLeave: the context of a call is done once nothing reads its answer.
func TestBackendLearnsThatClientsLeave(t *testing.T) {
	begun, cancelled := make(chan struct{}), make(chan struct{})
	url := frontend(t, func(c *backend.Call) {
		close(begun)
		say(c, "x")
		<-c.Context().Done()
		close(cancelled)
		c.Arrived([]uint32{'y'}, "stop") // nothing takes it
	})
	leave := begin(t, url+"/v1/completions", `{"model":"m","prompt":"Hi","stream":true}`)
	<-begun
	leave()
	<-cancelled
}
