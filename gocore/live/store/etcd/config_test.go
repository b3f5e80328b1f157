package etcd

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestFromEnvironment(t *testing.T) {
	standard := Config{Endpoints: []string{"http://localhost:2379"}, LeaseTTL: 10 * time.Second}
	with := func(change func(*Config)) Config {
		c := standard
		change(&c)
		return c
	}
	for _, test := range []struct {
		environment map[string]string
		want        Config
		err         string
	}{
		{nil, standard, ""},
		{map[string]string{"ETCD_LEASE_TTL": "0"}, standard, ""},
		{map[string]string{"ETCD_LEASE_TTL": "soon"}, standard, ""},
		{map[string]string{"ETCD_LEASE_TTL": "3"}, with(func(c *Config) { c.LeaseTTL = 3 * time.Second }), ""},
		{
			map[string]string{"ETCD_ENDPOINTS": " http://a:1/, b ,http://[::1]:3"},
			with(func(c *Config) { c.Endpoints = []string{"http://a:1", "http://b:2379", "http://[::1]:3"} }), "",
		},
		{
			map[string]string{"ETCD_AUTH_CA": "ca.pem", "ETCD_ENDPOINTS": "a:1"},
			with(func(c *Config) { c.CA = "ca.pem"; c.Endpoints = []string{"https://a:1"} }), "",
		},
		{
			map[string]string{"ETCD_AUTH_CA": "ca.pem", "ETCD_ENDPOINTS": " , "},
			with(func(c *Config) { c.CA = "ca.pem"; c.Endpoints = []string{"https://localhost:2379"} }), "",
		},
		{
			map[string]string{"ETCD_AUTH_USERNAME": "u", "ETCD_AUTH_PASSWORD": "p"},
			with(func(c *Config) { c.Username, c.Password = "u", "p" }), "",
		},
		{map[string]string{"ETCD_AUTH_CA": "ca.pem", "ETCD_ENDPOINTS": "http://a:1"}, Config{},
			`ETCD_ENDPOINTS: got "http://a:1", want https://`},
		{map[string]string{"ETCD_ENDPOINTS": "ftp://a:1"}, Config{},
			`ETCD_ENDPOINTS: got "ftp://a:1", want http://HOST:PORT`},
		{map[string]string{"ETCD_ENDPOINTS": "http://a:b"}, Config{}, `ETCD_ENDPOINTS: got "http://a:b", want`},
		{map[string]string{"ETCD_ENDPOINTS": "http://a/b"}, Config{}, `ETCD_ENDPOINTS: got "http://a/b", want`},
		{map[string]string{"ETCD_AUTH_PASSWORD": "p"}, Config{}, "ETCD_AUTH_USERNAME and ETCD_AUTH_PASSWORD: got one"},
		{map[string]string{"ETCD_AUTH_CLIENT_CERT": "c"}, Config{},
			"ETCD_AUTH_CLIENT_CERT and ETCD_AUTH_CLIENT_KEY: got one"},
	} {
		got, err := FromEnvironment(func(name string) string { return test.environment[name] })
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v: got %v, want %s", test.environment, err, test.err)
			}
		} else if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v: got %+v, %v", test.environment, got, err)
		}
	}
}
