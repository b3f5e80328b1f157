package serve

import (
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

// parseAddresses decides where the sockets of the process listen, and under which hosts others are told to reach them.
//
// The option listen_host holds for every socket. Without it each kind of socket follows the variables that Dynamo has for it,
// and what others are told to reach at a loopback address listens on loopback only.
func (p *plan) parseAddresses(o *strictjson.Object, env environment) error {
	c := &p.config
	listen, err := listenHost(o)
	if err != nil {
		return err
	}
	hostName, portName := "DYN_TCP_RPC_HOST", "DYN_TCP_RPC_PORT"
	if c.Requests == live.RequestsOverHTTP {
		hostName, portName = "DYN_HTTP_RPC_HOST", "DYN_HTTP_RPC_PORT"
	}
	port, err := env.number(portName, 0, 0, math.MaxUint16)
	if err != nil {
		return err
	}
	own := env.host(hostName)
	local := ""
	if own == "" && listen == "" {
		local = localHost(o)
	}
	c.Host = firstHost(own, listen, local, routableAddress())
	c.Listen = net.JoinHostPort(firstText(listen, own, c.Host), strconv.Itoa(port))
	c.EventHost = socketHost(listen, c.Host)
	c.BootstrapHost = firstHost(env.host("DYN_HTTP_RPC_HOST"), listen, onlyLoopback(c.Host), machineAddress())
	c.BootstrapListen = socketHost(listen, c.BootstrapHost)
	if listen != "" && env["DYN_SYSTEM_HOST"] == "" {
		env["DYN_SYSTEM_HOST"] = listen // the status server reads its own variable
	}
	if isLoopback(listen) && !isLoopback(c.Host) {
		p.warnings = append(p.warnings, fmt.Sprintf(
			"%s: others are told to connect to %s, but listen_host %s accepts connections from this host only", hostName, c.Host, listen))
	}
	return nil
}

// listenHost is the address that all sockets are to be bound to, "" if nobody has said one.
func listenHost(o *strictjson.Object) (string, error) {
	if !o.Given("listen_host") {
		return "", nil
	}
	host := strings.Trim(strings.TrimSpace(o.Text("listen_host")), "[]")
	trial, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil || host == "" {
		return "", &strictjson.FieldError{
			Field: "listen_host", Got: o.Shown("listen_host"), Want: "an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them",
		}
	}
	_ = trial.Close()
	return host, nil
}

// localHost is the loopback address for discovery that serves one host, where nobody else has to get in; "" for other kinds.
func localHost(o *strictjson.Object) string {
	if slices.Contains([]string{"file", "mem"}, o.Text("discovery_backend")) {
		return loopback
	}
	return ""
}

// socketHost is what sockets are bound to that others reach at host; "" for all addresses.
func socketHost(listen, host string) string { return firstText(listen, onlyLoopback(host)) }

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

// firstHost is the first of hosts that others can connect to: not "" and not an address that stands for all.
func firstHost(hosts ...string) string {
	for _, host := range hosts {
		if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
			return host
		}
	}
	return ""
}

func firstText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// host is the host that a variable names; IPv6 addresses may have brackets.
func (e environment) host(name string) string { return strings.Trim(e[name], "[]") }

// machineAddress is the address that the machine's own name stands for, else the routable one.
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

// routableAddress is the first address of this machine that others may reach: IPv4, else IPv6, else the loopback one.
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
