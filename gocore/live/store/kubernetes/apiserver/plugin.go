package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// plugin is a command that prints credentials: https://kubernetes.io/docs/reference/access-authn-authz/authentication/.
type plugin struct {
	APIVersion string   `json:"apiVersion"`
	Command    string   `json:"command"`
	Args       []string `json:"args"`
	Env        []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	InstallHint        string `json:"installHint"`
	ProvideClusterInfo bool   `json:"provideClusterInfo"`
	InteractiveMode    string `json:"interactiveMode"`
}

// pluginVersions are those of the documents that plugins take and print.
var pluginVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

// pluginTimeout bounds a run of a plugin, which may ask a server of its own.
const pluginTimeout = time.Minute

func (p *plugin) check() error {
	switch {
	case p.Command == "":
		return errors.New("exec.command: got nothing, want a command that prints credentials")
	case !slices.Contains(pluginVersions, p.APIVersion):
		return fmt.Errorf("exec.apiVersion: got %q, want %s", p.APIVersion, strings.Join(pluginVersions, " or "))
	case p.InteractiveMode == "Always":
		return errors.New("exec.interactiveMode: got Always, but there is no terminal; want Never or IfAvailable")
	}
	return nil
}

// printed is what a plugin prints.
type printed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     *struct {
		Token       string     `json:"token"`
		Certificate string     `json:"clientCertificateData"`
		Key         string     `json:"clientKeyData"`
		Expires     *time.Time `json:"expirationTimestamp"`
	} `json:"status"`
}

// run runs the command once.
func (p *plugin) run(ctx context.Context, c cluster) (*printed, error) {
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	input, err := p.input(c)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, p.Command, p.Args...)
	command.WaitDelay = time.Second
	command.Env = os.Environ()
	for _, e := range p.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	command.Env = append(command.Env, "KUBERNETES_EXEC_INFO="+string(input))
	var faults bytes.Buffer
	command.Stderr = &faults
	text, err := command.Output()
	if err != nil {
		hint := cmp.Or(strings.TrimSpace(faults.String()), p.InstallHint)
		return nil, fmt.Errorf("exec: %s: %w: %s", p.Command, err, cmp.Or(hint, "it printed no reason"))
	}
	var got printed
	if err := json.Unmarshal(text, &got); err != nil {
		return nil, fmt.Errorf("exec: %s printed no credentials: %w", p.Command, err)
	}
	switch s := got.Status; {
	case got.Kind != "ExecCredential" || got.APIVersion != p.APIVersion:
		return nil, fmt.Errorf("exec: %s printed kind %q of %q, want ExecCredential of %q", p.Command, got.Kind,
			got.APIVersion, p.APIVersion)
	case s == nil || s.Token == "" && (s.Certificate == "" || s.Key == ""):
		return nil, fmt.Errorf("exec: %s printed neither a token nor a certificate with its key", p.Command)
	}
	return &got, nil
}

// input returns the document that a plugin finds in its environment.
func (p *plugin) input(c cluster) ([]byte, error) {
	spec := map[string]any{"interactive": false}
	if p.ProvideClusterInfo {
		if len(c.AuthorityData) == 0 && c.Authority != "" {
			text, err := os.ReadFile(c.Authority)
			if err != nil {
				return nil, err
			}
			c.AuthorityData = text
		}
		type described struct {
			cluster
			Authority  *struct{} `json:"certificate-authority,omitempty"` // plugins take its content
			Extensions *struct{} `json:"extensions,omitempty"`
			Config     any       `json:"config,omitempty"`
		}
		d := described{cluster: c}
		for _, e := range c.Extensions {
			if e.Name == "client.authentication.k8s.io/exec" {
				d.Config = e.Extension
			}
		}
		spec["cluster"] = d
	}
	return json.Marshal(map[string]any{"apiVersion": p.APIVersion, "kind": "ExecCredential", "spec": spec})
}

// pluginCredentials are those that a plugin printed last.
type pluginCredentials struct {
	plugin  *plugin
	cluster cluster
	renewed func() // after a change of the certificate

	mu   sync.Mutex
	last *printed
	pair *tls.Certificate
}

// get returns credentials that have not expired.
func (c *pluginCredentials) get(ctx context.Context) (token string, pair *tls.Certificate, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || c.last.Status.Expires != nil && !time.Now().Before(*c.last.Status.Expires) {
		if err := c.renew(ctx); err != nil {
			return "", nil, err
		}
	}
	return c.last.Status.Token, c.pair, nil
}

// refuse forgets a token that the server has refused.
func (c *pluginCredentials) refuse(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && c.last.Status.Token == token {
		c.last = nil
	}
}

func (c *pluginCredentials) renew(ctx context.Context) error {
	got, err := c.plugin.run(ctx, c.cluster)
	if err != nil {
		return err
	}
	var pair *tls.Certificate
	if got.Status.Certificate != "" {
		read, err := tls.X509KeyPair([]byte(got.Status.Certificate), []byte(got.Status.Key))
		if err != nil {
			return fmt.Errorf("exec: %s printed a certificate that cannot be used: %w", c.plugin.Command, err)
		}
		pair = &read
	}
	if c.pair != nil && pair != nil && !slices.EqualFunc(c.pair.Certificate, pair.Certificate, bytes.Equal) {
		c.renewed()
	}
	c.last, c.pair = got, pair
	return nil
}
