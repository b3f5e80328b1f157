package serve

import (
	"encoding/json"
	"strings"
	"testing"
)

// places are where a process listens: request plane, ZeroMQ sockets, hand-offs and status server; and what others learn
// about the first and the third.
type places struct{ Requests, Host, Events, Bootstrap, BootstrapHost, Status string }

// findPlaces returns what a description and an environment amount to. Ports are 0.
func findPlaces(t *testing.T, description string, variables ...string) (places, []string, error) {
	t.Helper()
	list, err := json.Marshal(variables)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(strings.TrimSuffix(description, "}") + `, "model_path": "m", "environment": ` + string(list) + "}")
	if err != nil {
		return places{}, nil, err
	}
	a := s.planes.addresses.find()
	return places{strings.TrimSuffix(a.listen, ":0"), a.host, a.events, a.bootstrapListen, a.bootstrapHost,
		s.status.host}, a.warnings, nil
}

func TestAddresses(t *testing.T) {
	far, machine := routableAddress(), machineAddress()
	const everywhere = "0.0.0.0" // the status server, unless the configuration says otherwise
	const etcd, file, mem = `{"discovery_backend": "etcd"}`, `{"discovery_backend": "file"}`,
		`{"discovery_backend": "mem"}`
	for _, test := range []struct {
		name, description string
		variables         []string
		want              places
	}{
		{"several hosts may meet in etcd", etcd, nil, places{far, far, "", "", machine, everywhere}},
		{"a folder is on one host", file, nil, places{loopback, loopback, loopback, loopback, loopback, everywhere}},
		{"no other process finds these", mem, nil,
			places{loopback, loopback, loopback, loopback, loopback, everywhere}},
		{"unless a variable says otherwise", file, []string{"DYN_LISTEN_HOST=0.0.0.0"},
			places{"0.0.0.0", far, "0.0.0.0", "0.0.0.0", machine, "0.0.0.0"}},
		{"about the request plane", file, []string{"DYN_TCP_RPC_HOST=192.0.2.7"},
			places{"192.0.2.7", "192.0.2.7", "", "", machine, everywhere}},
		{"or that it listens everywhere", file, []string{"DYN_TCP_RPC_HOST=0.0.0.0"},
			places{"0.0.0.0", far, "", "", machine, everywhere}},
		{"what is told to be local is", etcd, []string{"DYN_TCP_RPC_HOST=127.0.0.1"},
			places{loopback, loopback, loopback, loopback, loopback, everywhere}},
		{"brackets", etcd, []string{"DYN_TCP_RPC_HOST=[::1]"}, places{"[::1]", "::1", "::1", "::1", "::1", everywhere}},
		{"the variable of the other plane", `{"discovery_backend": "etcd", "request_plane": "http"}`,
			[]string{"DYN_TCP_RPC_HOST=127.0.0.1"}, places{far, far, "", "", machine, everywhere}},
		{"hand-offs have that of HTTP", etcd, []string{"DYN_HTTP_RPC_HOST=192.0.2.7"},
			places{far, far, "", "", "192.0.2.7", everywhere}},
		{"the option holds for all", `{"discovery_backend": "etcd", "listen_host": "127.0.0.1"}`, nil,
			places{loopback, loopback, loopback, loopback, loopback, loopback}},
		{"more than its variable", `{"discovery_backend": "etcd", "listen_host": "127.0.0.2"}`,
			[]string{"DYN_LISTEN_HOST=127.0.0.1"},
			places{"127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2"}},
		{"but others may be told another one", `{"discovery_backend": "etcd", "listen_host": "0.0.0.0"}`,
			[]string{"DYN_TCP_RPC_HOST=192.0.2.7"},
			places{"0.0.0.0", "192.0.2.7", "0.0.0.0", "0.0.0.0", machine, "0.0.0.0"}},
		{"and probes come another way", `{"discovery_backend": "etcd", "listen_host": "127.0.0.1"}`,
			[]string{"DYN_SYSTEM_HOST=0.0.0.0"}, places{loopback, loopback, loopback, loopback, loopback, "0.0.0.0"}},
	} {
		got, warnings, err := findPlaces(t, test.description, test.variables...)
		if err != nil || got != test.want || len(warnings) > 0 {
			t.Errorf("%s: got %+v, %v, %v\nwant %+v", test.name, got, warnings, err, test.want)
		}
	}
}

func TestAddressesThatCannotBe(t *testing.T) {
	for _, text := range []string{`"nosuch.invalid"`, `"192.0.2.7"`, `"1.2.3"`, `"[]"`, `" "`, `""`} {
		_, _, err := findPlaces(t, `{"listen_host": `+text+`}`)
		if err == nil || !strings.HasPrefix(err.Error(), "listen_host: got "+text) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	_, warnings, err := findPlaces(t, `{"listen_host": "127.0.0.1"}`, "DYN_TCP_RPC_HOST=192.0.2.7")
	if err != nil || len(warnings) != 1 ||
		!strings.Contains(warnings[0], "DYN_TCP_RPC_HOST: others are told to connect to 192.0.2.7") {
		t.Errorf("got %v, %v", warnings, err)
	}
}
