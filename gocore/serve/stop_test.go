package serve

import (
	"errors"
	"testing"
)

// TestQuestionThatStops: a question that fails because the process is being stopped is a stop, whichever is noticed
// first.
func TestQuestionThatStops(t *testing.T) {
	for range 200 {
		stop := NewStop()
		ask := Ask(func(string) (string, error) {
			stop.Kill()
			return "", errors.New("cancelled")
		})
		if _, err := ask.before(stop)("question"); !errors.Is(err, errStopped) {
			t.Fatalf("got %v", err)
		}
	}
}
