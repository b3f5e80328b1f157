package bus

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Config says where the server is and how this process introduces itself.
type Config struct {
	Servers []string // URLs of one cluster
	// At most one way to log in is set:
	Username, Password string
	Token              string
	NKeySeed           string
	CredentialsFile    string
}

const (
	standardServer = "nats://localhost:4222"
	standardUser   = "user" // and password if none are given, as in the reference; servers without accounts ignore them
)

// FromEnvironment reads the variables that all processes of a deployment share. getenv looks them up. If several ways
// to log in are given, the first of these is used: user and password, token, key, file of credentials.
func FromEnvironment(getenv func(string) string) (Config, error) {
	var c Config
	inURL, err := c.setServers(getenv("NATS_SERVER"))
	if err != nil {
		return Config{}, err
	}
	user, password := getenv("NATS_AUTH_USERNAME"), getenv("NATS_AUTH_PASSWORD")
	if (user == "") != (password == "") {
		return Config{}, fmt.Errorf("NATS_AUTH_USERNAME and NATS_AUTH_PASSWORD: got one without the other, want both or none")
	}
	switch {
	case user != "":
		c.Username, c.Password = user, password
	case getenv("NATS_AUTH_TOKEN") != "":
		c.Token = getenv("NATS_AUTH_TOKEN")
	case getenv("NATS_AUTH_NKEY") != "":
		c.NKeySeed = getenv("NATS_AUTH_NKEY")
		if _, err := nkeys.FromSeed([]byte(c.NKeySeed)); err != nil {
			return Config{}, fmt.Errorf("NATS_AUTH_NKEY: want the seed of a key, SU...: %w", err)
		}
	case getenv("NATS_AUTH_CREDENTIALS_FILE") != "":
		c.CredentialsFile = getenv("NATS_AUTH_CREDENTIALS_FILE")
	case !inURL:
		c.Username, c.Password = standardUser, standardUser
	}
	return c, nil
}

// setServers reads a list of URLs with commas in between, and reports whether one of them names a user.
func (c *Config) setServers(list string) (withUser bool, err error) {
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return false, fmt.Errorf("NATS_SERVER: got %q, want nats://HOST:PORT or tls://HOST:PORT, with commas "+
				"between several", hidePassword(part))
		}
		withUser = withUser || u.User != nil
		c.Servers = append(c.Servers, part)
	}
	if len(c.Servers) == 0 {
		c.Servers = []string{standardServer}
	}
	return withUser, nil
}

// Check reads the file that the configuration names.
func (c *Config) Check() error {
	if c.CredentialsFile == "" {
		return nil
	}
	_, err := os.ReadFile(c.CredentialsFile)
	if err != nil {
		return fmt.Errorf("NATS_AUTH_CREDENTIALS_FILE: %w", err)
	}
	return nil
}

// login returns the options by which this process logs in.
func (c *Config) login() ([]nats.Option, error) {
	switch {
	case c.Username != "":
		return []nats.Option{nats.UserInfo(c.Username, c.Password)}, nil
	case c.Token != "":
		return []nats.Option{nats.Token(c.Token)}, nil
	case c.NKeySeed != "":
		key, err := nkeys.FromSeed([]byte(c.NKeySeed))
		if err != nil {
			return nil, err
		}
		public, err := key.PublicKey()
		return []nats.Option{nats.Nkey(public, key.Sign)}, err
	case c.CredentialsFile != "":
		return []nats.Option{nats.UserCredentials(c.CredentialsFile)}, nil
	}
	return nil, nil
}

// String lists the servers, without passwords.
func (c *Config) String() string {
	shown := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		shown[i] = hidePassword(s)
	}
	return strings.Join(shown, ", ")
}

func hidePassword(server string) string {
	if u, err := url.Parse(server); err == nil {
		return u.Redacted()
	}
	if _, host, found := strings.Cut(server, "@"); found {
		return host
	}
	return server
}
