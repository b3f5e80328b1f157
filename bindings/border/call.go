package border

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Enquiry stands before a question where a result is expected.
const Enquiry = "\x05"

// Kinds of errors that do not come from the work itself.
const (
	Cancelled = "cancelled"
	Internal  = "internal"
)

// ErrCancelled is what Ask returns when no answer will come any more.
var ErrCancelled = errors.New("cancelled")

// A Call is work that is done once for Python, and can ask questions and be cancelled meanwhile.
type Call struct {
	// Patience is how long Start and Answer wait, after Cancel, for work to stop by itself.
	Patience time.Duration

	cancel    sync.Once
	stopped   chan struct{} // closed by Cancel
	questions chan string   // of the work, which then waits for
	answers   chan string
	ended     chan ending // of length 1: work that was left behind must not wait for a reader
	over      atomic.Bool

	mu      sync.Mutex
	started bool
	asked   bool // a question has been passed on and not been answered
}

type ending struct {
	text string
	err  error
}

// NewCall returns a call that has not started.
func NewCall(patience time.Duration) *Call {
	return &Call{
		Patience: patience, stopped: make(chan struct{}), questions: make(chan string), answers: make(chan string),
		ended: make(chan ending, 1),
	}
}

// Start runs do on a goroutine of its own. It returns the result of do; or a question, after an Enquiry character, see
// Answer; or the error that the call was cancelled. kind sorts the errors of do.
func (c *Call) Start(kind func(error) string, do func() (string, error)) (string, error) {
	c.mu.Lock()
	again := c.started
	c.started = true
	c.mu.Unlock()
	if again {
		return "", Failure(Internal, "this run has been started before")
	}
	go func() {
		c.ended <- execute(kind, do)
		c.over.Store(true)
	}()
	return c.wait()
}

// execute runs do on the calling goroutine and turns errors and panics into errors for Python.
func execute(kind func(error) string, do func() (string, error)) (e ending) {
	defer Guard(&e.err)
	e.text, e.err = do()
	if e.err != nil {
		e.err = Failure(kind(e.err), e.err.Error())
	}
	return e
}

// Answer answers the question that Start or Answer has returned, and goes on as Start.
func (c *Call) Answer(answer string) (string, error) {
	c.mu.Lock()
	asked := c.asked
	c.asked = false
	c.mu.Unlock()
	if !asked {
		return "", Failure(Internal, "this run has not asked anything")
	}
	select {
	case c.answers <- answer:
	case <-c.stopped:
	}
	return c.wait()
}

// wait blocks until the work has a question or has ended.
func (c *Call) wait() (string, error) {
	select {
	case question := <-c.questions:
		c.mu.Lock()
		c.asked = true
		c.mu.Unlock()
		return Enquiry + question, nil
	case e := <-c.ended:
		return Clean(e.text), e.err
	case <-c.stopped:
	}
	select {
	case e := <-c.ended:
		return Clean(e.text), e.err
	case <-time.After(c.Patience):
		return "", Failure(Cancelled, "the run was cancelled")
	}
}

// Ask makes Start or Answer return a question, and waits for the answer; the work itself calls it. It fails with
// [ErrCancelled] once the call is cancelled.
func (c *Call) Ask(question string) (string, error) {
	select {
	case c.questions <- Clean(question):
	case <-c.stopped:
		return "", ErrCancelled
	}
	select {
	case answer := <-c.answers:
		return answer, nil
	case <-c.stopped:
		return "", ErrCancelled
	}
}

// Cancel ends the wait of Start or Answer.
func (c *Call) Cancel() { c.cancel.Do(func() { close(c.stopped) }) }

// Over reports whether the work has ended, whether or not the call that waits for it has returned: it cannot while
// Python answers a question.
func (c *Call) Over() bool { return c.over.Load() }
