package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pluginScript counts its runs in a file and prints a token with their number, and more members of the status.
func pluginScript(t *testing.T, more string) (path string) {
	t.Helper()
	return write(t, "plugin", fmt.Sprintf(`#!/bin/sh
cd "$(dirname "$0")"
echo x >> runs
echo "$KUBERNETES_EXEC_INFO" > info
echo "$1 $A" > called
echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
  "status": {"token": "t'$(wc -l < runs)'"%s}}'
`, more))
}

func pluginMember(path string) string {
	return "exec: {apiVersion: client.authentication.k8s.io/v1, provideClusterInfo: true, interactiveMode: Never, " +
		"args: [one], env: [{name: A, value: two}], command: " + path + "}"
}

// TestPlugin: a plugin runs once, and again when the server refuses its token or that has expired.
func TestPlugin(t *testing.T) {
	good := "t1"
	s := &recorder{answer: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+good {
			w.WriteHeader(401)
		}
	}}
	server := httptest.NewServer(s)
	defer server.Close()
	path := pluginScript(t, "")
	c := open(t, kubeconfigFor(t, server.URL, pluginMember(path)))
	call := func() error { return c.Delete(t.Context(), pod, "p") }
	for range 3 {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	good = "t2"
	if err := call(); err != nil {
		t.Error(err)
	}
	good = "t9"
	if err := call(); !HasCode(err, 401) {
		t.Errorf("got %v", err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if runs := strings.Count(read("runs"), "x"); runs != 3 || read("called") != "one two" {
		t.Errorf("got %d runs, called %s", runs, read("called"))
	}
	var info struct {
		Kind string
		Spec struct {
			Interactive *bool
			Cluster     map[string]any
		}
	}
	if err := json.Unmarshal([]byte(read("info")), &info); err != nil || info.Kind != "ExecCredential" ||
		info.Spec.Interactive == nil || *info.Spec.Interactive || info.Spec.Cluster["server"] != server.URL {
		t.Errorf("got %s, %v", read("info"), err)
	}

	path = pluginScript(t, `, "expirationTimestamp": "2020-01-01T00:00:00Z"`)
	c, good = open(t, kubeconfigFor(t, server.URL, pluginMember(path))), "t1"
	if err := call(); err != nil {
		t.Error(err)
	}
	good = "t2"
	if err := call(); err != nil || strings.Count(read("runs"), "x") != 2 {
		t.Errorf("got %v after %s", err, read("runs"))
	}
}

// TestPluginFaults: each of them names the command.
func TestPluginFaults(t *testing.T) {
	print := func(text string) string { return "#!/bin/sh\necho '" + text + "'\n" }
	const kind = `{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {`
	for script, want := range map[string]string{
		"#!/bin/sh\necho sign in first >&2; exit 3\n": "exit status 3: sign in first",
		print("a"):               "printed no credentials",
		print(`{"kind": "Pod"}`): `printed kind "Pod"`,
		print(kind + `}}`):       "neither a token nor a certificate",
		print(kind + `"clientCertificateData": "a", "clientKeyData": "b"}}`): "a certificate that cannot be used",
	} {
		path := write(t, "plugin", script)
		c := open(t, kubeconfigFor(t, "http://127.0.0.1:1", pluginMember(path)))
		if err := c.Delete(t.Context(), pod, "p"); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	c := open(t, kubeconfigFor(t, "http://127.0.0.1:1", "exec: {apiVersion: client.authentication.k8s.io/v1, "+
		"command: no-such-plugin, installHint: install it}"))
	if err := c.Delete(t.Context(), pod, "p"); err == nil || !strings.Contains(err.Error(), "install it") {
		t.Errorf("got %v", err)
	}
}

// selfSigned returns a certificate and its key as PEM.
func selfSigned(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return encode("CERTIFICATE", raw), encode("PRIVATE KEY", secret)
}

// TestCertificates: those of files and of plugins are shown to the server.
func TestCertificates(t *testing.T) {
	var shown string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown = ""
		for _, c := range r.TLS.PeerCertificates {
			shown += c.DNSNames[0]
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	certificate, key := selfSigned(t, "file.org")
	printed, printedKey := selfSigned(t, "plugin.org")
	status, err := json.Marshal(map[string]string{"clientCertificateData": printed, "clientKeyData": printedKey})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(write(t, "key", key))
	if err := os.WriteFile(folder+"/certificate", []byte(certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := write(t, "plugin", "#!/bin/sh\ncat <<'E'\n"+`{"kind": "ExecCredential", `+
		`"apiVersion": "client.authentication.k8s.io/v1", "status": `+string(status)+"}\nE\n")
	for member, want := range map[string]string{
		"{client-certificate: " + folder + "/certificate, client-key: " + folder + "/key}": "file.org",
		"{" + pluginMember(plugin) + "}": "plugin.org",
		"{token: a}":                     "",
	} {
		text := fmt.Sprintf("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
			"clusters: [{name: k, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
			"users: [{name: u, user: %s}]", server.URL, member)
		if err := open(t, write(t, "config", text)).Delete(t.Context(), pod, "p"); err != nil || shown != want {
			t.Errorf("got %q, %v, want %s", shown, err, want)
		}
	}
}
