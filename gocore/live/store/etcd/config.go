package etcd

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// Config says where etcd is and how a worker logs in.
type Config struct {
	Endpoints []string      // URLs of the members of one cluster
	LeaseTTL  time.Duration // how long records outlive a worker that was killed; whole seconds
	// Username and Password are "" without authentication by password.
	Username, Password string
	// CA, ClientCert and ClientKey are PEM files, "" for none: the authority that is trusted, and the certificate and
	// key of this process.
	CA, ClientCert, ClientKey string
}

const (
	standardEndpoint = "localhost:2379"
	standardLeaseTTL = 10 * time.Second
)

// FromEnvironment reads the variables that all processes of a deployment share. getenv looks them up. A lease time that
// is zero or not a number is replaced by the default.
func FromEnvironment(getenv func(string) string) (Config, error) {
	c := Config{
		LeaseTTL:   standardLeaseTTL,
		Username:   getenv("ETCD_AUTH_USERNAME"),
		Password:   getenv("ETCD_AUTH_PASSWORD"),
		CA:         getenv("ETCD_AUTH_CA"),
		ClientCert: getenv("ETCD_AUTH_CLIENT_CERT"),
		ClientKey:  getenv("ETCD_AUTH_CLIENT_KEY"),
	}
	if seconds, err := strconv.ParseUint(getenv("ETCD_LEASE_TTL"), 10, 31); err == nil && seconds > 0 {
		c.LeaseTTL = time.Duration(seconds) * time.Second
	}
	for _, pair := range [][4]string{
		{"ETCD_AUTH_USERNAME", c.Username, "ETCD_AUTH_PASSWORD", c.Password},
		{"ETCD_AUTH_CLIENT_CERT", c.ClientCert, "ETCD_AUTH_CLIENT_KEY", c.ClientKey},
	} {
		if (pair[1] == "") != (pair[3] == "") {
			return Config{}, fmt.Errorf("%s and %s: got one without the other, want both or none", pair[0], pair[2])
		}
	}
	err := c.setEndpoints(getenv("ETCD_ENDPOINTS"))
	return c, err
}

func (c *Config) setEndpoints(list string) error {
	if strings.Trim(list, " ,") == "" {
		list = standardEndpoint
	}
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		endpoint, err := c.endpoint(part)
		if err != nil {
			return fmt.Errorf("ETCD_ENDPOINTS: got %q, %w", part, err)
		}
		c.Endpoints = append(c.Endpoints, endpoint)
	}
	return nil
}

// endpoint completes the URL of a member, which may lack its scheme.
func (c *Config) endpoint(text string) (string, error) {
	scheme := "http"
	if c.secure() {
		scheme = "https"
	}
	if !strings.Contains(text, "://") {
		text = scheme + "://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		strings.Trim(u.Path, "/") != "":
		return "", fmt.Errorf("want http://HOST:PORT or https://HOST:PORT, with commas between several")
	case u.Scheme == "http" && c.secure():
		return "", fmt.Errorf("want https://, because ETCD_AUTH_CA or ETCD_AUTH_CLIENT_CERT is set")
	case u.Port() == "":
		u.Host += ":2379"
	}
	return u.Scheme + "://" + u.Host, nil
}

func (c *Config) secure() bool { return c.CA != "" || c.ClientCert != "" }

// Check reads the files that the configuration names.
func (c *Config) Check() error {
	_, err := c.tls()
	return err
}

// tls returns the configuration of encrypted connections, nil if nothing is set. Servers are always verified, by
// default against the authorities that the host trusts.
func (c *Config) tls() (*tls.Config, error) {
	if !c.secure() {
		for _, e := range c.Endpoints {
			if strings.HasPrefix(e, "https:") {
				return &tls.Config{MinVersion: tls.VersionTLS12}, nil
			}
		}
		return nil, nil
	}
	config, err := transport.TLSInfo{TrustedCAFile: c.CA, CertFile: c.ClientCert, KeyFile: c.ClientKey}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("ETCD_AUTH_CA, ETCD_AUTH_CLIENT_CERT or ETCD_AUTH_CLIENT_KEY: %w", err)
	}
	return config, nil
}
