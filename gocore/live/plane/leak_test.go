package plane

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if goroutines are left after the tests. A stream waits some seconds for a frontend that does not hang up.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("dynosim/gocore/live/plane.(*stream).listen"),
		goleak.IgnoreAnyFunction("dynosim/gocore/live/plane.(*stream).close"))
}
