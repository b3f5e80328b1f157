package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// writeWhole writes a file so that it is there completely or not at all: beside its place first, then moved there.
// Missing folders are made and a link is followed. What exists and is no ordinary file, a pipe or a device, is written
// directly, since moving a file there would replace it.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	given := path
	defer func() { err = nameFile(err, given) }()
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeInto(path, os.O_WRONLY, write)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	name := filepath.Join(folder, fmt.Sprintf(".dynamo-%016x.tmp", rand.Uint64()))
	defer os.Remove(name) // fails, as it should, once the file has been moved
	if err := writeInto(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, write); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		if err := os.Chmod(name, info.Mode().Perm()); err != nil { // a file keeps its permissions when it is replaced
			return err
		}
	}
	return os.Rename(name, path)
}

// nameFile gives an error of the file system the path that the user knows, instead of that of a draft.
func nameFile(err error, path string) error {
	var ofPath *fs.PathError
	var ofLink *os.LinkError
	switch {
	case errors.As(err, &ofPath):
		err = ofPath.Err
	case errors.As(err, &ofLink):
		err = ofLink.Err
	default:
		return err
	}
	return fmt.Errorf("cannot write %s: %w", shownPath(path), err)
}

// writeProduced writes whole what produce makes, for the option of this name. If produce fails by itself, its error is
// passed on; if the file cannot be written, the run has failed.
func writeProduced(option, path string, poll func() error, produce func(io.Writer) error) error {
	var own error
	err := writeWhole(path, func(file io.Writer) error {
		out := &watchedWriter{Writer: pollingWriter{file, poll}}
		err := produce(out)
		if out.err == nil {
			own = err
		}
		return err
	})
	if own != nil {
		return own
	}
	if err != nil {
		return runError{fmt.Errorf("%s: %w", option, err)}
	}
	return nil
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
