package openai

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMethods: a refused method learns which ones are allowed, as HTTP wants it.
func TestMethods(t *testing.T) {
	_, url := start(t, "{}", nil)
	for method, path := range map[string]string{"PUT": "/v1/completions", "OPTIONS": "/v1/chat/completions",
		"DELETE": "/v1/responses", "POST": "/metrics"} {
		r, _ := http.NewRequest(method, url+path, nil)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		want := "POST"
		if path == "/metrics" {
			want = "GET, HEAD"
		}
		if response.StatusCode != 405 || response.Header.Get("Allow") != want ||
			!strings.Contains(string(text), "want method "+want) {
			t.Errorf("%s %s: got %d, Allow %q, %s", method, path, response.StatusCode, response.Header.Get("Allow"),
				text)
		}
	}
}

// TestEdges: what is odd is refused in one short line that says what is wrong.
func TestEdges(t *testing.T) {
	_, url := start(t, "{}", nil)
	long, deep := strings.Repeat("日本", 50_000), strings.Repeat("[", 150)+strings.Repeat("]", 150)
	const hello = `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/v1/completions", `{"prompt":"x","prompt":"y"}`, 400, `prompt: there twice, want it once`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","role":"user","content":"x"}]}`, 400,
			"messages.0.role: there twice"},
		{"/v1/completions", `{"prompt":"x","model":3}`, 400, "model: got a number, want a string"},
		{"/v1/completions", `{"prompt":"x","max_tokens":1e400}`, 400, "max_tokens: got 1e400, want an integer"},
		{"/v1/completions", `{"prompt":"x","max_tokens":9223372036854775807}`, 400,
			"max_tokens: got 9223372036854775807, want an integer from 1 to 2147483647"},
		{"/v1/completions", fmt.Sprintf(`{"prompt":"x","request_id":%q}`, long), 400,
			"request_id: got 300000 bytes, want at most 256"},
		{"/v1/completions", fmt.Sprintf(`{"prompt":"x","model":%q}`, long), 404, "日本日本日本日本日本日本日..."},
		{"/" + strings.Repeat("a", 30_000), "{}", 404, "there is no /aaaaaaaaa"},
		{"/tokenize", `{"messages":[{"content":"x"}]}`, 400, "messages: message 0 has no role"},
		{"/detokenize", `{}`, 400, "tokens: missing, want a list of tokens"},
		{"/v1/chat/completions", `{` + hello + `,"tools":[` + deep + `]}`, 400,
			"tools: got JSON that is nested deeper than 100 levels"},
		{"/v1/chat/completions", `{` + hello + `,"chat_template_kwargs":{"a":` + deep + `}}`, 400,
			"chat_template_kwargs: got JSON that is nested"},
		{"/v1/chat/completions", `{` + hello + `,"chat_template_kwargs":{"a":1` + strings.Repeat("0", 5000) + `}}`, 400,
			"chat_template_kwargs: got a number of more than 1000 digits"},
		{"/v1/chat/completions", `{"messages":[{"role":"assistant","tool_calls":[` + deep + `]}]}`, 400,
			"messages: got JSON that is nested"},
		{"/tokenize", `{"messages":[{"role":"assistant","tool_calls":[` + deep + `]}]}`, 400,
			"messages: got JSON that is nested"},
		{"/v1/load_lora_adapter", `{"lora_name":"a,b"}`, 400,
			"lora_name: got \\\"a,b\\\", want 1 to 256 bytes without commas"},
		{"/v1/load_lora_adapter", `{"lora_name":"a\nb"}`, 400, "without commas and control characters"},
		{"/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":%q}`, long), 400, "want 1 to 256 bytes"},
		{"/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"a","lora_path":%q}`, long), 400,
			"lora_path: got 300000 bytes, want at most 4096"},
	} {
		if a := post(t, url+c.path, c.body); a.status != c.status || !strings.Contains(a.text, c.says) ||
			len(a.text) > 500 {
			t.Errorf("%.60s %.60s: got %d, %.600s\nwant %s", c.path, c.body, a.status, a.text, c.says)
		}
	}
}

// TestEncodedBody: a body that is compressed is refused with the status that clients know, not as bad JSON.
func TestEncodedBody(t *testing.T) {
	_, url := start(t, "{}", nil)
	a := post(t, url+"/v1/completions", "\x1f\x8b...", "Content-Encoding", "gzip")
	if a.status != http.StatusUnsupportedMediaType ||
		!strings.Contains(a.text, "Content-Encoding: got gzip, want the body as it is") {
		t.Errorf("got %+v", a)
	}
	if a := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":1}`, "Content-Encoding",
		"identity"); a.status != 200 {
		t.Errorf("got %+v", a)
	}
}

// TestConnectionLimit: files that the process may open leave room for other things than connections.
func TestConnectionLimit(t *testing.T) {
	for _, c := range []struct{ wanted, files, want int }{{8192, 1 << 20, 8192}, {8192, 1024, 976}, {8192, 64, 16},
		{10, 64, 10}, {10, 1, 1}} {
		if got := connectionLimit(c.wanted, c.files); got != c.want {
			t.Errorf("%d connections, %d files: got %d, want %d", c.wanted, c.files, got, c.want)
		}
	}
}

// TestListenErrors: each names the option that is wrong, and what else might do.
func TestListenErrors(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EADDRINUSE:    "http_port: got 80, want another one",
		syscall.EACCES:        "http_port: got 80, want one that this user may listen at",
		syscall.EADDRNOTAVAIL: `http_host: got "10.0.0.1", want an address of this machine`,
	} {
		if got := listenError("10.0.0.1:80", err).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestMostAdapters: clients cannot load adapters without end.
func TestMostAdapters(t *testing.T) {
	s, url := start(t, "{}", nil)
	for i := range maxAdapters {
		s.config.Models[0].load(fmt.Sprint("a", i), "")
	}
	if a := post(t, url+"/v1/load_lora_adapter", `{"lora_name":"one-more"}`); a.status != 400 ||
		!strings.Contains(a.text, "has 4096 adapters already") {
		t.Errorf("got %+v", a)
	}
}

// TestBodiesThatDoNotCome: clients that announce large bodies and send little of them take no room from those that send
// theirs.
func TestBodiesThatDoNotCome(t *testing.T) {
	s, url := start(t, "{}", func(c *Config) { c.MaxBody = 64 << 20 })
	for _, length := range []int64{-1, 64 << 20} {
		for range maxBodies >> 26 {
			reader, writer := io.Pipe()
			defer func() { _ = writer.Close() }()
			r, _ := http.NewRequest(http.MethodPost, url+"/v1/completions", reader)
			r.ContentLength = length
			go func() {
				if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
					_ = response.Body.Close()
				}
			}()
			if _, err := io.WriteString(writer, `{"prompt":"`+strings.Repeat("x", 1000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "all are being read", func() bool { return s.InFlight() == 2*maxBodies>>26 })
	large := `{"prompt":"` + strings.Repeat("x", 300_000) + `","max_tokens":1}`
	if a := post(t, url+"/tokenize", large); a.status != 200 {
		t.Errorf("got %d, %.200s", a.status, a.text)
	}
}

// TestBodySizes: bodies arrive whole, whatever their size, and give back what they hold.
func TestBodySizes(t *testing.T) {
	s, url := start(t, "{}", func(c *Config) { c.MaxBody = 1 << 20 })
	for _, size := range []int{1, smallBody - 1, smallBody, smallBody + 1, 2 * smallBody, 3*smallBody + 7, 1 << 20,
		1<<20 + 1} {
		for _, known := range []bool{true, false} {
			body := `{"prompt":"` + strings.Repeat("x", max(size-len(`{"prompt":""}`), 1)) + `"}`
			var from io.Reader = strings.NewReader(body)
			if !known {
				from = io.MultiReader(from)
			}
			response, err := http.Post(url+"/tokenize", "application/json", from)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			want, says := 200, fmt.Sprintf(`"count":%d`, len(body)-len(`{"prompt":""}`)+1)
			if len(body) > 1<<20 {
				want, says = 413, "larger than 1048576 bytes"
			}
			if response.StatusCode != want || !strings.Contains(string(text), says) {
				t.Errorf("%d bytes, length known %v: got %d, %.100s, want %s", len(body), known, response.StatusCode, text, says)
			}
		}
	}
	eventually(t, "nothing is held", func() bool { return s.bodies.unused() == maxBodies })
}

// TestProbes: each name under which platforms ask for readiness answers, and /version has the version of the program.
func TestProbes(t *testing.T) {
	s, url := start(t, "{}", func(c *Config) { c.Version = "1.2.3" })
	for _, path := range []string{"/health", "/healthz", "/ready", "/ping"} {
		if a := get(t, url+path); a.status != 200 || a.json(t)["status"] != "ready" {
			t.Errorf("%s: got %d %s", path, a.status, a.text)
		}
	}
	if a := get(t, url+"/version"); a.text != `{"name":"dynosim","version":"1.2.3"}` {
		t.Errorf("got %s", a.text)
	}
	s.Drain()
	for _, path := range []string{"/healthz", "/ready"} {
		if a := get(t, url+path); a.status != 503 {
			t.Errorf("%s of a server that drains: got %d", path, a.status)
		}
	}
}

// dial connects to a server and sends it a text.
func dial(t *testing.T, url, text string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// TestTwoLengths: a connection ends after a request that gives the length of its body twice, so that the rest of it is
// not taken for another request.
func TestTwoLengths(t *testing.T) {
	_, url := start(t, fast, nil)
	const body = `{"prompt":"x","max_tokens":2}`
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	const hidden = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
	conn := dial(t, url,
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked+hidden)
	text, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset") { // what is left unread may reset it
		t.Fatal(err)
	}
	if got := string(text); !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, "Connection: close") ||
		strings.Contains(got, `"object":"list"`) {
		t.Errorf("got %s", got)
	}
}

// TestHalfClosed: a client that closes its side before the answer hears what is wrong, with a status that HTTP knows.
func TestHalfClosed(t *testing.T) {
	_, url := start(t, slow, nil)
	const body = `{"prompt":"x","max_tokens":1000}`
	conn := dial(t, url, fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body),
		body))
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	if response.Status != "400 Bad Request" || !strings.Contains(string(text), "keep it open") {
		t.Errorf("got %s %s", response.Status, text)
	}
	eventually(t, "metrics count the client as gone", func() bool {
		return strings.Contains(get(t, url+"/metrics").text, `dynosim_http_errors_total{status="499"} 1`)
	})
}

// TestSlowTokens: the time that a client may take to read is counted while something is to be read, not between tokens.
func TestSlowTokens(t *testing.T) {
	_, url := start(t, `{"block_size":16,"num_gpu_blocks":4096,"speedup_ratio":1000,"decode_speedup_ratio":0.000005}`,
		func(c *Config) { c.WriteTimeout = 500 * time.Millisecond })
	for _, version := range []int{1, 2} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(version == 1)
		transport.Protocols.SetUnencryptedHTTP2(version == 2)
		defer transport.CloseIdleConnections()
		client := http.Client{Transport: transport}
		r, err := client.Post(url+completionsPath, "", strings.NewReader(`{"prompt":"x","max_tokens":3,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.ProtoMajor != version || !strings.HasSuffix(string(text), "[DONE]\n\n") {
			t.Errorf("HTTP/%d: got %v after %v: %s", r.ProtoMajor, err, time.Since(begun), text)
		}
		if took := time.Since(begun); took < time.Second {
			t.Errorf("tokens came within %v, which shows nothing", took)
		}
	}
}
