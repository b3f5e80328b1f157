package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dynosim/gocore/engine"
)

func describe(t *testing.T, members string) string {
	t.Helper()
	return `{"standalone": true, "environment": []` + members + `}`
}

func TestServerSpec(t *testing.T) {
	s, err := parseServer(describe(t, `, "num_workers": 3, "router_mode": "kv", "lora_modules": "a, b", "api_key": "k1,`+
		`k2", "data_parallel_size": 2, "http_port": 0`))
	if err != nil {
		t.Fatal(err)
	}
	m := s.models[0]
	if m.name != "builtin:bytes" || len(m.pools) != 1 || m.pools[0].Workers != 6 || len(m.adapters) != 2 ||
		len(s.keys) != 2 {
		t.Errorf("got %+v", m)
	}
	if s.address.Listen != "127.0.0.1:0" || s.address.MaxConnections != 8192 {
		t.Errorf("got %+v", s.address)
	}
}

// TestServerRanks: ranks that run their passes together are one worker, others are a worker each.
func TestServerRanks(t *testing.T) {
	for scheduler, workers := range map[string]int{"dynamo": 12, "vllm": 3} {
		s, err := parseServer(describe(t,
			`, "num_workers": 3, "extra_engine_args": "{\"scheduler\": \"`+scheduler+`\", \"dp_size\": 4}"`))
		if err != nil {
			t.Fatal(err)
		}
		if m := s.models[0]; m.pools[0].Workers != workers || m.engines() != 12 {
			t.Errorf("%s: %d workers, %d engines; want %d and 12", scheduler, m.pools[0].Workers, m.engines(), workers)
		}
	}
	for arguments, want := range map[string]string{
		`{\"scheduler\": \"vllm\", \"dp_size\": 1000000}`:                         "engines in all, want at most 65536",
		`{\"scheduler\": \"vllm\", \"dp_size\": 4, \"aic_attention_dp_size\": 2}`: "aic_attention_dp_size: got 2, want 4",
	} {
		_, err := parseServer(describe(t, `, "extra_engine_args": "`+arguments+`"`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", arguments, err)
		}
	}
}

func TestServerPools(t *testing.T) {
	s, err := parseServer(describe(t, `, "num_prefill_workers": 2, "num_decode_workers": 3, "max_num_seqs": 7, `+
		`"prefill_engine_args": "{\"max_num_seqs\": 5}"`))
	if err != nil {
		t.Fatal(err)
	}
	p := s.models[0].pools
	if len(p) != 2 || p[0].Workers != 2 || p[1].Workers != 3 || p[0].Args.MaxNumSeqs != 5 ||
		p[1].Args.MaxNumSeqs != 7 ||
		p[0].Args.Role != engine.Prefill || p[1].Args.Role != engine.Decode {
		t.Errorf("got %+v", p)
	}
}

// TestServedModels: each model is the description with what its entry says.
func TestServedModels(t *testing.T) {
	models, _ := json.Marshal(`[{"model_name": "a"}, {"model_name": "b", "num_workers": 4, "router_mode": "random", ` +
		`"router_config": {}, "max_model_len": 100}]`)
	s, err := parseServer(describe(t, `, "num_workers": 2, "models": `+string(models)))
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.models[0], s.models[1]
	if a.name != "a" || a.pools[0].Workers != 2 || a.maxLength != 0 || b.name != "b" || b.pools[0].Workers != 4 ||
		b.routing.Mode.Name != "random" || b.maxLength != 100 {
		t.Errorf("got %+v and %+v", a, b)
	}
}

func TestServerIsRefused(t *testing.T) {
	quoted := func(text string) string {
		q, _ := json.Marshal(text)
		return string(q)
	}
	for _, test := range []struct{ members, says string }{
		{`, "router": "x:Y", "router_mode": "kv"`, `router_mode: got "kv", want it left out with router x:Y`},
		{`, "router": "x:Y", "router_config": "7"`, `router_config: got "7", want an object`},
		{`, "http_port": 70000`, "http_port"},
		{`, "router_mode": "best"`, "router_mode"},
		{`, "tls_cert": "x"`, "tls_cert, tls_key"},
		{`, "tls_cert": "x", "tls_key": "x", "tls_self_signed": true`, "tls_self_signed: got tls_cert too"},
		{`, "api_key": ","`, "got no key"},
		{`, "api_key_file": "/no"`, `api_key_file: got "/no", want a file that can be read: no such file`},
		{`, "tls_cert": "/no", "tls_key": "/no"`, `tls_cert: got "/no", want a file that can be read: no such file`},
		{`, "models": ""`, `models: got "", want a list of at least one object`},
		{`, "models": "[null]"`, "models: 0: got null, want an object"},
		{`, "models": ` + quoted(`[{"model_name": "a", "model_name": "b"}]`), "model_name is there twice"},
		{`, "models": ` + quoted(`[{"lora_modules": "a,b,a"}]`),
			`models: 0: lora_modules: got "a", want a name that no other`},
		{`, "lora_modules": "builtin:bytes"`, `lora_modules: got "builtin:bytes", want a name that no other`},
		{`, "lora_modules": "a\tb"`, `lora_modules: got "a\tb", want 1 to 256 bytes`},
		{`, "lora_modules": ","`, `lora_modules: got ",", want at least one name`},
		{`, "inject_errors": ""`, `inject_errors: got "", want a JSON object`},
		{`, "num_workers": 4096, "data_parallel_size": 1024`, "got 4194304 engines in all, want at " +
			"most 65536"},
		{`, "models": ` + quoted(`[{"num_workers": 4096, "data_parallel_size": 9}, {"model_name": "b", `+
			`"num_workers": 4096, "data_parallel_size": 9}]`), "models: 1: num_workers, data_parallel_size"},
		{`, "num_decode_workers": 1, "num_prefill_workers": 1, "prefill_engine_args": ""`,
			`prefill_engine_args: got "", want a JSON object`},
		{`, "num_decode_workers": 1, "num_prefill_workers": 1, "prefill_engine_args": "{\"nope\": 1}"`,
			"engine arguments with prefill_engine_args: unknown field"},
		{`, "num_decode_workers": 1, "num_prefill_workers": 1, "decode_engine_args": "{\"worker_type\": \"prefill\"}"`,
			"worker_type: got prefill, want it left out"},
		{`, "extra_engine_args": "/no"`, `extra_engine_args: got "/no", want a file that can be read`},
		{`, "models": "7"`, "models: got"},
		{`, "models": ` + quoted(`[{"tls_self_signed": true}]`), "models: 0: tls_self_signed: " +
			"concerns the whole server"},
		{`, "models": ` + quoted(`[{"http_port": 1}]`), "models: 0: http_port: concerns the " +
			"whole server"},
		{`, "models": ` + quoted(`[{"num_workers": 0}]`), "models: 0: num_workers"},
		{`, "models": ` + quoted(`[{}, {}]`), `models: 1: model_name: got "builtin:bytes", want a name that no other`},
		{`, "models": ` + quoted(`[{"unheard_of": 1}]`), "unheard_of"},
		{`, "num_prefill_workers": 1`, "num_decode_workers"},
		{`, "num_decode_workers": 1`, "num_prefill_workers"},
		{`, "num_decode_workers": 1, "num_prefill_workers": 1, "num_workers": 1`, "num_workers: cannot be combined"},
		{`, "num_decode_workers": 1, "num_prefill_workers": 1, "decode_engine_args": "{\"block_size\": 8}"`, "block_size"},
		{`, "num_decode_workers": 1, "num_prefill_workers": 1, "decode_engine_args": "7"`, "decode_engine_args"},
		{`, "response_mode": "recorded"`, "response_file"},
		{`, "inject_errors": "{\"share\": 3}"`, "inject_errors: share"},
		{`, "allowed_origins": "[3]"`, `allowed_origins: got "[3]", want words with commas or a JSON list of strings`},
		{`, "allowed_headers": ","`, `allowed_headers: got ","`},
		{`, "router_config": "{\"x\": 3}"`, "router_config"},
		{`, "request_timeout": -1`, "request_timeout"},
		{`, "aic_perf_model": true`, "model_path"},
		{`, "extra_engine_args": "{\"worker_type\": \"prefill\"}"`, "worker_type"},
	} {
		if _, err := parseServer(describe(t, test.members)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %q", test.members, err, test.says)
		}
	}
}

// TestServerWarnings: options of the other kind of process have no effect, and the user hears it.
func TestServerWarnings(t *testing.T) {
	s, err := parseServer(describe(t,
		`, "discovery_backend": "etcd", "stagger_delay": 1, "router_config": "{\"router_temperature\": 1}"`))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(s.warnings, "\n")
	for _, want := range []string{"discovery_backend has no effect", "stagger_delay has no effect",
		"router_config has no effect without router_mode kv"} {
		if !strings.Contains(all, want) {
			t.Errorf("got %s, want %q", all, want)
		}
	}
	models, _ := json.Marshal(`[{"stagger_delay": 1, "router_config": {"router_temperature": 1}}]`)
	s, err = parseServer(describe(t,
		`, "inject_errors": "{\"share\": 1, \"status\": 500, \"model\": \"sql\"}", "models": `+string(models)))
	if err != nil {
		t.Fatal(err)
	}
	all = strings.Join(s.warnings, "\n")
	for _, want := range []string{
		"models: 0: stagger_delay has no effect", "models: 0: router_config has no effect without router_mode kv",
		`inject_errors: model "sql" is not served until an adapter of this name is loaded`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("got %s, want %q", all, want)
		}
	}
	spec, err := Parse(`{"model_path": "x", "discovery_backend": "mem", "http_port": 1, "environment": []}`)
	if err != nil || !strings.Contains(strings.Join(spec.warnings, "\n"),
		"http_port has no effect without standalone") {
		t.Errorf("got %+v, %v", spec, err)
	}
}

func TestFromCommandLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.json")
	if err := os.WriteFile(file, []byte(`[{"share": 1, "status": 500}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := FromCommandLine([]string{
		"--standalone", "--http-port", "0", "--num-workers=2", "--no-enable-prefix-caching", "--speedup-ratio", "2.5",
		"--inject-errors", "@" + file,
	}, []string{"A=b"}, "1.2")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"enable_prefix_caching":false,"environment":["A=b"],"http_port":0,"inject_errors":"[{\"share\": 1, ` +
		`\"status\": 500}]","num_workers":2,"speedup_ratio":2.5,"standalone":true,"version":"1.2"}`
	if text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if _, err := parseServer(text); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{
		{"unrecognized option: --nothing; --help", "--nothing"},
		{"did you mean --speedup-ratio? --help", "--speedup-ration", "2"},
		{"did you mean --http-port? --help", "--port", "8000"},
		{`unrecognized argument: "http-port", want options`, "http-port"},
		{"--http-port: got no value, want an integer from 0", "--http-port"},
		{`http_port: got "x", want an integer from 0`, "--http-port", "x"},
		{`--standalone: got "1", want no value`, "--standalone=1"},
		{"unrecognized option: --no-standalone", "--no-standalone"},
		{`models: got "/none", want a file that can be read: no such file`, "--models", "@/none"},
		{`speedup_ratio: got "fast", want a finite number >= 0`, "--speedup-ratio", "fast"},
		{`request_timeout: got "nan", want a finite number from 0`, "--request-timeout", "nan"},
		{`stagger_delay: got "inf", want a finite number`, "--stagger-delay", "inf"},
	} {
		if _, err := FromCommandLine(args[1:], nil, ""); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: got %v", args[1:], err)
		}
	}
	if _, err := FromCommandLine([]string{"--help"}, nil, ""); err != ErrHelp {
		t.Errorf("got %v", err)
	}
	if help := ServerHelp(); !strings.Contains(help, "--http-port") || !strings.Contains(help, "--discovery-backend") ||
		strings.Contains(help, "--bootstrap-ports") {
		t.Errorf("got %s", help)
	}
}

// TestConfigFile: a file has options by their names, of which those of the command line have the last word.
func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.json")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"speedup-ratio": 2, "num_workers": 3, "page": false, "lora_modules": ["a", "b"], "router_config": {}, ` +
		`"models": [{"model_name": "m"}]}`)
	text, err := FromCommandLine([]string{"--standalone", "--config", file, "--num-workers", "2"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"environment":null,"lora_modules":"a,b","models":"[{\"model_name\": \"m\"}]","num_workers":2,` +
		`"page":false,"router_config":"{}","speedup_ratio":2,"standalone":true,"version":""}`
	if text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	for content, says := range map[string]string{
		`{"num-worker": 1}`: `got "num-worker", want names of options, did you mean --num-workers?`,
		`{"config": "x"}`:   `got "config"`, `[]`: "want one with a JSON object",
		`x: 1`: "the command of the Python package reads YAML",
	} {
		write(content)
		if _, err := FromCommandLine([]string{"--standalone", "--config", file}, nil, ""); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", content, err)
		}
	}
	if _, err := FromCommandLine([]string{"--config", "/none"}, nil, ""); err == nil ||
		!strings.Contains(err.Error(), `config: got "/none", want a file that can be read`) {
		t.Errorf("got %v", err)
	}
}

// TestModelOfFrontendIsRefused: the same for a frontend, which has no tokenizer of its own.
func TestModelOfFrontendIsRefused(t *testing.T) {
	folder := t.TempDir()
	for path, says := range map[string]string{
		folder:           "which has no config.json, want a folder with config.json",
		folder + "/none": "want a folder with config.json and tokenizer.json, or the name of a model",
	} {
		_, err := modelFolder(path, "", "")
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("model_path: got %q", path)) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// TestModelIsRefused: what is wrong with the files of a model is found before the server listens.
func TestModelIsRefused(t *testing.T) {
	folder := t.TempDir()
	for file, says := range map[string]string{
		"none":        "want builtin:bytes, a folder with config.json and tokenizer.json, or the name of a model",
		"":            "which has no config.json, want builtin:bytes, a folder",
		"config":      "which has no tokenizer.json, want builtin:bytes, a folder",
		"config/file": "is a file, want a folder",
		"broken":      "want a folder whose config.json is that of a model",
		"unreadable":  "want a folder of a model and a Python that can read its tokenizer",
	} {
		path := filepath.Join(folder, file)
		m := servedModel{path: path, name: "m", python: "/none", helpers: 1}
		for name, content := range map[string]string{
			"config/config.json": "{}", "config/file": "", "broken/config.json": "x", "broken/tokenizer.json": "x",
			"unreadable/config.json": "{}", "unreadable/tokenizer.json": "x",
		} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := m.load(NewStop(), nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err == nil || !strings.HasPrefix(err.Error(), "model_path") || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", file, err, says)
		}
	}
}

// TestLineToTry: the line that a server shows when it starts can be pasted into a shell.
func TestLineToTry(t *testing.T) {
	at := func(address string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	s := &serverSpec{models: []servedModel{{name: "it's"}}}
	want := `curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' ` +
		`-d '{"max_tokens":20,"messages":[{"content":"Hello","role":"user"}],"model":"it'\''s"}'`
	if got := s.try(at("127.0.0.1:8000")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s = &serverSpec{keys: []string{"secret"}}
	s.address.Certificate = "cert.pem"
	if got, want := s.try(at("[::]:8443")),
		`curl -H "Authorization: Bearer $KEY" --insecure https://localhost:8443/v1/models`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWordsOfReplays: routing modes have the names of replays, too.
func TestWordsOfReplays(t *testing.T) {
	for word, want := range map[string]string{"kv_router": "kv_router", "kv-router": "kv_router",
		"round_robin": "round_robin", "least-requests": "least_requests", "random": "random"} {
		s, err := parseServer(describe(t, `, "num_workers": 2, "http_port": 0, "router_mode": "`+word+`"`))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.models[0].routing.Mode.Name; got != want {
			t.Errorf("%s: got %s, want %s", word, got, want)
		}
	}
	if _, err := parseFrontend(`{"frontend": true, "router_mode": "kv_router", "discovery_backend": "file", ` +
		`"environment": []}`); err != nil {
		t.Error(err)
	}
}
