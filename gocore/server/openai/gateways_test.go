package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestGateways: what routers and gateways ask a worker.
func TestGateways(t *testing.T) {
	_, url := start(t, strings.Replace(slow, "{", `{"max_num_seqs":1,`, 1),
		func(c *Config) { c.Models[0].Adapters = []string{"lora"} })
	defer begin(t, url+"/v1/completions", endless)()
	defer begin(t, url+"/v1/completions", endless)()
	load := func() map[string]any { return at(get(t, url+"/v1/loads").json(t), "loads", 0).(map[string]any) }
	eventually(t, "one runs and one waits",
		func() bool { l := load(); return l["num_running_reqs"] == 1.0 && l["num_waiting_reqs"] == 1.0 })
	l := load()
	for name, want := range map[string]float64{
		"dp_rank": 0, "num_total_reqs": 2, "num_used_tokens": 16, "max_total_num_tokens": 65536,
		"token_usage": 1.0 / 4096, "utilization": 1,
		"max_running_requests": 1, "cache_hit_rate": 0,
	} {
		if l[name] != want {
			t.Errorf("/v1/loads: %s: got %v, want %v", name, l[name], want)
		}
	}
	if got := get(t, url+"/loads").json(t); at(got, "aggregate", "total_reqs") != 2.0 || got["dp_rank_count"] != 1.0 {
		t.Errorf("/loads: got %v", got)
	}
	if got := get(t, url+"/get_load").text; got != `[{"dp_rank":0,"num_reqs":2,"num_tokens":16,`+
		`"num_waiting_reqs":1,"rank":0}]` {
		t.Errorf("/get_load: got %s", got)
	}
	for _, path := range []string{"/server_info", "/get_server_info"} {
		got := get(t, url+path).json(t)
		if got["served_model_name"] != "m" || got["max_running_requests"] != 1.0 ||
			got["max_total_num_tokens"] != 65536.0 || got["page_size"] != 16.0 ||
			at(got, "lora_paths", 0) != "lora" || at(got, "internal_states", 0, "num_running_reqs") != 1.0 {
			t.Errorf("%s: got %v", path, got)
		}
	}
	for _, path := range []string{"/model_info", "/get_model_info"} {
		if got := get(t, url+path).json(t); got["model_path"] != "m" || got["is_generation"] != true {
			t.Errorf("%s: got %v", path, got)
		}
	}
	if got := get(t, url+"/loads?model=none"); got.status != http.StatusNotFound {
		t.Errorf("a model that is not served: got %d", got.status)
	}
}

// TestTokenize: the tokens of a chat are those of its prompt, tools included, with their names if they are wanted.
func TestTokenize(t *testing.T) {
	_, url := start(t, fast, nil)
	const chat = `{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}]%s}`
	got := post(t, url+"/tokenize", fmt.Sprintf(chat, "")).json(t)
	rendered := post(t, url+"/v1/chat/completions/render", fmt.Sprintf(chat, `,"max_tokens":1`)).json(t)
	if fmt.Sprint(got["tokens"]) != fmt.Sprint(rendered["token_ids"]) || got["token_strs"] != nil {
		t.Errorf("got %v, want the tokens of %v", got, rendered)
	}
	if got := post(t, url+"/tokenize", `{"prompt":"aé","return_token_strs":true}`).text; !strings.Contains(got,
		`"token_strs":["<|begin_of_text|>","a","<0xC3>","<0xA9>"]`) {
		t.Errorf("got %s", got)
	}
	if got := post(t, url+"/tokenize",
		`{"messages":[{"role":"user","content":"a"}],"chat_template":"x"}`); got.status != 400 {
		t.Errorf("got %d %s", got.status, got.text)
	}
}

// TestTokenizerInfo: the endpoint is there if it is wanted.
func TestTokenizerInfo(t *testing.T) {
	_, url := start(t, fast, nil)
	if got := get(t, url+"/tokenizer_info"); got.status != http.StatusNotFound {
		t.Errorf("got %d %s", got.status, got.text)
	}
	_, url = start(t, fast, func(c *Config) { c.TokenizerInfo = true })
	got := get(t, url+"/tokenizer_info").json(t)
	if got["tokenizer_class"] != "Bytes" || got["eos_token"] != "<|end_of_text|>" || got["chat_template"] == nil {
		t.Errorf("got %v", got)
	}
}

// TestRender: the tokens that routers ask for are those of the prompt.
func TestRender(t *testing.T) {
	_, url := start(t, fast, nil)
	for _, c := range []struct{ path, body, tokens string }{
		{"/v1/completions", `{"prompt":["ab","c"],"max_tokens":1}`, "[[256,97,98],[256,99]]"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1}`, ""},
	} {
		got := post(t, url+c.path+"/render", c.body).text
		answer := post(t, url+c.path, strings.Replace(c.body, "{", `{"return_token_ids":true,`, 1)).text
		if c.tokens != "" {
			if !strings.Contains(got, `"token_ids":[256,97,98]`) || !strings.Contains(got, `"token_ids":[256,99]`) {
				t.Errorf("got %s", got)
			}
			continue
		}
		_, tokens, _ := strings.Cut(answer, `"prompt_token_ids":`)
		tokens, _, found := strings.Cut(tokens, "]")
		if !found || !strings.Contains(got, `"token_ids":`+tokens+"]") {
			t.Errorf("got %s, want the tokens %s]", got, tokens)
		}
	}
	if got := post(t, url+"/v1/completions/render", `{}`); got.status != http.StatusBadRequest ||
		!strings.Contains(got.text, "prompt") {
		t.Errorf("got %d %s", got.status, got.text)
	}
}

// TestNative: SGLang's /generate.
func TestNative(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Adapters = []string{"lora"} })
	one := post(t, url+"/generate", `{"text":"hello","rid":"r1","sampling_params":{"max_new_tokens":5}}`).json(t)
	meta := one["meta_info"].(map[string]any)
	if len(one["text"].(string)) != 5 || len(one["output_ids"].([]any)) != 5 || meta["id"] != "r1" ||
		meta["prompt_tokens"] != 6.0 ||
		meta["completion_tokens"] != 5.0 || at(meta, "finish_reason", "type") != "length" ||
		at(meta, "finish_reason", "length") != 5.0 {
		t.Errorf("got %v", one)
	}
	same := post(t, url+"/v1/completions", `{"prompt":"hello","max_tokens":5}`).json(t)
	if at(same, "choices", 0, "text") != one["text"] {
		t.Errorf("got %v and %v", one, same)
	}
	list := post(t, url+"/generate", `{"text":["a"],"lora_path":"lora","sampling_params":{"max_new_tokens":1}}`).text
	if !strings.HasPrefix(list, "[{") {
		t.Errorf("the answer to a list is none: %s", list)
	}
	if got := post(t, url+"/generate", `{"input_ids":[1,2],"sampling_params":{"regex":"[ab]{3}","max_new_tokens":9}}`).
		json(t); len(got["text"].(string)) != 3 {
		t.Errorf("got %v", got)
	}
	stream := post(t, url+"/generate", `{"text":"hello","stream":true,"sampling_params":{"max_new_tokens":5}}`)
	parts := events(t, stream)
	last := parts[len(parts)-1]
	if last["text"] != one["text"] || at(last, "meta_info", "finish_reason", "type") != "length" ||
		!strings.HasSuffix(stream.text, "data: [DONE]\n\n") {
		t.Errorf("got %v", parts)
	}
	if first := parts[0]; len(parts) > 1 && at(first, "meta_info", "finish_reason") != nil ||
		!strings.HasPrefix(last["text"].(string), first["text"].(string)) {
		t.Errorf("got %v", first)
	}
	for _, c := range []struct{ body, want string }{
		{`{}`, "text: missing"}, {`{"text":"a","input_ids":[1]}`, "text, input_ids: got both"},
		{`{"text":"a","return_logprob":true}`, "return_logprob"},
		{`{"text":"a","sampling_params":{"ebnf":"x"}}`, "sampling_params.ebnf"},
		{`{"text":"a","lora_path":"none"}`, "does not exist"},
		{`{"input_ids":["a"]}`, "input_ids: want a list of tokens"},
	} {
		if got := post(t, url+"/generate", c.body); got.status < 400 || !strings.Contains(got.text, c.want) {
			t.Errorf("%s: got %d %s", c.body, got.status, got.text)
		}
	}
	if got := get(t, url+"/health_generate"); got.status != http.StatusOK ||
		!strings.Contains(got.text, `"completion_tokens":1`) {
		t.Errorf("/health_generate: got %d %s", got.status, got.text)
	}
}

// TestSleep: a server that sleeps has no cache and takes no requests; those that it had fail.
func TestSleep(t *testing.T) {
	s, url := start(t, fast, nil)
	cached := func() any {
		answer := post(t, url+"/v1/completions", `{"prompt":"`+strings.Repeat("work ", 40)+`","max_tokens":2}`)
		return at(answer.json(t), "usage", "prompt_tokens_details", "cached_tokens")
	}
	if first, second := cached(), cached(); first != 0.0 || second != 192.0 {
		t.Fatalf("got %v and %v cached tokens", first, second)
	}
	idle := func() bool { return s.config.Models[0].Deployment.Open() == 0 }
	eventually(t, "nothing runs", idle)
	if got := post(t, url+"/reset_prefix_cache", ""); got.status != 200 || got.json(t)["success"] != true {
		t.Errorf("got %d %s", got.status, got.text)
	}
	if first, second := cached(), cached(); first != 0.0 || second != 192.0 {
		t.Errorf("after a reset: got %v and %v cached tokens", first, second)
	}
	asleep := func() any { return get(t, url+"/is_sleeping").json(t)["is_sleeping"] }
	if got := post(t, url+"/sleep?level=1", ""); got.status != 200 || asleep() != true {
		t.Fatalf("got %d %s", got.status, got.text)
	}
	if got := post(t, url+"/v1/completions", endless); got.status != 503 || !strings.Contains(got.text, "asleep") {
		t.Errorf("got %d %s", got.status, got.text)
	}
	if got := get(t, url+"/health"); got.status != 200 {
		t.Errorf("/health: got %d", got.status)
	}
	if post(t, url+"/wake_up?tags=weights", ""); asleep() != true {
		t.Error("awake without a KV cache")
	}
	if post(t, url+"/wake_up?tags=kv_cache", ""); asleep() != false || cached() != 0.0 {
		t.Error("not awake, or with the cache that it had")
	}
	for _, path := range []string{"/sleep?level=3", "/sleep?mode=keep", "/wake_up?tags=x",
		"/reset_prefix_cache?reset_running_requests=true"} {
		if got := post(t, url+path, ""); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %d", path, got.status)
		}
	}
}

// TestSleepAborts: with mode=wait requests are answered before, otherwise they fail; caches of busy workers stay.
func TestSleepAborts(t *testing.T) {
	s, url := start(t, strings.Replace(fast, "1000", "2", 1), nil)
	d := s.config.Models[0].Deployment
	for _, c := range []struct {
		mode, want string
		tokens     int
	}{{"abort", "put to sleep", 4000}, {"wait", "[DONE]", 40}} {
		answers := make(chan answer, 1)
		go func() {
			answers <- post(t, url+"/v1/completions",
				fmt.Sprintf(`{"prompt":"x","max_tokens":%d,"stream":true}`, c.tokens))
		}()
		eventually(t, "one runs, or a short one is over",
			func() bool { return d.Open() == 1 && d.Waiting() == 0 || len(answers) > 0 })
		if got := post(t, url+"/reset_prefix_cache", ""); c.mode == "abort" && got.json(t)["busy_workers"] != 1.0 {
			t.Errorf("got %s", got.text)
		}
		if got := post(t, url+"/sleep?mode="+c.mode, ""); got.status != 200 {
			t.Errorf("got %d %s", got.status, got.text)
		}
		if got := <-answers; !strings.Contains(got.text, c.want) {
			t.Errorf("%s: got %d %s", c.mode, got.status, got.text)
		}
		post(t, url+"/wake_up", "")
	}
}

// TestTransferIsOffered: a prefill worker says of its answer where the KV is.
func TestTransferIsOffered(t *testing.T) {
	_, url := start(t, fast, nil)
	body := `{"prompt":"` + strings.Repeat("x", 40) + `","max_tokens":1,"kv_transfer_params":{"do_remote_decode":true}}`
	got := at(post(t, url+"/v1/completions", body).json(t), "kv_transfer_params").(map[string]any)
	if got["do_remote_prefill"] != true || got["do_remote_decode"] != false ||
		len(got["remote_block_ids"].([]any)) != 3 || got["remote_engine_id"] == "" {
		t.Errorf("got %v", got)
	}
}

// TestTransferIsTaken: a decode worker takes a prompt over without computing it, or says that it cannot.
func TestTransferIsTaken(t *testing.T) {
	body := `{"prompt":"` + strings.Repeat("x", 3000) +
		`","max_tokens":1,"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[0]}}`
	_, url := start(t, `{"speedup_ratio":0.2}`, func(c *Config) { c.Models[0].Imports = true })
	inFirstPasses := func(body string) float64 { // from the first pass to the first token, without HTTP
		const name = `vllm:request_prefill_time_seconds_sum`
		before := metricSum(t, url, name)
		if got := post(t, url+"/v1/completions", body); got.status != 200 ||
			strings.Contains(got.text, "kv_transfer_params") {
			t.Errorf("got %d %s", got.status, got.text)
		}
		eventually(t, "the request is counted", func() bool { return metricSum(t, url, name) > before })
		return metricSum(t, url, name) - before
	}
	taken := inFirstPasses(body)
	computed := inFirstPasses(strings.Replace(strings.Replace(body, "xxx", "yyy", 1), "do_remote_prefill", "nothing", 1))
	if taken > computed/2 {
		t.Errorf("a prompt that is taken over: %v s, one that is computed: %v s", taken, computed)
	}
	_, url = start(t, fast, nil)
	for params, says := range map[string]string{
		`{"do_remote_prefill":true,"remote_block_ids":[0]}`: "kv_transfer_params: do_remote_prefill is not " +
			"supported by these engines",
		`{"do_remote_prefill":true,"do_remote_decode":true}`:     "both true",
		`{"do_remote_prefill":1}`:                                "do_remote_prefill",
		`{"do_remote_prefill":true,"remote_block_ids":["a",{}]}`: "remote_block_ids",
		`["do_remote_prefill"]`:                                  "kv_transfer_params",
	} {
		got := post(t, url+"/v1/completions", `{"prompt":"x","kv_transfer_params":`+params+`}`)
		if got.status != http.StatusBadRequest || !strings.Contains(got.text, says) {
			t.Errorf("%s: got %d %s", params, got.status, got.text)
		}
	}
}

// metricSum returns the sum of a metric over its labels.
func metricSum(t *testing.T, url, name string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(get(t, url+"/metrics").text) {
		if strings.HasPrefix(line, name) {
			fields := strings.Fields(line)
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}
