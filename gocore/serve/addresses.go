package serve

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"dynosim/gocore/live"
	"dynosim/gocore/strictjson"
)

const loopback = "127.0.0.1"

// addressSpec says where sockets are to listen, as far as options and environment decide it. Every host may be "".
//
// The option listen_host holds for every socket. Without it each kind of socket follows the variables that Dynamo has
// for it, and what others are to reach at a loopback address listens on loopback only.
type addressSpec struct {
	listen    string // listen_host
	variable  string // the environment variable that names the host of the request plane
	requests  string // its value
	port      int    // of the request plane, 0 for any
	local     string // the loopback address, if only this host has to reach the workers
	bootstrap string // the host of hand-offs that the environment names
}

func parseAddresses(o *strictjson.Object, env environment, requests live.RequestPlane) (a addressSpec, err error) {
	if a.listen, err = listenHost(o); err != nil {
		return a, err
	}
	a.variable = "DYN_TCP_RPC_HOST"
	portVariable := "DYN_TCP_RPC_PORT"
	if requests == live.RequestsOverHTTP {
		a.variable, portVariable = "DYN_HTTP_RPC_HOST", "DYN_HTTP_RPC_PORT"
	}
	if a.port, err = env.number(portVariable, 0, 0, math.MaxUint16); err != nil {
		return a, err
	}
	a.requests, a.bootstrap = env.host(a.variable), env.host("DYN_HTTP_RPC_HOST")
	if a.requests == "" && a.listen == "" {
		a.local = localHost(o.Text("discovery_backend"))
	}
	return a, nil
}

// addresses are where the sockets of the process listen, and under which hosts others reach them.
type addresses struct {
	listen          string // HOST:PORT of the request plane
	host            string // under which others reach this machine
	events          string // that ZeroMQ sockets are bound to, "" for all addresses
	bootstrapListen string // that the sockets of hand-offs are bound to, "" for all addresses
	bootstrapHost   string // under which decode workers reach them
	warnings        []string
}

// find completes addresses with those of this machine.
func (a addressSpec) find() addresses {
	host := firstHost(a.requests, a.listen, a.local, routableAddress())
	bootstrapHost := firstHost(a.bootstrap, a.listen, onlyLoopback(host), machineAddress())
	found := addresses{
		listen:          net.JoinHostPort(cmp.Or(a.listen, a.requests, host), strconv.Itoa(a.port)),
		host:            host,
		events:          socketHost(a.listen, host),
		bootstrapListen: socketHost(a.listen, bootstrapHost),
		bootstrapHost:   bootstrapHost,
	}
	if isLoopback(a.listen) && !isLoopback(host) {
		found.warnings = []string{fmt.Sprintf(
			"%s: others are told to connect to %s, but listen_host %s accepts connections from this host only",
			a.variable, host, a.listen)}
	}
	return found
}

// listenHost returns the address that all sockets are to be bound to, "" if none is given.
func listenHost(o *strictjson.Object) (string, error) {
	if !o.Given("listen_host") {
		return "", nil
	}
	host := strings.Trim(strings.TrimSpace(o.Text("listen_host")), "[]")
	trial, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil || host == "" {
		return "", &strictjson.FieldError{
			Field: "listen_host", Got: o.Shown("listen_host"),
			Want: "an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them",
		}
	}
	_ = trial.Close()
	return host, nil
}

// localHost returns the loopback address for discovery that serves one host, which no other host has to reach; "" for
// other kinds.
func localHost(discoveryBackend string) string {
	if slices.Contains([]string{"file", "mem"}, discoveryBackend) {
		return loopback
	}
	return ""
}

// socketHost returns what sockets are bound to that others reach at host; "" for all addresses.
func socketHost(listen, host string) string { return cmp.Or(listen, onlyLoopback(host)) }

func onlyLoopback(host string) string {
	if isLoopback(host) {
		return host
	}
	return ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// firstHost returns the first of hosts that others can connect to: not "" and not an address that stands for all.
func firstHost(hosts ...string) string {
	for _, host := range hosts {
		if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
			return host
		}
	}
	return ""
}

// host returns the host that a variable names; IPv6 addresses may have brackets.
func (e environment) host(name string) string { return strings.Trim(e[name], "[]") }

// machineAddress returns the address that the machine's own name stands for, else the routable one.
func machineAddress() string {
	name, err := os.Hostname()
	if err != nil {
		return routableAddress()
	}
	addresses, _ := net.LookupHost(name)
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil && ip.IsGlobalUnicast() && ip.To4() != nil {
			return a
		}
	}
	return routableAddress()
}

// routableAddress returns the first address of this machine that others may reach: IPv4, else IPv6, else the loopback
// one.
func routableAddress() string {
	addresses, _ := net.InterfaceAddrs()
	six := ""
	for _, a := range addresses {
		ip, ok := a.(*net.IPNet)
		if !ok || !ip.IP.IsGlobalUnicast() {
			continue
		}
		if ip.IP.To4() != nil {
			return ip.IP.String()
		}
		if six == "" {
			six = ip.IP.String()
		}
	}
	if six != "" {
		return six
	}
	return loopback
}
