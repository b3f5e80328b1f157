package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unsafe"

	"dynosim/gocore/job"
	"dynosim/gocore/live/serve"
)

// cancelGrace is how long Run waits for a cancelled engine to stop by itself. An engine that computes notices within
// milliseconds; one that is blocked reading a pipe never does, and is left behind.
const cancelGrace = 120 * time.Millisecond

const (
	kindCancelled = "cancelled"
	kindInternal  = "internal"
)

// enquiry stands before a question where a result is expected.
const enquiry = "\x05"

// A run is one id: what Python can ask about while it goes on, and its rows afterwards.
type run struct {
	monitor   job.Monitor
	cancel    sync.Once
	stopped   chan struct{} // closed by Cancel
	stop      *serve.Stop   // of Serve
	questions chan string   // of the run, which then waits for
	answers   chan string
	ended     chan outcome // of length 1: an engine that was left behind must not wait for a reader
	mu        sync.Mutex
	started   bool
	asked     bool        // a question has been passed on and not been answered
	finished  *job.Result // nil until Run has succeeded
}

var registry = struct {
	mu   sync.Mutex
	last int64
	runs map[int64]*run
}{runs: map[int64]*run{}}

// Open makes a run and returns its id. Every id must be given to Close.
func Open() int64 {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.last++
	r := &run{
		stopped: make(chan struct{}), questions: make(chan string), answers: make(chan string), ended: make(chan outcome, 1),
		stop: serve.NewStop(),
	}
	r.monitor.Ask = r.ask
	registry.runs[registry.last] = r
	return registry.last
}

// Run carries out the request in config, a JSON object (see job.Run), and blocks until it has ended. It returns the
// JSON text of the result (job.Result.JSON). An id runs once. A run that has a question (job.Monitor.Ask) returns that
// instead, after an enquiry character, and goes on with Answer.
func Run(id int64, config string) (text string, err error) {
	defer guard(&err)
	return perform(id, func(m *job.Monitor) outcome {
		result, err := job.Run(config, m)
		if err != nil {
			return outcome{err: err}
		}
		return outcome{text: result.JSON(), result: result}
	})
}

// Convert writes recordings as a trace (see job.Convert) and returns a summary. It blocks and is cancelled as Run, and
// takes the one run of its id.
func Convert(id int64, config string) (text string, err error) {
	defer guard(&err)
	return perform(id, func(m *job.Monitor) outcome {
		text, err := job.Convert(config, m)
		return outcome{text: text, err: err}
	})
}

// Inspect returns what a trace is like as JSON text (see job.Inspect). It blocks and is cancelled as Run, and takes the
// one run of its id.
func Inspect(id int64, config string) (text string, err error) {
	defer guard(&err)
	return perform(id, func(m *job.Monitor) outcome {
		text, err := job.Inspect(config, m)
		return outcome{text: text, err: err}
	})
}

// perform has do run on a goroutine of its own and waits for it, or for its cancellation.
func perform(id int64, do func(*job.Monitor) outcome) (string, error) {
	r, err := lookup(id)
	if err != nil {
		return "", err
	}
	if !r.start() {
		return "", failure(kindInternal, "this run has been started before")
	}
	go func() { r.ended <- r.execute(do) }()
	return r.wait()
}

// Answer gives a run the answer to its question, and blocks as Run.
func Answer(id int64, answer string) (text string, err error) {
	defer guard(&err)
	r, err := lookup(id)
	if err != nil {
		return "", err
	}
	if !r.answering() {
		return "", failure(kindInternal, "this run has not asked anything")
	}
	select {
	case r.answers <- answer:
	case <-r.stopped:
	}
	return r.wait()
}

// wait blocks until the run has a question or has ended.
func (r *run) wait() (string, error) {
	select {
	case question := <-r.questions:
		r.passedOn()
		return enquiry + question, nil
	case out := <-r.ended:
		return r.finish(out)
	case <-r.stopped:
	}
	select {
	case out := <-r.ended:
		return r.finish(out)
	case <-time.After(cancelGrace):
		return "", failure(kindCancelled, "the run was cancelled")
	}
}

// ask is what the run itself calls: it passes a question on to whoever waits for the run, and waits for the answer.
func (r *run) ask(question string) (string, error) {
	select {
	case r.questions <- clean(question):
	case <-r.stopped:
		return "", job.ErrCancelled
	}
	select {
	case answer := <-r.answers:
		return answer, nil
	case <-r.stopped:
		return "", job.ErrCancelled
	}
}

func (r *run) passedOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = true
}

// answering reports whether there is a question to answer, for the last time.
func (r *run) answering() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = false
	return asked
}

// Progress returns how far a run has come, as JSON (job.Monitor.Progress), or "" for an unknown id.
func Progress(id int64) (text string) {
	defer quiet()
	r, err := lookup(id)
	if err != nil {
		return ""
	}
	return clean(r.monitor.Progress())
}

// Cancel asks a run to stop; Run then returns an error of kind "cancelled". Unknown and finished ids are ignored.
func Cancel(id int64) {
	defer quiet()
	r, err := lookup(id)
	if err != nil {
		return
	}
	r.monitor.Cancel()
	r.cancel.Do(func() { close(r.stopped) })
}

// Column returns a numeric per-request column of a finished run: 8 bytes per row, little-endian float64 or int64.
// The bytes belong to the run; Python copies them at once.
func Column(id int64, name string) (data []byte, err error) {
	defer guard(&err)
	result, err := finished(id)
	if err != nil {
		return nil, err
	}
	if floats, ok := result.Floats(name); ok {
		return rawBytes(floats), nil
	}
	if ints, ok := result.Ints(name); ok {
		return rawBytes(ints), nil
	}
	return nil, failure(kindInternal, fmt.Sprintf("no numeric column %q", name))
}

// separator stands before every row of a text column. JSON would take several times as long on both sides.
const separator = "\x1e"

// Strings returns a text column of a finished run: each row with the separator before it. A column in which a row holds
// the separator, or what C strings cannot, comes as a JSON array instead.
func Strings(id int64, name string) (text string, err error) {
	defer guard(&err)
	result, err := finished(id)
	if err != nil {
		return "", err
	}
	column, ok := result.Strings(name)
	if !ok {
		return "", failure(kindInternal, fmt.Sprintf("no text column %q", name))
	}
	if text := separator + strings.Join(column, separator); len(column) > 0 &&
		strings.Count(text, separator) == len(column) && clean(text) == text {
		return text, nil
	}
	encoded, err := json.Marshal(column)
	if err != nil {
		return "", failure(kindInternal, err.Error())
	}
	return string(encoded), nil
}

// Close forgets a run and its rows. A run that still goes on is not stopped by it; see Cancel.
func Close(id int64) {
	defer quiet()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	delete(registry.runs, id)
}

type outcome struct {
	text   string
	result *job.Result // of Run
	err    error
}

// execute runs do on the calling goroutine and turns errors and panics into errors for Python.
func (r *run) execute(do func(*job.Monitor) outcome) (out outcome) {
	defer guard(&out.err)
	out = do(&r.monitor)
	if out.err != nil {
		out.err = failure(job.Kind(out.err), out.err.Error())
	}
	return out
}

func (r *run) start() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.started
	r.started = true
	return first
}

func (r *run) finish(out outcome) (string, error) {
	if out.err != nil {
		return "", out.err
	}
	r.mu.Lock()
	r.finished = out.result
	r.mu.Unlock()
	return clean(out.text), nil
}

func lookup(id int64) (*run, error) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	r, ok := registry.runs[id]
	if !ok {
		return nil, failure(kindInternal, fmt.Sprintf("unknown run %d", id))
	}
	return r, nil
}

func finished(id int64) (*job.Result, error) {
	r, err := lookup(id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished == nil {
		return nil, failure(kindInternal, fmt.Sprintf("run %d has no result", id))
	}
	return r.finished, nil
}

// rawBytes views a column as bytes without copying it. Only little-endian machines are supported by gopy's wheels.
func rawBytes[T float64 | int64](column []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(column))), 8*len(column))
}

// failure builds the error text that Python takes apart again.
func failure(kind, message string) error {
	return errors.New(clean(kind + "\x1f" + message))
}

// clean makes text safe for a C string: valid UTF-8, no NUL.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// guard turns a panic into an error of kind "internal" that carries the stack.
func guard(err *error) {
	if cause := recover(); cause != nil {
		*err = failure(kindInternal, fmt.Sprintf("internal: %v\n%s", cause, debug.Stack()))
	}
}

// quiet swallows a panic in a function that has no error to return.
func quiet() { _ = recover() }
