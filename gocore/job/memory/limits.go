//go:build !js

package memory

import (
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// limits lists those of the process itself: on its address space, on its data, and on the Go heap.
func limits() []limit {
	var all []limit
	pages := statm()
	for _, l := range []struct {
		resource int
		used     int64
		by       string
	}{
		{syscall.RLIMIT_AS, pages[0], "ulimit -v"},
		{syscall.RLIMIT_DATA, pages[5], "ulimit -d"},
	} {
		var r syscall.Rlimit
		if syscall.Getrlimit(l.resource, &r) == nil && r.Cur < math.MaxInt64 {
			all = append(all, limit{int64(r.Cur), l.used, l.by, usableAddressSpace})
		}
	}
	if chosen < Unbounded {
		all = append(all, limit{chosen, Used(), "GOMEMLIMIT", 1})
	}
	return all
}

// arena is the address space that the Go heap takes at a time. Larger objects take their own size in addition.
const arena = 64 << 20

// AddressSpaceShort reports whether the limit on the address space, if there is one, leaves too little of it for the
// next steps of a heap that is growing: two arenas, and half of what is in use, for a list that is copied to a larger
// place.
func AddressSpaceShort() bool {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &r) != nil || r.Cur >= math.MaxInt64 {
		return false
	}
	return int64(r.Cur)-statm()[0] < 2*arena+Used()/2
}

// statm returns the sizes of this process in bytes: all of its address space first, its data sixth.
func statm() (sizes [7]int64) {
	text, _ := os.ReadFile("/proc/self/statm")
	for i, word := range strings.Fields(string(text)) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && i < len(sizes) {
			sizes[i] = n * int64(os.Getpagesize())
		}
	}
	return sizes
}
