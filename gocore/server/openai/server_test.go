package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/cluster"
	"dynosim/gocore/server/deployment"
	"dynosim/gocore/server/tokens"
)

// fast are engine arguments with which an answer takes no time that matters; slow is one that never ends.
const (
	fast = `{"block_size":16,"num_gpu_blocks":4096,"speedup_ratio":1000}`
	slow = `{"block_size":16,"num_gpu_blocks":4096,"speedup_ratio":0.001}`
)

// newModel starts a model with a worker of its own.
func newModel(t *testing.T, name, arguments string, registry *prometheus.Registry) *Model {
	t.Helper()
	args, _, err := engineargs.ParseLive(arguments)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Name: name, Args: args, MaxLength: 4096, Tokenizer: tokens.Bytes{}}
	m.Answers = answers.Source{Tokenizer: m.Tokenizer, Standard: 16}
	var load *enginemetrics.LoadMetrics
	if registry != nil {
		load, m.Latencies = enginemetrics.New(registry, args, false).Rank(name, "0", 0, &args)
	}
	m.Workers = NewWorkers()
	m.Workers.AddPool("", &args, 1)
	c := cluster.New(cluster.Config{
		Pools: []cluster.Pool{{Args: args, Workers: 1, Setup: func(int) engine.Setup { return engine.Setup{} }}},
		Loaded: func(pool, worker int, l cluster.Load) {
			m.Workers.Changed(pool, worker, l)
			if load != nil {
				load.LoadChanged(enginemetrics.Load{Waiting: l.Waiting, Running: l.Running, UsedBlocks: l.UsedBlocks})
			}
		},
	})
	m.Deployment = deployment.Start(c, nil, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	t.Cleanup(m.Deployment.Close)
	return m
}

// serverOf makes a server with one model; change changes its configuration, nil for no change.
func serverOf(t *testing.T, arguments string, change func(*Config)) *Server {
	t.Helper()
	registry := prometheus.NewRegistry()
	c := Config{
		Models: []*Model{newModel(t, "m", arguments, registry)}, MaxBody: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Registry: registry,
	}
	if change != nil {
		change(&c)
	}
	return New(c)
}

// start starts a server that listens.
func start(t *testing.T, arguments string, change func(*Config)) (*Server, string) {
	t.Helper()
	s := serverOf(t, arguments, change)
	l, err := s.Listen(Address{Listen: "127.0.0.1:0", MaxConnections: 2000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.Close(ctx)
	})
	return s, "http://" + l.Addr().String()
}

type answer struct {
	status int
	header http.Header
	text   string
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal([]byte(a.text), &value); err != nil {
		t.Fatalf("%s: %v", a.text, err)
	}
	return value
}

func post(t *testing.T, url, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// events returns the data of a stream, without the mark at its end.
func events(t *testing.T, a answer) (list []map[string]any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("got %d: %s", a.status, a.text)
	}
	for line := range strings.Lines(a.text) {
		data, found := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !found || data == "[DONE]" {
			continue
		}
		list = append(list, answer{text: data}.json(t))
	}
	return list
}

// at follows a path of keys and indices.
func at(value any, path ...any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[key]
		case int:
			list, _ := value.([]any)
			if key >= len(list) {
				return nil
			}
			value = list[key]
		}
	}
	return value
}

// TestStreamedAndNot: a stream has the same text as a document, and as many tokens.
func TestStreamedAndNot(t *testing.T) {
	_, url := start(t, fast, nil)
	for _, c := range []struct{ path, body, delta, whole, used string }{
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"Hi"}],"max_tokens":40`, "delta content",
			"message content", "completion_tokens"},
		{"/v1/completions", `"prompt":"Hi","max_tokens":40`, "text", "text", "completion_tokens"},
	} {
		whole := post(t, url+c.path, "{"+c.body+"}").json(t)
		text := at(whole, append([]any{"choices", 0}, steps(c.whole)...)...).(string)
		stream := post(t, url+c.path, "{"+c.body+`,"stream":true,"stream_options":{"include_usage":true}}`)
		if !strings.HasSuffix(stream.text, "data: [DONE]\n\n") ||
			!strings.HasPrefix(stream.header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s: got %v, %s", c.path, stream.header, stream.text)
		}
		var joined, finish string
		var used any
		for _, e := range events(t, stream) {
			if part, ok := at(e, append([]any{"choices", 0}, steps(c.delta)...)...).(string); ok {
				joined += part
			}
			if reason, ok := at(e, "choices", 0, "finish_reason").(string); ok {
				finish = reason
			}
			if n := at(e, "usage", c.used); n != nil {
				used = n
			}
		}
		if len(text) != 40 || joined != text || finish != "length" || used != 40.0 ||
			at(whole, "usage", c.used) != 40.0 {
			t.Errorf("%s: got %q, %q, %q, %v", c.path, text, joined, finish, used)
		}
	}
}

func steps(path string) (list []any) {
	for word := range strings.FieldsSeq(path) {
		list = append(list, word)
	}
	return list
}

func TestResponses(t *testing.T) {
	_, url := start(t, fast, nil)
	const body = `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}],` +
		`"instructions":"Be brief.","max_output_tokens":20`
	whole := post(t, url+"/v1/responses", body+"}").json(t)
	text := at(whole, "output", 0, "content", 0, "text").(string)
	if len(text) != 20 || whole["status"] != "incomplete" || at(whole, "usage", "output_tokens") != 20.0 {
		t.Fatalf("got %v", whole)
	}
	joined, kinds := "", []string{}
	for n, e := range events(t, post(t, url+"/v1/responses", body+`,"stream":true}`)) {
		if e["sequence_number"] != float64(n) {
			t.Errorf("event %d has number %v", n, e["sequence_number"])
		}
		if kind := e["type"].(string); kind == "response.output_text.delta" {
			joined += e["delta"].(string)
		} else {
			kinds = append(kinds, strings.TrimPrefix(kind, "response."))
		}
	}
	want := "created in_progress output_item.added content_part.added output_text.done content_part.done " +
		"output_item.done incomplete"
	if got := strings.Join(kinds, " "); joined != text || got != want {
		t.Errorf("got %q, %s", joined, got)
	}
	if post(t, url+"/v1/responses", `{"input":"Hi"}`).json(t)["status"] != "completed" {
		t.Error("an answer that ends by itself is not complete")
	}
}

// TestRefused: what is wrong with a request is said in the schema of OpenAI.
func TestRefused(t *testing.T) {
	_, url := start(t, fast, nil)
	const chat, hello = "/v1/chat/completions", `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []struct {
		path, body  string
		status      int
		param, says string
	}{
		{chat, `{`, 400, "", "no JSON object"},
		{chat, `[]`, 400, "", "want an object"},
		{chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", 400, "", "UTF-8"},
		{chat, `{` + hello + `,` + hello + `}`, 400, "messages", "there twice"},
		{chat, `{}`, 400, "messages", "at least one message"},
		{chat, `{"messages":[{"content":"Hi"}]}`, 400, "messages", "no role"},
		{chat, `{"messages":[{"role":"user","content":7}]}`, 400, "messages.0.content", "got 7"},
		{chat, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "messages.0.content",
			"image_url"},
		{chat, `{"model":"x",` + hello + `}`, 404, "model", "does not exist"},
		{chat, `{"max_tokens":0,` + hello + `}`, 400, "max_tokens", "integer from 1"},
		{chat, `{"max_tokens":"many",` + hello + `}`, 400, "max_tokens", "want an integer"},
		{chat, `{"max_tokens":1.5,` + hello + `}`, 400, "max_tokens", "want an integer"},
		{chat, `{"max_tokens":5000,` + hello + `}`, 400, "max_tokens", "maximum context length is 4096"},
		{chat, `{"max_tokens":5,"min_tokens":6,` + hello + `}`, 400, "min_tokens", "at most 5"},
		{chat, `{"n":0,` + hello + `}`, 400, "n", "from 1"},
		{chat, `{"stop":[""],` + hello + `}`, 400, "stop", "empty"},
		{chat, `{"stop":5,` + hello + `}`, 400, "stop", "list of strings"},
		{chat, `{"temperature":-1,` + hello + `}`, 400, "temperature", ">= 0"},
		{chat, `{"logprobs":true,"top_logprobs":21,` + hello + `}`, 400, "top_logprobs", "from 0 to 20"},
		{chat, `{"top_logprobs":2,` + hello + `}`, 400, "top_logprobs", "only with logprobs"},
		{chat, `{"prompt_logprobs":1,` + hello + `}`, 400, "prompt_logprobs", "echo and logprobs"},
		{chat, `{"use_beam_search":true,` + hello + `}`, 400, "use_beam_search", "not supported"},
		{chat, `{"allowed_token_ids":[1],` + hello + `}`, 400, "allowed_token_ids", "not supported"},
		{chat, `{"bad_words":["x"],` + hello + `}`, 400, "bad_words", "not supported"},
		{chat, `{"modalities":["text","audio"],` + hello + `}`, 400, "modalities", "want text"},
		{chat, `{"audio":{"voice":"x"},` + hello + `}`, 400, "audio", "not supported"},
		{chat, `{"chat_template":"x",` + hello + `}`, 400, "chat_template", "not supported"},
		{chat, `{"functions":[{"name":"f"}],` + hello + `}`, 400, "functions", "want tools"},
		{chat, `{"function_call":"auto",` + hello + `}`, 400, "function_call", "want tool_choice"},
		{chat, `{"documents":[{"text":"a"}],` + hello + `}`, 400, "documents", "not supported"},
		{chat, `{"web_search_options":{},` + hello + `}`, 400, "web_search_options", "not supported"},
		{chat, `{"echo":true,` + hello + `}`, 400, "echo", "not supported"},
		{chat, `{"logits_processors":["a"],` + hello + `}`, 400, "logits_processors", "not supported"},
		{chat, `{"return_tokens_as_token_ids":true,` + hello + `}`, 400, "return_tokens_as_token_ids", "not supported"},
		{chat, `{"prompt_embeds":"a",` + hello + `}`, 400, "prompt_embeds", "not supported"},
		{chat, `{"continue_final_message":true,` + hello + `}`, 400, "continue_final_message", "not supported"},
		{chat, `{"truncate_prompt_tokens":0,` + hello + `}`, 400, "truncate_prompt_tokens", "want -1 or"},
		{chat, `{"truncate_prompt_tokens":5000,` + hello + `}`, 400, "truncate_prompt_tokens", "to 4096"},
		{chat, `{"logprobs":true,"top_logprobs":20,"n":128,"max_tokens":4000,` + hello + `}`, 400, "logprobs",
			"want at most 1048576"},
		{"/v1/responses", `{"input":"x","top_logprobs":2}`, 400, "top_logprobs", "not supported by /v1/responses"},
		{chat, `{"tools":[{}],` + hello + `}`, 400, "tools.0.function.name", "missing, want the name of a function"},
		{chat, `{"tools":[7],` + hello + `}`, 400, "tools.0", "got a number, want an object"},
		{chat, `{"tools":[{"type":"function","name":"f"},{"type":"function","function":{"name":5}}],` + hello + `}`, 400,
			"tools.1.function.name", "got a number, want a string"},
		{chat, `{"tools":[{"function":"f"}],` + hello + `}`, 400, "tools.0.function", "want an object"},
		{"/v1/responses", `{"input":"x","tools":[{"type":"function","name":5}]}`, 400, "tools.0.name",
			"got a number, want a string"},
		{chat, `{"response_format":{"type":"yaml"},` + hello + `}`, 400, "response_format",
			"want text, json_object or json_schema"},
		{chat, `{"stream_options":{},` + hello + `}`, 400, "stream_options", "stream true"},
		{chat, `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 5000) + `"}]}`, 400, "",
			"maximum context length"},
		{chat, `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "", "larger than"},
		{"/v1/completions", `{}`, 400, "prompt", "missing"},
		{"/v1/completions", `{"prompt":[[999]]}`, 400, "prompt", "out of the vocabulary"},
		{"/v1/completions", `{"prompt":"x","logprobs":21}`, 400, "logprobs", "from 0 to 20"},
		{"/v1/completions", `{"prompt":"x","max_tokens":0}`, 400, "max_tokens", "integer from 1"},
		{"/v1/completions", `{"prompt":"x","suffix":"y"}`, 400, "suffix", "not supported"},
		{"/v1/responses", `{"input":"x","previous_response_id":"y"}`, 400, "previous_response_id",
			"keeps no responses"},
		{"/v1/responses", `{"input":"x","conversation":"c"}`, 400, "conversation", "this server keeps none"},
		{"/v1/responses", `{"input":"x","prompt":{"id":"p"}}`, 400, "prompt", "keeps no templates"},
		{"/tokenize", `{}`, 400, "prompt", "missing"},
		{"/detokenize", `{"tokens":[1000]}`, 400, "tokens", "out of the vocabulary"},
		{"/v1/load_lora_adapter", `{}`, 400, "lora_name", "missing"},
		{"/v1/unload_lora_adapter", `{"lora_name":"x"}`, 404, "", "not loaded"},
		{"/v1/nothing", `{}`, 404, "", "there is no"},
		{"/v1/models", `{}`, 405, "", "want method GET"},
	} {
		got := post(t, url+c.path, c.body)
		shown := c.body[:min(len(c.body), 80)]
		message, _ := at(got.json(t), "error", "message").(string)
		param, _ := at(got.json(t), "error", "param").(string)
		if got.status != c.status || !strings.Contains(message, c.says) || param != c.param ||
			at(got.json(t), "error", "type") != "invalid_request_error" {
			t.Errorf("%s %s: got %d %s", c.path, shown, got.status, got.text)
		}
	}
}

// TestAccepted: parameters that have no effect here are accepted.
func TestAccepted(t *testing.T) {
	_, url := start(t, fast, nil)
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"Hi"}],"top_k":5,"frequency_penalty":1,"logit_bias":{},"user":"u",` +
			`"seed":-1,"kv_transfer_params":{"do_remote_decode":true},"tools":[{"type":"function","function":{"name":"f"}}],` +
			`"tool_choice":"auto"}`,
		`{"messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},` +
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"x"}],` +
			`"max_completion_tokens":3}`,
		`{"messages":[{"role":"user","content":"Hi"}],"stop":null,"n":null,"temperature":0,"top_p":1,"max_tokens":null,` +
			`"response_format":{"type":"text"}}`,
	} {
		if got := post(t, url+"/v1/chat/completions", body); got.status != 200 {
			t.Errorf("%s: got %d %s", body, got.status, got.text)
		}
	}
}

func TestChoicesAndStops(t *testing.T) {
	_, url := start(t, fast, nil)
	got := post(t, url+"/v1/completions", `{"prompt":["a","b"],"n":2,"max_tokens":30}`).json(t)
	texts := map[string]bool{}
	for i, c := range got["choices"].([]any) {
		texts[at(c, "text").(string)] = true
		if at(c, "index") != float64(i) {
			t.Errorf("choice %d: got %v", i, c)
		}
	}
	if len(texts) != 4 || at(got, "usage", "completion_tokens") != 120.0 || at(got, "usage", "prompt_tokens") != 4.0 {
		t.Errorf("got %v", got)
	}
	plain := at(post(t, url+"/v1/completions", `{"prompt":"a","max_tokens":60}`).json(t), "choices", 0, "text").(string)
	word := strings.Fields(plain)[2]
	for _, stream := range []string{"", `,"stream":true`} {
		stopped := post(t, url+"/v1/completions",
			fmt.Sprintf(`{"prompt":"a","max_tokens":60,"stop":[%q]%s}`, word, stream))
		text, reason := "", ""
		for _, e := range events(t, answer{200, nil,
			"data: " + strings.ReplaceAll(stopped.text, "data: ", "\ndata: ")}) {
			text += at(e, "choices", 0, "text").(string)
			if r, ok := at(e, "choices", 0, "stop_reason").(string); ok {
				reason = r
			}
		}
		if want := plain[:strings.Index(plain, word)]; text != want || reason != word {
			t.Errorf("stop %q%s: got %q, %q, want %q", word, stream, text, reason, want)
		}
	}
	late := post(t, url+"/v1/completions",
		fmt.Sprintf(`{"prompt":"a","max_tokens":60,"stop":%q,"min_tokens":59}`, word)).json(t)
	if n := at(late, "usage", "completion_tokens").(float64); n < 59 {
		t.Errorf("got %v tokens, want at least 59", n)
	}
}

// TestPrefixCache: what a second request finds in the cache is in its usage, and adapters share nothing.
func TestPrefixCache(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Adapters, c.Models[0].MaxAdapters = []string{"lora"}, 4 })
	prompt := strings.Repeat("All work and no play. ", 20)
	cached := func(model string) any {
		body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":2}`, model, prompt)
		return at(post(t, url+"/v1/completions", body).json(t), "usage", "prompt_tokens_details", "cached_tokens")
	}
	whole := float64((len(prompt) + 1) / 16 * 16)
	for i, c := range []struct {
		model string
		want  float64
	}{{"m", 0}, {"m", whole}, {"lora", 0}, {"lora", whole}} {
		if got := cached(c.model); got != c.want {
			t.Errorf("request %d, %s: got %v cached tokens, want %v", i, c.model, got, c.want)
		}
	}
	for _, path := range []string{"/v1/unload_lora_adapter", "/v1/load_lora_adapter"} {
		if got := post(t, url+path, `{"lora_name":"lora","lora_path":"p"}`); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.text)
		}
	}
	if got := cached("lora"); got != 0.0 {
		t.Errorf("an adapter that was loaded anew finds %v tokens of the old one", got)
	}
	if got := post(t, url+"/v1/load_lora_adapter", `{"lora_name":"m"}`); got.status != 400 {
		t.Errorf("an adapter has the name of a model: got %d", got.status)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("still not: " + what)
		}
	}
}

// begin sends a request whose answer does not end, and returns how to go away.
func begin(t *testing.T, url, body string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		if response, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

const endless = `{"prompt":"x","max_tokens":1000,"stream":true}`

// TestClientsThatLeave: their calls end.
func TestClientsThatLeave(t *testing.T) {
	s, url := start(t, slow, nil)
	d := s.config.Models[0].Deployment
	var leave []func()
	for range 20 {
		leave = append(leave, begin(t, url+"/v1/completions", endless))
	}
	eventually(t, "20 calls are open", func() bool { return d.Open() == 20 })
	for _, cancel := range leave {
		cancel()
	}
	eventually(t, "all calls have ended", func() bool { return d.Open() == 0 && d.Waiting() == 0 && s.InFlight() == 0 })
}

// TestFullQueue: more requests than may wait get 429, with the time after which to try again.
func TestFullQueue(t *testing.T) {
	one := strings.Replace(slow, "{", `{"max_num_seqs":1,`, 1)
	s, url := start(t, one, func(c *Config) { c.MaxQueue = 2 })
	d := s.config.Models[0].Deployment
	defer begin(t, url+"/v1/completions", endless)()
	eventually(t, "one runs", func() bool { return d.Open() == 1 && d.Waiting() == 0 })
	defer begin(t, url+"/v1/completions", endless)()
	defer begin(t, url+"/v1/completions", endless)()
	eventually(t, "two wait", func() bool { return d.Waiting() == 2 })
	got := post(t, url+"/v1/completions", endless)
	if got.status != 429 || got.header.Get("Retry-After") == "" ||
		at(got.json(t), "error", "type") != "rate_limit_error" {
		t.Errorf("got %d %v %s", got.status, got.header, got.text)
	}
}

// TestDraining: requests are turned away, and those that are being answered go on.
func TestDraining(t *testing.T) {
	s, url := start(t, fast, nil)
	s.Drain()
	for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
		if got := post(t, url+path, endless); got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %v", path, got.status, got.header)
		}
	}
	if got := get(t, url+"/health"); got.status != 503 {
		t.Errorf("/health: got %d", got.status)
	}
	if got := get(t, url+"/live"); got.status != 200 {
		t.Errorf("/live: got %d", got.status)
	}
}

func get(t *testing.T, url string) answer {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}
}

// TestOpenMetrics: the page of metrics is OpenMetrics if that is asked for.
func TestOpenMetrics(t *testing.T) {
	_, url := start(t, fast, nil)
	r, err := http.NewRequest(http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/openmetrics-text") ||
		!bytes.HasSuffix(text, []byte("# EOF\n")) {
		t.Errorf("got %v, %s", err, text)
	}
	if got := get(t, url+"/metrics"); !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
		t.Errorf("got %s", got.header.Get("Content-Type"))
	}
}

func TestKeys(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Keys = []string{"one", "two"} })
	const body = `{"prompt":"x"}`
	for header, want := range map[string]int{"Bearer one": 200, "Bearer two": 200, "bearer one": 200,
		"Bearer  two": 200, "Basic one": 401, "Bearer three": 401, "Bearer": 401, "one": 401, "": 401} {
		got := post(t, url+"/v1/completions", body, "Authorization", header)
		if got.status != want || want == 401 && at(got.json(t), "error", "code") != "invalid_api_key" {
			t.Errorf("%q: got %d %s", header, got.status, got.text)
		}
	}
	if got := get(t, url+"/v1/models"); got.status != 401 {
		t.Errorf("/v1/models: got %d", got.status)
	}
	for _, path := range []string{"/health", "/metrics"} {
		if got := get(t, url+path); got.status != 200 {
			t.Errorf("%s: got %d", path, got.status)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	_, url := start(t, fast, nil)
	if got := post(t, url+"/v1/completions", `{"prompt":"x"}`, requestID, "mine"); got.header.Get(requestID) != "mine" {
		t.Errorf("got %q", got.header.Get(requestID))
	}
	if got := post(t, url+"/v1/completions", `{}`); got.header.Get(requestID) == "" {
		t.Error("an error has no id")
	}
}

func TestTimeout(t *testing.T) {
	s, url := start(t, slow, func(c *Config) { c.Timeout = 50 * time.Millisecond })
	if got := post(t, url+"/v1/completions", `{"prompt":"x"}`); got.status != 504 ||
		at(got.json(t), "error", "code") != "timeout" {
		t.Errorf("got %d %s", got.status, got.text)
	}
	eventually(t, "the call has ended", func() bool { return s.config.Models[0].Deployment.Open() == 0 })
}

func TestInjectedFaults(t *testing.T) {
	faults := func(text string) func(*Config) {
		return func(c *Config) {
			parsed, err := ParseFaults(text, 3)
			if err != nil {
				t.Fatal(err)
			}
			c.Faults = parsed
		}
	}
	_, url := start(t, fast, faults(`{"share":0.5,"status":429,"retry_after_s":7}`))
	refused := 0
	for range 100 {
		if got := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":1}`); got.status == 429 &&
			got.header.Get("Retry-After") == "7" {
			refused++
		}
	}
	if refused < 25 || refused > 75 {
		t.Errorf("%d of 100 requests were refused", refused)
	}
	_, url = start(t, fast, faults(`[{"share":1,"break_after_tokens":5}]`))
	response, err := http.Post(url+"/v1/completions", "",
		strings.NewReader(`{"prompt":"x","max_tokens":50,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil || bytes.Contains(text, []byte("[DONE]")) {
		t.Errorf("got %v, %s", err, text)
	}
}

// TestFaultsByHeader: a request meets the fault that its header names, and no other does.
func TestFaultsByHeader(t *testing.T) {
	_, url := start(t, fast, nil)
	body := `{"prompt":"x","max_tokens":50,"stream":true}`
	ask := func(fault string) answer { return post(t, url+"/v1/completions", body, "X-Inject-Error", fault) }
	if got := ask(`{"status":429,"retry_after_s":7}`); got.status != 429 || got.header.Get("Retry-After") != "7" {
		t.Errorf("got %d %v", got.status, got.header)
	}
	begun := time.Now()
	if got := ask(`{"delay_ms":30}`); got.status != 200 || time.Since(begun) < 30*time.Millisecond {
		t.Errorf("got %d after %v", got.status, time.Since(begun))
	}
	for _, c := range []struct{ fault, want string }{
		{`{}`, "X-Inject-Error: got a fault that does nothing"}, {`{"share":1,"status":500}`, "share"},
		{`429`, "X-Inject-Error"},
		{`{"status":200}`, "status: got 200"},
	} {
		if got := ask(c.fault); got.status != 400 || !strings.Contains(got.text, c.want) {
			t.Errorf("%s: got %d %s", c.fault, got.status, got.text)
		}
	}
	if got := post(t, url+"/v1/completions", body); got.status != 200 || !strings.HasSuffix(got.text, "[DONE]\n\n") {
		t.Errorf("got %d %s", got.status, got.text)
	}
	r, err := http.NewRequest(http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Inject-Error", `{"break_after_tokens":5}`)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil || bytes.Contains(text, []byte("[DONE]")) || bytes.Contains(text, []byte(`"length"`)) {
		t.Errorf("got %v, %s", err, text)
	}
	said := 0
	for _, part := range regexp.MustCompile(`"text":"([^"]*)"`).FindAllSubmatch(text, -1) {
		said += len(part[1])
	}
	if said != 5 { // however many tokens come at once
		t.Errorf("got %d tokens: %s", said, text)
	}
}

func TestBadFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"share":2,"status":500}`, "share: got 2, want a finite number from 0 to 1"},
		{`{"share":1}`, "got a fault that does nothing, want status, delay_ms or break_after_tokens in it"},
		{`{"share":1,"status":200}`, "status: got 200, want an integer from 400 to 599"},
		{`{"share":1,"delay_ms":-1}`, "delay_ms: got -1, want"},
		{`{"share":"a"}`, `share: got "a", want`},
		{`{"status":500}`, "share: "},
		{`{"rate":1}`, `unknown field "rate", want one of 8`},
		{`[{"share":1,"status":500},{"rate":1}]`, `1: unknown field "rate"`},
		{`[{"share":1}`, "want a JSON object or a list of them"},
		{`7`, `got "7", want a JSON object`},
		{``, `got "", want a JSON object`},
		{`{"share":1,"status":500,"path":"/nope"}`,
			`path: got "/nope", want one of /v1/chat/completions, /v1/completions, /v1/responses`},
		{`{`, "line 1 column 2: unexpected end of text"},
	} {
		if _, err := ParseFaults(c.text, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestReasoning: the first part of an answer is thought, without its marks.
func TestReasoning(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Answers.Thinking = 0.5 })
	const body = `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":40`
	got := post(t, url+"/v1/chat/completions", body+"}").json(t)
	thought, text := at(got, "choices", 0, "message", "reasoning_content").(string),
		at(got, "choices", 0, "message", "content").(string)
	if len(thought) != 18 || len(text) != 20 ||
		at(got, "usage", "completion_tokens_details", "reasoning_tokens") != 20.0 {
		t.Errorf("got %v", got)
	}
	discreet := body + `,"include_reasoning":false`
	got = post(t, url+"/v1/chat/completions", discreet+"}").json(t)
	if at(got, "choices", 0, "message", "content") != text ||
		at(got, "choices", 0, "message", "reasoning_content") != nil || at(got, "usage", "completion_tokens") != 40.0 {
		t.Errorf("without reasoning: got %v", got)
	}
	if a := post(t, url+"/v1/chat/completions", discreet+`,"stream":true}`); strings.Contains(a.text,
		"reasoning_content") {
		t.Errorf("without reasoning: got %s", a.text)
	}
	a := post(t, url+"/v1/chat/completions", body+`,"thinking_token_budget":5}`)
	if a.status != 400 || !strings.Contains(a.text, `"param":"thinking_token_budget"`) {
		t.Errorf("got %d %s", a.status, a.text)
	}
	var thoughts, texts string
	for _, e := range events(t, post(t, url+"/v1/chat/completions", body+`,"stream":true}`)) {
		if part, ok := at(e, "choices", 0, "delta", "reasoning_content").(string); ok {
			thoughts += part
		}
		if part, ok := at(e, "choices", 0, "delta", "content").(string); ok {
			texts += part
		}
	}
	if thoughts != thought || texts != text {
		t.Errorf("got %q and %q, want %q and %q", thoughts, texts, thought, text)
	}
}

func TestEchoAndRecorded(t *testing.T) {
	recording, err := answers.ReadRecording(strings.NewReader(`{"prompt":"What","response":"Grüße"}` + "\n" +
		`{"prompt":"What now","response":"Later"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, url := start(t, fast, func(c *Config) {
		a := &c.Models[0].Answers
		a.Mode, a.Recorded = answers.Recorded, recording
	})
	say := func(url, content string) string {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"response_format":{"type":"json_object"}}`,
			content)
		text, _ := at(post(t, url+"/v1/chat/completions", body).json(t), "choices", 0, "message", "content").(string)
		return text
	}
	for said, want := range map[string]string{"What": "Grüße", "What is it?": "Grüße", "What now?": "Later",
		"What nothing": "Grüße"} {
		if got := say(url, said); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
	_, url = start(t, fast, func(c *Config) { c.Models[0].Answers.Mode = answers.Echo })
	got := post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"Grüße 🙂"}],"max_tokens":3}`).
		json(t)
	if at(got, "choices", 0, "message", "content") != "Gr" || at(got, "choices", 0, "finish_reason") != "length" {
		t.Errorf("got %v, want what three bytes say", got)
	}
}

func TestModels(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models = append(c.Models, newModel(t, "second", fast, nil)) })
	list := get(t, url+"/v1/models").json(t)
	if at(list, "data", 0, "id") != "m" || at(list, "data", 1, "id") != "second" ||
		get(t, url+"/v1/models/second").json(t)["id"] != "second" {
		t.Errorf("got %v", list)
	}
	if got := post(t, url+"/v1/completions", `{"prompt":"x"}`); got.status != 400 ||
		!strings.Contains(got.text, "m, second") {
		t.Errorf("without a model: got %d %s", got.status, got.text)
	}
	if got := post(t, url+"/v1/completions", `{"model":"second","prompt":"x"}`); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.text)
	}
}

// TestHTTP2WithoutTLS: a client that begins with HTTP/2 is understood.
func TestHTTP2WithoutTLS(t *testing.T) {
	_, url := start(t, fast, nil)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	response, err := client.Post(url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"x","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.ProtoMajor != 2 || !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) {
		t.Errorf("got HTTP/%d, %v, %s", response.ProtoMajor, err, text)
	}
}

// TestSlowReader: a client that does not read holds no other up, and gets every token in the end.
func TestSlowReader(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].MaxLength = 60_000 })
	body := `{"prompt":"x","max_tokens":50000,"stream":true}`
	response, err := http.Post(url+"/v1/completions", "", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for range 20 { // others are served meanwhile
		if got := post(t, url+"/v1/completions", `{"prompt":"y","max_tokens":100}`); got.status != 200 {
			t.Fatalf("got %d", got.status)
		}
	}
	size := 0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, found := strings.CutPrefix(lines.Text(), "data: {"); found {
			text, _ := at(answer{text: "{" + data}.json(t), "choices", 0, "text").(string)
			size += len(text)
		}
	}
	if size != 50_000 {
		t.Errorf("got %d bytes of text, want 50000", size)
	}
}

// TestMetrics: requests are counted by the names that autoscalers and gateways read.
func TestMetrics(t *testing.T) {
	s, url := start(t, slow, func(c *Config) { c.Models[0].Adapters, c.Models[0].MaxAdapters = []string{"lora"}, 4 })
	leave := begin(t, url+"/v1/completions", strings.Replace(endless, "{", `{"model":"lora",`, 1))
	defer leave()
	eventually(t, "it runs", func() bool {
		return s.config.Models[0].Deployment.Waiting() == 0 && s.config.Models[0].Deployment.Open() == 1
	})
	page := get(t, url+"/metrics").text
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="m",worker_id="0"} 1`,
		`vllm:lora_requests_info{max_lora="4",running_lora_adapters="lora",waiting_lora_adapters=""}`,
		`vllm:num_requests_waiting{`, `vllm:kv_cache_usage_perc{`, `vllm:time_to_first_token_seconds_bucket{`,
		`vllm:inter_token_latency_seconds_bucket{`,
		`dynosim_arrival_delay_seconds_count{model_name="m"} 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestTooManyTokens: requests that ask for more than memory holds are turned away, and give back what they held.
func TestTooManyTokens(t *testing.T) {
	s, url := start(t, `{"block_size":64,"num_gpu_blocks":1000000,"speedup_ratio":1000}`,
		func(c *Config) { c.Models[0].MaxLength = 40 << 20 })
	for body, status := range map[string]int{
		// never fit
		`{"prompt":"x","max_tokens":10000000,"n":128}`:              400,
		`{"prompt":"x","n":128,"max_tokens":2000000,"stream":true}`: 400,
		`{"prompt":"x","max_tokens":34000000}`:                      503,
	} {
		if got := post(t, url+"/v1/completions", body); got.status != status ||
			(got.header.Get("Retry-After") != "") != (status == 503) {
			t.Errorf("%s: got %d %.200s", body, got.status, got.text)
		}
	}
	many := `{"prompt":[` + strings.Repeat(`"x",`, 999) + `"x"],"n":2,"max_tokens":1}`
	if got := post(t, url+"/v1/completions", many); got.status != 400 || !strings.Contains(got.text, "at most 1024") {
		t.Errorf("got %d %.200s", got.status, got.text)
	}
	if got := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":50}`); got.status != 200 {
		t.Errorf("got %d", got.status)
	}
	eventually(t, "nothing is held", func() bool {
		free := s.tokens.TryAcquire(maxTokens)
		if free {
			s.tokens.Release(maxTokens)
		}
		return free
	})
}

// FuzzRequests sends any body to any endpoint: there is always an answer, and never an internal error.
func FuzzRequests(f *testing.F) {
	for i, body := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"max_tokens":2,"stop":["x"],"n":2}`,
		`{"prompt":[[1,2],[3]],"max_tokens":1,"echo":true}`,
		`{"input":[{"type":"message","role":"user","content":"x"}],"max_output_tokens":2}`,
		`{"prompt":"x","stream":true,"stream_options":{"include_usage":true}}`,
		`{"tokens":[1,300]}`, `{"messages":null,"tools":[{}],"tool_choice":"none","chat_template_kwargs":{"a":1}}`,
		`[]`, "\xff",
	} {
		f.Add(uint8(i), body)
	}
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize", "/detokenize",
		"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}
	registry := prometheus.NewRegistry()
	args, _, err := engineargs.ParseLive(fast)
	if err != nil {
		f.Fatal(err)
	}
	m := &Model{Name: "m", Args: args, MaxLength: 1000, Tokenizer: tokens.Bytes{}}
	m.Answers = answers.Source{Tokenizer: m.Tokenizer, Standard: 4}
	m.Deployment = deployment.Start(cluster.New(cluster.Config{
		Pools: []cluster.Pool{{Args: args, Workers: 1, Setup: func(int) engine.Setup { return engine.Setup{} }}},
	}), nil, slog.New(slog.DiscardHandler), func(err error) { f.Error(err) })
	f.Cleanup(m.Deployment.Close)
	s := New(Config{Models: []*Model{m}, MaxBody: 1 << 20, Log: slog.New(slog.DiscardHandler), Registry: registry})
	f.Fuzz(func(t *testing.T, place uint8, body string) {
		recorder := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, paths[int(place)%len(paths)], strings.NewReader(body))
		s.ServeHTTP(recorder, r)
		if code := recorder.Code; code != 200 && (code < 400 || code >= 500) && code != 503 {
			t.Errorf("%s %q: got %d %s", r.URL.Path, body, code, recorder.Body)
		}
	})
}

// TestPanic: a request that breaks something gets an error, and the server goes on.
func TestPanic(t *testing.T) {
	s, _ := start(t, fast, nil)
	recorder := httptest.NewRecorder()
	s.open(func(http.ResponseWriter, *http.Request) error { panic("broken") })(recorder,
		httptest.NewRequest(http.MethodGet, "/", nil))
	if recorder.Code != 500 || !strings.Contains(recorder.Body.String(), "internal error") {
		t.Errorf("got %d %s", recorder.Code, recorder.Body)
	}
}
