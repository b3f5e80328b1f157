package serve

import (
	"encoding/json"
	"strings"
	"testing"

	"dynosim/gocore/live"
)

// addresses are those of a plan: where the request plane, ZeroMQ sockets, hand-offs and the status server listen, and what
// others are told about the first and the third.
type addresses struct{ Requests, Host, Events, Bootstrap, BootstrapHost, Status string }

// parsedAddresses is what a description and an environment amount to. Ports are 0.
func parsedAddresses(t *testing.T, description string, variables ...string) (addresses, []string, error) {
	t.Helper()
	list, err := json.Marshal(variables)
	if err != nil {
		t.Fatal(err)
	}
	text, env, err := withDefaults(strings.TrimSuffix(description, "}") + `, "environment": ` + string(list) + "}")
	if err != nil {
		t.Fatal(err)
	}
	o, err := decode(text)
	if err != nil {
		return addresses{}, nil, err
	}
	p := &plan{}
	c := &p.config
	if o.Text("request_plane") == "http" {
		c.Requests = live.RequestsOverHTTP
	}
	err = p.parseAddresses(o, env)
	requests := strings.TrimSuffix(c.Listen, ":0")
	return addresses{requests, c.Host, c.EventHost, c.BootstrapListen, c.BootstrapHost, env["DYN_SYSTEM_HOST"]}, p.warnings, err
}

func TestAddresses(t *testing.T) {
	far, machine := routableAddress(), machineAddress()
	const etcd, file, mem = `{"discovery_backend": "etcd"}`, `{"discovery_backend": "file"}`, `{"discovery_backend": "mem"}`
	for _, test := range []struct {
		name, description string
		variables         []string
		want              addresses
	}{
		{"several hosts may meet in etcd", etcd, nil, addresses{far, far, "", "", machine, ""}},
		{"a folder is on one host", file, nil, addresses{loopback, loopback, loopback, loopback, loopback, ""}},
		{"nobody else finds these", mem, nil, addresses{loopback, loopback, loopback, loopback, loopback, ""}},
		{"unless somebody says otherwise", file, []string{"DYN_LISTEN_HOST=0.0.0.0"}, addresses{"0.0.0.0", far, "0.0.0.0", "0.0.0.0", machine, "0.0.0.0"}},
		{"about the request plane", file, []string{"DYN_TCP_RPC_HOST=192.0.2.7"}, addresses{"192.0.2.7", "192.0.2.7", "", "", machine, ""}},
		{"or that it listens everywhere", file, []string{"DYN_TCP_RPC_HOST=0.0.0.0"}, addresses{"0.0.0.0", far, "", "", machine, ""}},
		{"what is told to be local is", etcd, []string{"DYN_TCP_RPC_HOST=127.0.0.1"}, addresses{loopback, loopback, loopback, loopback, loopback, ""}},
		{"brackets", etcd, []string{"DYN_TCP_RPC_HOST=[::1]"}, addresses{"[::1]", "::1", "::1", "::1", "::1", ""}},
		{"the variable of the other plane", `{"discovery_backend": "etcd", "request_plane": "http"}`, []string{"DYN_TCP_RPC_HOST=127.0.0.1"}, addresses{far, far, "", "", machine, ""}},
		{"hand-offs have that of HTTP", etcd, []string{"DYN_HTTP_RPC_HOST=192.0.2.7"}, addresses{far, far, "", "", "192.0.2.7", ""}},
		{"the option holds for all", `{"discovery_backend": "etcd", "listen_host": "127.0.0.1"}`, nil, addresses{loopback, loopback, loopback, loopback, loopback, loopback}},
		{"more than its variable", `{"discovery_backend": "etcd", "listen_host": "127.0.0.2"}`, []string{"DYN_LISTEN_HOST=127.0.0.1"}, addresses{"127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2"}},
		{"but others may be told another one", `{"discovery_backend": "etcd", "listen_host": "0.0.0.0"}`, []string{"DYN_TCP_RPC_HOST=192.0.2.7"}, addresses{"0.0.0.0", "192.0.2.7", "0.0.0.0", "0.0.0.0", machine, "0.0.0.0"}},
		{"and probes come another way", `{"discovery_backend": "etcd", "listen_host": "127.0.0.1"}`, []string{"DYN_SYSTEM_HOST=0.0.0.0"}, addresses{loopback, loopback, loopback, loopback, loopback, "0.0.0.0"}},
	} {
		got, warnings, err := parsedAddresses(t, test.description, test.variables...)
		if err != nil || got != test.want || len(warnings) > 0 {
			t.Errorf("%s: got %+v, %v, %v\nwant %+v", test.name, got, warnings, err, test.want)
		}
	}
}

func TestAddressesThatCannotBe(t *testing.T) {
	for _, text := range []string{`"nosuch.invalid"`, `"192.0.2.7"`, `"1.2.3"`, `"[]"`, `" "`, `""`} {
		_, _, err := parsedAddresses(t, `{"listen_host": `+text+`}`)
		if err == nil || !strings.HasPrefix(err.Error(), "listen_host: got "+text) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	_, warnings, err := parsedAddresses(t, `{"listen_host": "127.0.0.1"}`, "DYN_TCP_RPC_HOST=192.0.2.7")
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "DYN_TCP_RPC_HOST: others are told to connect to 192.0.2.7") {
		t.Errorf("got %v, %v", warnings, err)
	}
}
