package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"dynosim/bindings/border"
	"dynosim/bindings/interrupt"
	"dynosim/gocore/job"
)

// patience is how long Run waits for a cancelled run to stop by itself. A run that computes notices the cancellation
// within milliseconds; one that is blocked reading a pipe never does, and is abandoned.
const patience = 120 * time.Millisecond

// A run is what an id names: its progress while it goes on, and its rows afterwards.
type run struct {
	*border.Call
	monitor  job.Monitor
	mu       sync.Mutex
	finished *job.Result // nil until Run has succeeded
	trace    *job.Trace  // nil until Load has succeeded
}

var runs border.Registry[*run]

// Open makes a run and returns its id. Every id must be given to Close.
func Open() (id int64) {
	defer border.Quiet()
	r := &run{Call: border.NewCall(patience)}
	r.monitor.Ask = r.ask
	return runs.Add(r)
}

// ask passes a question of the run to Python.
func (r *run) ask(question string) (answer string, err error) {
	answer, err = r.Call.Ask(question)
	if errors.Is(err, border.ErrCancelled) {
		err = job.ErrCancelled
	}
	return answer, err
}

// Run carries out the request in config, a JSON object (see job.Run), and blocks until it has ended. It returns the
// JSON text of the result (job.Result.JSON). An id runs once. A run that has a question (job.Monitor.Ask) returns that
// instead, after an enquiry character, and goes on with Answer.
func Run(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(r *run) (string, error) {
		result, err := job.Run(config, &r.monitor)
		if err != nil {
			return "", err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.finished = result
		return result.JSON(), nil
	})
}

// Load reads a trace for several runs (see job.LoadTrace) and returns a description (job.Trace.JSON). The id names the
// trace until Close. Load blocks and is cancelled as Run, and takes the one run of its id.
func Load(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(r *run) (string, error) {
		trace, err := job.LoadTrace(config, &r.monitor)
		if err != nil {
			return "", err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.trace = trace
		return trace.JSON(), nil
	})
}

// Foresee returns what is known of runs before they begin, as JSON text (see job.Foresee). It blocks and is cancelled
// as Run, and takes the one run of its id.
func Foresee(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(r *run) (string, error) { return job.Foresee(config, &r.monitor) })
}

// Use makes a run that has not started take its trace from Load.
func Use(id, loaded int64) (err error) {
	defer border.Guard(&err)
	r, err := runs.Find(id)
	if err != nil {
		return err
	}
	source, err := runs.Find(loaded)
	if err != nil {
		return err
	}
	source.mu.Lock()
	defer source.mu.Unlock()
	if source.trace == nil {
		return border.Failure(border.Internal, fmt.Sprintf("run %d has loaded no trace", loaded))
	}
	r.monitor.Trace = source.trace
	return nil
}

// Convert writes recordings as a trace (see job.Convert) and returns a summary. It blocks and is cancelled as Run, and
// takes the one run of its id.
func Convert(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(r *run) (string, error) { return job.Convert(config, &r.monitor) })
}

// Inspect returns a description of a trace as JSON text (see job.Inspect). It blocks and is cancelled as Run, and takes
// the one run of its id.
func Inspect(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(r *run) (string, error) { return job.Inspect(config, &r.monitor) })
}

// Profile returns measured durations as JSON text (see job.Profile). It blocks and is cancelled as Run, and takes the
// one run of its id.
func Profile(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(*run) (string, error) { return job.Profile(config) })
}

// Calibrations returns what calibrations see of engines, as JSON text (see job.Calibrations). It blocks and is
// cancelled as Run, and takes the one run of its id.
func Calibrations(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(*run) (string, error) { return job.Calibrations(config) })
}

// ShippedCalibrations returns entries of the shipped calibration as JSON text (see job.ShippedCalibrations). It blocks
// and is cancelled as Run, and takes the one run of its id.
func ShippedCalibrations(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	return perform(id, func(*run) (string, error) { return job.ShippedCalibrations(config) })
}

// perform runs do and waits for its end, a question, or cancellation.
func perform(id int64, do func(*run) (string, error)) (string, error) {
	r, err := runs.Find(id)
	if err != nil {
		return "", err
	}
	return r.Start(job.Kind, func() (string, error) { return do(r) })
}

// Answer gives a run the answer to its question, and blocks as Run.
func Answer(id int64, answer string) (text string, err error) {
	defer border.Guard(&err)
	r, err := runs.Find(id)
	if err != nil {
		return "", err
	}
	return r.Call.Answer(answer)
}

// Progress returns how far a run has come, as JSON (job.Monitor.Progress), or "" for an unknown id.
func Progress(id int64) (text string) {
	defer border.Quiet()
	r, err := runs.Find(id)
	if err != nil {
		return ""
	}
	return border.Clean(r.monitor.Progress())
}

// Cancel asks a run to stop; Run then returns an error of kind "cancelled". Unknown and finished ids are ignored.
func Cancel(id int64) {
	defer border.Quiet()
	r, err := runs.Find(id)
	if err != nil {
		return
	}
	r.monitor.Cancel()
	r.Call.Cancel()
}

// Column returns a numeric per-request column of a finished run: 8 bytes per row, little-endian float64 or int64.
// The bytes belong to the run; Python copies them at once.
func Column(id int64, name string) (data []byte, err error) {
	defer border.Guard(&err)
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
	return nil, border.Failure(border.Internal, fmt.Sprintf("no numeric column %q", name))
}

// separator stands before every row of a text column. JSON would take several times as long on both sides.
const separator = "\x1e"

// Strings returns a text column of a finished run: each row with the separator before it. A column in which a row
// contains the separator, or characters that C strings cannot have, is returned as a JSON array instead.
func Strings(id int64, name string) (text string, err error) {
	defer border.Guard(&err)
	result, err := finished(id)
	if err != nil {
		return "", err
	}
	column, ok := result.Strings(name)
	if !ok {
		return "", border.Failure(border.Internal, fmt.Sprintf("no text column %q", name))
	}
	if text := separator + strings.Join(column, separator); len(column) > 0 &&
		strings.Count(text, separator) == len(column) && border.Clean(text) == text {
		return text, nil
	}
	encoded, err := json.Marshal(column)
	if err != nil {
		return "", border.Failure(border.Internal, err.Error())
	}
	return string(encoded), nil
}

// Interrupts returns how often Ctrl-C has interrupted this process since the first call, which begins to count.
func Interrupts() (n int64) {
	defer border.Quiet()
	return interrupt.Count()
}

// RemoveDrafts deletes the incomplete files of the runs of this process. It is for a process that ends without waiting
// for its runs: they complete no file afterwards.
func RemoveDrafts() {
	defer border.Quiet()
	job.RemoveDrafts()
}

// Close forgets a run, its rows, and its files that are not in their places. A run that still goes on is not stopped by
// it; see Cancel.
func Close(id int64) {
	defer border.Quiet()
	if result, err := finished(id); err == nil {
		result.Close()
	}
	runs.Remove(id)
}

func finished(id int64) (*job.Result, error) {
	r, err := runs.Find(id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished == nil {
		return nil, border.Failure(border.Internal, fmt.Sprintf("run %d has no result", id))
	}
	return r.finished, nil
}

// rawBytes views a column as bytes without copying it. Only little-endian machines are supported by gopy's wheels.
func rawBytes[T float64 | int64](column []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(column))), 8*len(column))
}
