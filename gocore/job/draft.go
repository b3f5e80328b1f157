package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"dynosim/gocore/spelling"
)

// A draft is a file that is written under another name beside its final path, and moved there once it is complete. A
// pipe or a device at that path is written directly, since moving a file there would replace it.
type draft struct {
	given string // the path that the user knows
	path  string // where the file goes
	name  string // where it is until then, "" if it is written directly
}

// drafts are all drafts of this process, for RemoveDrafts.
var drafts struct {
	sync.Mutex
	names map[string]bool
	over  bool
}

// errOver is the error of drafts that are begun or completed after RemoveDrafts.
var errOver = fmt.Errorf("%w: the process ends", ErrCancelled)

// RemoveDrafts deletes the drafts of all runs. From then on no run of this process makes a draft or completes one: it
// is for a process that ends without waiting for its runs.
func RemoveDrafts() {
	drafts.Lock()
	defer drafts.Unlock()
	drafts.over = true
	for name := range drafts.names {
		os.Remove(name)
	}
}

// writeDraft writes a draft for path by calling write. Missing folders are made and a link is followed. After an error
// there is no draft; otherwise keep or discard has to be called.
func writeDraft(path string, write func(io.Writer) error) (_ *draft, err error) {
	d := &draft{given: path, path: path}
	defer func() { err = nameFile(err, d.given) }()
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path, d.path = real, real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return d, writeInto(path, os.O_WRONLY, write)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	d.name = filepath.Join(folder, fmt.Sprintf(".dynamo-%016x.tmp", rand.Uint64()))
	file, err := d.create()
	if err != nil {
		return nil, err
	}
	complete := false
	defer func() {
		if !complete { // also after a panic
			d.discard()
		}
	}()
	if err := errors.Join(write(file), file.Close()); err != nil {
		return nil, err
	}
	complete = true
	return d, nil
}

func (d *draft) create() (*os.File, error) {
	drafts.Lock()
	defer drafts.Unlock()
	if drafts.over {
		return nil, errOver
	}
	file, err := os.OpenFile(d.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	if drafts.names == nil {
		drafts.names = map[string]bool{}
	}
	drafts.names[d.name] = true
	return file, nil
}

// keep moves the draft to its place. A file that is replaced passes its permissions on.
func (d *draft) keep() (err error) {
	if d.name == "" {
		return nil
	}
	defer func() { err = nameFile(err, d.given) }()
	defer d.discard() // finds nothing once the file has been moved
	if info, err := os.Stat(d.path); err == nil {
		if err := os.Chmod(d.name, info.Mode().Perm()); err != nil {
			return err
		}
	}
	drafts.Lock()
	defer drafts.Unlock()
	if drafts.over {
		return errOver
	}
	return os.Rename(d.name, d.path)
}

// discard removes a draft that was not kept.
func (d *draft) discard() {
	if d.name == "" {
		return
	}
	drafts.Lock()
	defer drafts.Unlock()
	os.Remove(d.name)
	delete(drafts.names, d.name)
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
	return writeError{fmt.Errorf("cannot write %s: %w", spelling.Path(path), err)}
}

// writeError is that of a file that cannot be written.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }
