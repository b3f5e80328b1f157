// Package freeport finds ports for tests whose servers cannot choose them.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports returns the first of count free ports in a row. They are below those that the system gives to connections, one
// of which could take a port before its server does.
func Ports(t testing.TB, count int) int {
	t.Helper()
	for range 1000 {
		if first := 15_000 + rand.IntN(17_000); free(first, count) {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

// free reports whether nothing listens to the ports, on any address.
func free(first, count int) bool {
	for port := first; port < first+count; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
