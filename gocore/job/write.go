package job

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// writeProduced writes whole what produce makes, for the option of this name. If produce fails by itself, its error is
// passed on; if the file cannot be written, the run has failed.
func writeProduced(option, path string, poll func() error, produce func(io.Writer) error) error {
	d, err := draftProduced(option, path, poll, produce)
	if err != nil {
		return err
	}
	return unwritten(option, d.keep())
}

// draftProduced does what writeProduced does, but leaves the file a draft.
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

// unwritten returns the error of a run whose file could not be written.
func unwritten(option string, err error) error {
	if err == nil {
		return nil
	}
	return runError{fmt.Errorf("%s: %w", option, err)}
}

// writtenFiles are what a run has written besides its report. They stay drafts until all outputs of the run are
// complete, also those that are made of its result: the owner of that moves them to their places.
type writtenFiles struct{ drafts []*draft }

// write adds a file, see writeDraft.
func (f *writtenFiles) write(path string, write func(io.Writer) error) error {
	d, err := writeDraft(path, write)
	return f.add(d, err)
}

// produce adds a file, see draftProduced.
func (f *writtenFiles) produce(option, path string, poll func() error, produce func(io.Writer) error) error {
	d, err := draftProduced(option, path, poll, produce)
	return f.add(d, err)
}

func (f *writtenFiles) add(d *draft, err error) error {
	if err == nil && d.name != "" {
		f.drafts = append(f.drafts, d)
	}
	return err
}

// discard removes the files that have not been moved to their places.
func (f *writtenFiles) discard() {
	for _, d := range f.drafts {
		d.discard()
	}
	f.drafts = nil
}

// waitingFile says where a file is, where it belongs, and how the user has named it.
type waitingFile struct {
	Draft string `json:"draft"`
	Path  string `json:"path"`
	Given string `json:"given"`
}

func (f *writtenFiles) waiting() []waitingFile {
	waiting := make([]waitingFile, len(f.drafts))
	for i, d := range f.drafts {
		waiting[i] = waitingFile{d.name, d.path, d.given}
	}
	return waiting
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
