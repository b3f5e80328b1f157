// Package leaktest fails the tests of a package that leave goroutines behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is for goroutines that have been told to end. On a busy machine that may take them longer than goleak waits;
// those that nothing has told are still there afterwards.
const patience = 30 * time.Second

// Main runs the tests for TestMain, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = leaks(goleak.Find, time.Now().Add(patience))
	}
	os.Exit(code)
}

// leaks returns an exit code: 1 if goroutines are left at the end of the time.
func leaks(find func(...goleak.Option) error, end time.Time) int {
	for {
		err := find()
		switch {
		case err == nil:
			return 0
		case time.Now().After(end):
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			return 1
		}
	}
}
