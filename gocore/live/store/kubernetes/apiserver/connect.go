package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// pingAfter is how long a connection may be silent before it is checked.
const pingAfter = 30 * time.Second

// connect returns how connections are made, and how requests are signed.
func (a *access) connect() (*http.Transport, signer, error) {
	sign := signer{user: a.user}
	t := http.DefaultTransport.(*http.Transport).Clone() // it takes proxies from the environment
	t.DisableCompression = a.cluster.DisableCompression
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter / 2} // finds dead connections
	if a.cluster.Proxy != "" {
		proxy, err := url.Parse(a.cluster.Proxy)
		if err != nil || proxy.Host == "" {
			return nil, sign, fmt.Errorf("proxy-url: got %q, want an address such as http://proxy:3128", a.cluster.Proxy)
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	t.TLSClientConfig = &tls.Config{
		ServerName: a.cluster.ServerName, InsecureSkipVerify: a.cluster.Insecure, //nolint:gosec // as the user says
		MinVersion: tls.VersionTLS12,
	}
	if err := a.cluster.trust(t.TLSClientConfig); err != nil {
		return nil, sign, err
	}
	switch u := &a.user; {
	case u.Exec != nil:
		sign.plugin = &pluginCredentials{plugin: u.Exec, cluster: a.cluster, renewed: t.CloseIdleConnections}
		t.TLSClientConfig.GetClientCertificate = sign.pluginCertificate
	case u.Certificate != "" || len(u.CertificateData) > 0:
		if _, err := u.pair(); err != nil {
			return nil, sign, err
		}
		// read again for each connection: files are replaced before they expire
		t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return u.pair()
		}
	}
	if a.user.TokenFile != "" {
		sign.file = &tokenFile{path: a.user.TokenFile}
		if _, err := sign.file.token(time.Now()); err != nil {
			return nil, sign, fmt.Errorf("tokenFile: %w", err)
		}
	}
	return t, sign, nil
}

// trust takes over the certificate authority.
func (c *cluster) trust(config *tls.Config) error {
	text, name := c.AuthorityData, "certificate-authority-data"
	if len(text) == 0 && c.Authority != "" {
		read, err := os.ReadFile(c.Authority)
		if err != nil {
			return fmt.Errorf("certificate-authority: %w", err)
		}
		text, name = read, c.Authority
	}
	if len(text) == 0 {
		return nil // those of the system
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: there is no certificate in it, want PEM", name)
	}
	return nil
}

// pair returns the certificate of the user.
func (u *user) pair() (*tls.Certificate, error) {
	certificate, key := u.CertificateData, u.KeyData
	for _, part := range []struct {
		data *[]byte
		path string
	}{{&certificate, u.Certificate}, {&key, u.Key}} {
		if len(*part.data) == 0 {
			text, err := os.ReadFile(part.path)
			if err != nil {
				return nil, fmt.Errorf("client-certificate: %w", err)
			}
			*part.data = text
		}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("client-certificate: %w", err)
	}
	return &pair, nil
}

// signer puts credentials into requests.
type signer struct {
	user   user
	file   *tokenFile
	plugin *pluginCredentials
}

// sign adds the headers of the user; it returns the token among them, if any.
func (s *signer) sign(r *http.Request) (token string, err error) {
	token = s.user.Token
	switch {
	case s.plugin != nil:
		token, _, err = s.plugin.get(r.Context())
	case s.file != nil:
		token, err = s.file.token(time.Now())
	}
	if err != nil {
		return "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	} else if s.user.Name != "" {
		r.SetBasicAuth(s.user.Name, s.user.Password)
	}
	s.impersonate(r.Header)
	return token, nil
}

// impersonate adds the headers by which the server acts as another user.
func (s *signer) impersonate(h http.Header) {
	if s.user.Impersonate == "" {
		return
	}
	h.Set("Impersonate-User", s.user.Impersonate)
	if s.user.ImpersonateUID != "" {
		h.Set("Impersonate-Uid", s.user.ImpersonateUID)
	}
	for _, group := range s.user.ImpersonateGroup {
		h.Add("Impersonate-Group", group)
	}
	for name, values := range s.user.ImpersonateExtra {
		for _, value := range values {
			h.Add("Impersonate-Extra-"+strings.ReplaceAll(url.QueryEscape(name), "+", "%20"), value)
		}
	}
}

// renews reports whether refused credentials can be replaced.
func (s *signer) renews() bool { return s.plugin != nil }

// refuse forgets a token that the server has refused.
func (s *signer) refuse(token string) { s.plugin.refuse(token) }

// pluginCertificate returns the certificate that the plugin has printed; an empty one stands for none.
func (s *signer) pluginCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	_, pair, err := s.plugin.get(context.Background())
	if err != nil || pair == nil {
		return &tls.Certificate{}, err
	}
	return pair, nil
}

// tokenFile is a token that is replaced from time to time.
type tokenFile struct {
	path string

	mu   sync.Mutex
	last string
	read time.Time
}

// tokenFreshness is how long a token is used without another look into its file; the cluster replaces those of pods
// long before they expire.
const tokenFreshness = time.Minute

// token returns the content of the file. One that cannot be read now does not matter if it could be before.
func (f *tokenFile) token(now time.Time) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != "" && now.Sub(f.read) < tokenFreshness {
		return f.last, nil
	}
	text, err := os.ReadFile(f.path)
	token := strings.TrimSpace(string(text))
	if err == nil && token == "" {
		err = fmt.Errorf("%s: there is no token in it", f.path)
	}
	if err != nil && f.last == "" {
		return "", err
	}
	if err == nil {
		f.last = token
	}
	f.read = now
	return f.last, nil
}
