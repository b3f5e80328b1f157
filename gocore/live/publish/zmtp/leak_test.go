package zmtp

import (
	"testing"

	"dynosim/gocore/live/leaktest"
)

// TestMain fails if goroutines are left after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }
