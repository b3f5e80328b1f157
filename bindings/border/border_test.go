package border

import (
	"strings"
	"testing"
)

func TestPanicBecomesAnError(t *testing.T) {
	c := NewCall(0)
	_, err := c.Start(func(error) string { return "usage" }, func() (string, error) {
		var nobody *Call
		nobody.asked = true
		return "", nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), Internal+"\x1f") || !strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("got %v, want an internal error with the cause in it", err)
	}
}

func TestTextIsSafeForC(t *testing.T) {
	if got, want := Clean("a\x00b\xffc"), "a\uFFFDb\uFFFDc"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
