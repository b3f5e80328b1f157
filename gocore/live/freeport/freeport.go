// Package freeport finds ports for tests whose servers cannot choose them.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// claims keeps the files of claimed ports open, and with that their locks.
var (
	mu     sync.Mutex
	claims []*os.File
)

// Ports returns the first of count free ports in a row. They are below those that the system gives to connections, one
// of which could take a port before its server does. They are claimed as long as this process runs, so that tests in
// another one do not take them either, those in Python included.
func Ports(t testing.TB, count int) int {
	t.Helper()
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("dynosim-ports-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if first := 15_000 + rand.IntN(17_000); claimed(folder, first, count) {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

// claimed reports whether this process alone has the ports now, and nothing listens to them, on any address.
func claimed(folder string, first, count int) bool {
	for port := first; port < first+count; port++ {
		claim, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(port)), os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return false
		}
		if syscall.Flock(int(claim.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = claim.Close()
			return false
		}
		mu.Lock()
		claims = append(claims, claim)
		mu.Unlock()
		l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
