package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"dynosim/gocore/live"
)

// timelineFile is the file of --timeline: a draft beside it, until the process has ended and the timeline is complete.
// Nil stands for no file.
type timelineFile struct {
	path  string
	draft *os.File
}

// openTimeline begins the file at a path, nil for "". A path that cannot be written is refused before anything is
// served.
func openTimeline(path string) (*timelineFile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("timeline: cannot write %s: it is no file", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, unwritten(path, err)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".dynamo-*.tmp")
	if err != nil {
		return nil, unwritten(path, err)
	}
	return &timelineFile{path, draft}, nil
}

// write completes the file after the end of a process.
func (t *timelineFile) write(p *live.Process, log *slog.Logger) error {
	if t == nil {
		return nil
	}
	buffer := bufio.NewWriterSize(t.draft, 1<<16)
	cut, err := p.WriteTimeline(buffer)
	err = errors.Join(err, buffer.Flush(), t.draft.Chmod(0o644), t.draft.Close())
	if err == nil {
		err = os.Rename(t.draft.Name(), t.path)
	}
	if err != nil {
		return runError{unwritten(t.path, err)}
	}
	if cut {
		log.Warn("the timeline has only the first part of what workers did", "file", t.path)
	} else {
		log.Info("timeline", "file", t.path)
	}
	return nil
}

// discard removes a draft that was not completed.
func (t *timelineFile) discard() {
	if t != nil {
		t.draft.Close()
		os.Remove(t.draft.Name())
	}
}

// unwritten names the file that the user has named, not the draft.
func unwritten(path string, err error) error {
	var ofPath *fs.PathError
	if errors.As(err, &ofPath) {
		err = ofPath.Err
	}
	return fmt.Errorf("timeline: cannot write %s: %w", path, err)
}
