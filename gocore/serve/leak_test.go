package serve

import (
	"testing"

	"dynosim/gocore/leaktest"
)

// TestMain fails if goroutines are left after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }
