package enginetest

import (
	"testing"

	"dynosim/gocore/engineargs"
)

// Args parses engine arguments that must be right.
func Args(t testing.TB, text string) engineargs.Args {
	t.Helper()
	args, _, err := engineargs.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return args
}
