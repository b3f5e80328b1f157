package job

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// writeWhole writes a file so that it is there completely or not at all; see draft.
func writeWhole(path string, write func(io.Writer) error) error {
	d, err := writeDraft(path, write)
	if err != nil {
		return err
	}
	return d.keep()
}

// writeProduced writes whole what produce makes, for the option of this name. If produce fails by itself, its error is
// passed on; if the file cannot be written, the run has failed.
func writeProduced(option, path string, poll func() error, produce func(io.Writer) error) error {
	d, err := draftProduced(option, path, poll, produce)
	if err != nil {
		return err
	}
	return unwritten(option, d.keep())
}

// draftProduced is writeProduced that leaves the file a draft.
func draftProduced(option, path string, poll func() error, produce func(io.Writer) error) (*draft, error) {
	var own error
	d, err := writeDraft(path, func(file io.Writer) error {
		out := &watchedWriter{Writer: pollingWriter{file, poll}}
		err := produce(out)
		if out.err == nil {
			own = err
		}
		return err
	})
	if own != nil {
		return nil, own
	}
	return d, unwritten(option, err)
}

// unwritten is the error of a run whose file could not be written.
func unwritten(option string, err error) error {
	if err == nil {
		return nil
	}
	return runError{fmt.Errorf("%s: %w", option, err)}
}

// watchedWriter remembers the first error of writing.
type watchedWriter struct {
	io.Writer
	err error
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

func writeInto(path string, flags int, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
