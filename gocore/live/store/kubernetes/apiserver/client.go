// Package apiserver calls the API server of a Kubernetes cluster: it reads kubeconfig files, or what the cluster gives
// to its pods, and has the four calls that workers and frontends make. The official client for Go does all of this
// too, but its types and formats for everything else in a cluster are a sixth of an extension module.
package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Resource is a kind of objects in a namespace.
type Resource struct {
	Group, Version, Plural string // Group is "" for the core of Kubernetes
	Namespace              string
}

// String returns the name as kubectl takes it.
func (r Resource) String() string {
	return strings.TrimSuffix(r.Plural+"."+r.Group, ".")
}

func (r Resource) path() string {
	group := "apis/" + r.Group
	if r.Group == "" {
		group = "api"
	}
	return fmt.Sprintf("%s/%s/namespaces/%s/%s", group, r.Version, url.PathEscape(r.Namespace), r.Plural)
}

// Selector says which objects are listed; "" stands for all.
type Selector struct{ Labels, Fields string }

// Client calls one API server. It is safe for concurrent use.
type Client struct {
	server  *url.URL
	http    *http.Client
	sign    signer
	timeout time.Duration
}

// Open finds the API server by kubeconfig files, or else by what the cluster gives to this pod. timeout is that of one
// call. Nothing is sent yet.
func Open(files []string, timeout time.Duration) (*Client, error) {
	a, err := readFiles(files)
	if errors.Is(err, errNone) {
		if a, err = inCluster(os.Getenv, account); errors.Is(err, errNone) {
			err = errors.New("there is no kubeconfig, and this is not a pod")
		}
	}
	if err != nil {
		return nil, err
	}
	server, err := a.cluster.address(a.user)
	if err != nil {
		return nil, err
	}
	transport, sign, err := a.connect()
	if err != nil {
		return nil, err
	}
	return &Client{server, &http.Client{Transport: transport, Timeout: timeout}, sign, timeout}, nil
}

// address returns the URL of the server. One without a scheme is encrypted if anything in its kubeconfig is about that.
func (c *cluster) address(u user) (*url.URL, error) {
	text := c.Server
	if !strings.Contains(text, "://") {
		scheme := "http://"
		if c.Insecure || c.Authority != "" || len(c.AuthorityData) > 0 || u.Certificate != "" || len(u.CertificateData) > 0 {
			scheme = "https://"
		}
		text = scheme + text
	}
	server, err := url.Parse(text)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return nil, fmt.Errorf("server: got %q, want an address such as https://10.0.0.1:6443", c.Server)
	}
	return server, nil
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, r Resource, name string, object any) error {
	return c.call(ctx, request{method: http.MethodGet, path: r.path() + "/" + url.PathEscape(name)}, object)
}

// List reads objects; those are a document with the member "items".
func (c *Client) List(ctx context.Context, r Resource, s Selector, list any) error {
	query := url.Values{}
	if s.Labels != "" {
		query.Set("labelSelector", s.Labels)
	}
	if s.Fields != "" {
		query.Set("fieldSelector", s.Fields)
	}
	return c.call(ctx, request{method: http.MethodGet, path: r.path(), query: query}, list)
}

// Apply writes an object by server-side apply, also over what other managers of its fields have written.
func (c *Client) Apply(ctx context.Context, r Resource, name, manager string, document []byte) error {
	return c.call(ctx, request{
		method: http.MethodPatch, path: r.path() + "/" + url.PathEscape(name),
		query: url.Values{"fieldManager": {manager}, "force": {"true"}}, body: document,
	}, nil)
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, r Resource, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: r.path() + "/" + url.PathEscape(name)}, nil)
}

// StatusError is an answer that is not a success.
type StatusError struct {
	Code    int
	Message string
}

// Error implements error.
func (e *StatusError) Error() string { return e.Message }

// HasCode reports whether an error is an answer with this code.
func HasCode(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

type request struct {
	method, path string
	query        url.Values
	body         []byte
}

// Tries of one call: a server that is busy says when to come back.
const (
	busyTries   = 10
	largestBody = 256 << 20
)

// call sends a request, again if the server says when, or has refused credentials that can be renewed.
func (c *Client) call(ctx context.Context, r request, into any) error {
	renewed := false
	for try := 1; ; try++ {
		answer, token, err := c.send(ctx, r)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(io.LimitReader(answer.Body, largestBody))
		_ = answer.Body.Close()
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		if answer.StatusCode < 300 {
			if into == nil {
				return nil
			}
			if err := json.Unmarshal(body, into); err != nil {
				return fmt.Errorf("%s %s: the answer is not what was asked for: %w", r.method, r.path, err)
			}
			return nil
		}
		if answer.StatusCode == http.StatusUnauthorized && !renewed && c.sign.renews() {
			c.sign.refuse(token)
			renewed = true
			continue
		}
		delay, busy := comeBack(answer)
		if !busy || try == busyTries {
			return statusOf(answer, r, body)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
	}
}

// comeBack returns when a server that is busy wants the request again.
func comeBack(answer *http.Response) (delay time.Duration, busy bool) {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode < 500 {
		return 0, false
	}
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second, err == nil && seconds >= 0
}

// send sends a request once; token is the one that it had, if any.
func (c *Client) send(ctx context.Context, r request) (answer *http.Response, token string, err error) {
	where := c.server.JoinPath(r.path)
	query := url.Values{}
	for name, values := range r.query {
		query[name] = values
	}
	query.Set("timeout", c.timeout.String())
	where.RawQuery = query.Encode()
	sent, err := http.NewRequestWithContext(ctx, r.method, where.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, "", err
	}
	sent.Header.Set("Accept", "application/json")
	sent.Header.Set("User-Agent", "dynosim")
	if r.method == http.MethodPatch {
		sent.Header.Set("Content-Type", "application/apply-patch+yaml") // JSON is YAML
	}
	if token, err = c.sign.sign(sent); err != nil {
		return nil, "", err
	}
	answer, err = c.http.Do(sent)
	return answer, token, err
}

// statusOf returns the error that an answer stands for.
func statusOf(answer *http.Response, r request, body []byte) error {
	var status struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Message != "" {
		return &StatusError{answer.StatusCode, status.Message}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "") + "..."
	}
	return &StatusError{answer.StatusCode, fmt.Sprintf("%s %s: the server answered %s: %s", r.method, r.path,
		answer.Status, cmp.Or(line, "nothing more"))}
}
