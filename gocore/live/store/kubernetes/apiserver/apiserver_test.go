package apiserver

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write writes a file into a new folder.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

var pod = Resource{Version: "v1", Plural: "pods", Namespace: "ns"}

// kubeconfigFor returns the path of a kubeconfig whose user has these members, each a line.
func kubeconfigFor(t *testing.T, server string, members ...string) string {
	t.Helper()
	user := ""
	for _, member := range members {
		user += "    " + member + "\n"
	}
	return write(t, "config", fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: %q}}]
users:
- name: u
  user:
%s`, server, user))
}

func open(t *testing.T, files ...string) *Client {
	t.Helper()
	client, err := Open(files, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestFiles: the first file counts, files that do not exist do not, and paths begin at the file.
func TestFiles(t *testing.T) {
	first := write(t, "config", `{"current-context": "b", "users": [{"name": "u", "user": {"tokenFile": "t/token",
		"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}}}]}`)
	second := write(t, "config", `
current-context: a
contexts:
- {name: a, context: {cluster: other, user: u}}
- {name: b, context: {cluster: k, user: u, namespace: n}}
clusters:
- name: k
  cluster: {server: https://a:1/base, certificate-authority: ca.crt, tls-server-name: s, proxy-url: "http://p:2"}
users:
- {name: u, user: {token: secret}}
`)
	a, err := readFiles([]string{"/none", first, second})
	if err != nil {
		t.Fatal(err)
	}
	folder, other := filepath.Dir(first), filepath.Dir(second)
	if a.user.TokenFile != folder+"/t/token" || a.user.Token != "" || a.user.Exec.Command != folder+"/plugin" {
		t.Errorf("got user %+v", a.user)
	}
	if c := a.cluster; c.Server != "https://a:1/base" || c.Authority != other+"/ca.crt" || c.ServerName != "s" ||
		c.Proxy != "http://p:2" {
		t.Errorf("got cluster %+v", c)
	}
}

func TestFaults(t *testing.T) {
	const contexts = `contexts: [{name: c, context: {cluster: k, user: u}}]
`
	const whole = "current-context: c\n" + contexts + "clusters: [{name: k, cluster: {server: 'https://a'}}]\n"
	user := func(members string) string { return whole + "users: [{name: u, user: {" + members + "}}]" }
	for _, test := range []struct{ text, want string }{
		{"- a", "not a kubeconfig"},
		{"{}", "there is no kubeconfig, and this is not a pod"},
		{contexts, "current-context: got nothing"},
		{"current-context: d", `current-context: got "d"`},
		{"current-context: c\n" + contexts, `context "c": cluster: got "k"`},
		{whole, `context "c": user: got "u"`},
		{strings.Replace(user(""), "'https://a'", "", 1), "server: got nothing"},
		{strings.Replace(user(""), "https:", "ftp:", 1), `server: got "ftp://a"`},
		{strings.Replace(user(""), "server:", "proxy-url: a, server:", 1), `proxy-url: got "a"`},
		{strings.Replace(user(""), "server:", "certificate-authority-data: YQ==, server:", 1),
			"certificate-authority-data: there is no"},
		{strings.Replace(user(""), "server:", "insecure-skip-tls-verify: true, certificate-authority: a, server:", 1),
			"insecure-skip-tls-verify"},
		{strings.Replace(user(""), "server:", "certificate-authority: /none, server:", 1), "/none"},
		{user("auth-provider: {name: gcp}"), `auth-provider: got "gcp"`},
		{user("client-key: /a"), "client-certificate and client-key"},
		{user("client-key: /none, client-certificate: /none"), "client-certificate: open /none"},
		{user("client-key-data: YQ==, client-certificate-data: YQ=="), "client-certificate: tls"},
		{user("as-groups: [a]"), "as: got nothing"},
		{user("tokenFile: /none"), "tokenFile: open /none"},
		{user("exec: {apiVersion: client.authentication.k8s.io/v1}"), "exec.command: got nothing"},
		{user("exec: {command: a, apiVersion: v1}"), `exec.apiVersion: got "v1"`},
		{user("exec: {command: a, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}"),
			"exec.interactiveMode"},
	} {
		if _, err := Open([]string{write(t, "config", test.text)}, time.Second); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

// TestAddress: without a scheme, a server is called over TLS if anything is said about TLS.
func TestAddress(t *testing.T) {
	for want, c := range map[string]cluster{
		"http://a:1":          {Server: "a:1"},
		"https://a:1":         {Server: "a:1", Insecure: true},
		"https://b/k8s/c":     {Server: "https://b/k8s/c"},
		"https://[fd00::1]:6": {Server: "https://[fd00::1]:6"},
	} {
		if got, err := c.address(user{}); err != nil || got.String() != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
}

func TestInCluster(t *testing.T) {
	folder := filepath.Dir(write(t, "token", "secret\n")) + "/"
	environment := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	a, err := inCluster(func(name string) string { return environment[name] }, folder)
	if err != nil || a.cluster.Server != "https://[fd00::1]:443" || a.user.TokenFile != folder+"token" ||
		a.cluster.Authority != "" {
		t.Errorf("got %+v, %v", a, err)
	}
	if err := os.WriteFile(folder+"ca.crt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err = inCluster(func(name string) string { return environment[name] }, folder)
	if err != nil || a.cluster.Authority != folder+"ca.crt" {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := inCluster(func(string) string { return "1" }, "/none/"); err == nil {
		t.Error("a pod without a token is taken")
	}
}

// recorder answers with what answer returns, and keeps what was asked.
type recorder struct {
	asked  []*http.Request
	answer func(w http.ResponseWriter, r *http.Request)
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r)
	s.answer(w, r)
}

func TestCalls(t *testing.T) {
	s := &recorder{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a": 1}`)) }}
	server := httptest.NewServer(s)
	defer server.Close()
	c := open(t, kubeconfigFor(t, server.URL+"/base", "token: secret", "as: me", "as-uid: '7'", "as-groups: [g, h]",
		"as-user-extra: {a/b: [c]}"))
	var object struct{ A int }
	group := Resource{Group: "x.com", Version: "v2", Plural: "things", Namespace: "n"}
	for _, err := range []error{
		c.Get(t.Context(), pod, "p", &object),
		c.List(t.Context(), group, Selector{Labels: "l=1", Fields: "f=2"}, &object),
		c.Apply(t.Context(), group, "a b", "me", []byte(`{}`)),
		c.Delete(t.Context(), group, "p"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"GET /base/api/v1/namespaces/ns/pods/p?timeout=5s",
		"GET /base/apis/x.com/v2/namespaces/n/things?fieldSelector=f%3D2&labelSelector=l%3D1&timeout=5s",
		"PATCH /base/apis/x.com/v2/namespaces/n/things/a%20b?fieldManager=me&force=true&timeout=5s",
		"DELETE /base/apis/x.com/v2/namespaces/n/things/p?timeout=5s",
	}
	for i, r := range s.asked {
		if got := r.Method + " " + r.URL.String(); got != want[i] {
			t.Errorf("got %s, want %s", got, want[i])
		}
		h := r.Header
		if h.Get("Authorization") != "Bearer secret" || h.Get("Impersonate-User") != "me" ||
			h.Get("Impersonate-Uid") != "7" || len(h["Impersonate-Group"]) != 2 ||
			h.Get("Impersonate-Extra-a%2Fb") != "c" {
			t.Errorf("got %v", h)
		}
	}
	if object.A != 1 || group.String() != "things.x.com" || pod.String() != "pods" {
		t.Errorf("got %v, %s, %s", object, group, pod)
	}
	c = open(t, kubeconfigFor(t, server.URL, "username: me", "password: word"))
	if err := c.Get(t.Context(), pod, "p", &object); err != nil {
		t.Error(err)
	}
	if name, word, _ := s.asked[len(s.asked)-1].BasicAuth(); name != "me" || word != "word" {
		t.Errorf("got %s, %s", name, word)
	}
}

// TestRefusals: an error has what the server says; a server that says when to come back is asked again.
func TestRefusals(t *testing.T) {
	s := &recorder{}
	server := httptest.NewServer(s)
	defer server.Close()
	c := open(t, kubeconfigFor(t, server.URL, "token: secret"))
	for want, answer := range map[string]func(w http.ResponseWriter){
		"no such pod": func(w http.ResponseWriter) {
			w.WriteHeader(404)
			_, _ = w.Write([]byte(`{"kind": "Status", "message": "no such pod", "code": 404}`))
		},
		"the server answered 502 Bad Gateway: <html>": func(w http.ResponseWriter) {
			w.WriteHeader(502)
			_, _ = w.Write([]byte("<html>\n<body>"))
		},
		"the server answered 401 Unauthorized: nothing more": func(w http.ResponseWriter) { w.WriteHeader(401) },
		"not what was asked for":                             func(w http.ResponseWriter) { _, _ = w.Write([]byte(`[]`)) },
	} {
		s.answer = func(w http.ResponseWriter, _ *http.Request) { answer(w) }
		var object struct{}
		if err := c.Get(t.Context(), pod, "p", &object); err == nil || !strings.Contains(err.Error(), want) ||
			HasCode(err, 404) != strings.Contains(want, "no such") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, busy := range []int{2, 100} {
		before := len(s.asked)
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			if len(s.asked)-before <= busy {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(429)
			}
		}
		if err := c.Delete(t.Context(), pod, "p"); HasCode(err, 429) != (busy == 100) ||
			len(s.asked)-before != min(busy+1, busyTries) {
			t.Errorf("got %v after %d tries", err, len(s.asked)-before)
		}
	}
}

// TestTokenFile: a token is read again after a minute, and kept while its file cannot be read.
func TestTokenFile(t *testing.T) {
	path := write(t, "token", "one\n")
	f := tokenFile{path: path}
	now := time.Now()
	expect := func(after time.Duration, want string) {
		t.Helper()
		if got, err := f.token(now.Add(after)); got != want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	expect(0, "one")
	if err := os.WriteFile(path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(tokenFreshness-1, "one")
	expect(tokenFreshness, "two")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(3*tokenFreshness, "two")
	if _, err := (&tokenFile{path: write(t, "token", "\n")}).token(now); err == nil {
		t.Error("an empty file has a token")
	}
}

// TestTLS: the authority of the kubeconfig is trusted, no other; certificates of users are shown.
func TestTLS(t *testing.T) {
	s := &recorder{answer: func(http.ResponseWriter, *http.Request) {}}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	call := func(members string) error {
		text := fmt.Sprintf("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"+
			"clusters: [{name: k, cluster: {server: %q, %s}}]", server.URL, members)
		return open(t, write(t, "config", text)).Delete(t.Context(), pod, "p")
	}
	data := base64.StdEncoding.EncodeToString(authority)
	for members, good := range map[string]bool{
		"certificate-authority-data: " + data:                                    true,
		"certificate-authority-data: " + data + ", tls-server-name: b.org":       false,
		"certificate-authority-data: " + data + ", tls-server-name: example.com": true,
		"certificate-authority: " + write(t, "ca.crt", string(authority)):        true,
		"insecure-skip-tls-verify: true":                                         true,
		"":                                                                       false,
	} {
		if err := call(members); (err == nil) != good {
			t.Errorf("%s: got %v", members, err)
		}
	}
	if len(s.asked) == 0 || s.asked[0].ProtoMajor != 2 {
		t.Errorf("got %d requests, want HTTP/2", len(s.asked))
	}
}
