package job

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCancelledRunSavesNothing: the workload is written before the run, but is only there after it.
func TestCancelledRunSavesNothing(t *testing.T) {
	folder := t.TempDir()
	var m Monitor
	over := make(chan error)
	go func() {
		_, err := Run(fmt.Sprintf(`{"kind":"synthetic","input_tokens":8,"output_tokens":200000,"request_count":3000,`+
			`"save_trace":%q,"extra_engine_args":"{\"max_num_seqs\":1}"}`, filepath.Join(folder, "t.jsonl")), &m)
		over <- err
	}()
	for !strings.Contains(m.Progress(), "running") {
		time.Sleep(time.Millisecond)
	}
	if names := list(t, folder); len(names) != 1 || !strings.HasPrefix(names[0], ".dynamo-") {
		t.Errorf("during the run: %v", names)
	}
	m.Cancel()
	if err := <-over; !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	if names := list(t, folder); len(names) != 0 {
		t.Errorf("after it: %v", names)
	}
}

func TestRemoveDrafts(t *testing.T) {
	defer func() { drafts.over = false }()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	err := writeWhole(path, func(file io.Writer) error {
		_, err := io.WriteString(file, "text")
		RemoveDrafts()
		return err
	})
	if !errors.Is(err, ErrCancelled) || len(list(t, folder)) != 0 {
		t.Errorf("a file that is whole too late: %v, %v", err, list(t, folder))
	}
	if err := writeWhole(path, func(io.Writer) error { return nil }); !errors.Is(err, ErrCancelled) {
		t.Errorf("a new file: %v", err)
	}
	drafts.over = false
	if err := writeWhole(path, func(io.Writer) error { return nil }); err != nil || len(list(t, folder)) != 1 ||
		len(drafts.names) != 0 {
		t.Errorf("got %v, %v, %v", err, list(t, folder), drafts.names)
	}
}

// TestPanicLeavesNoDraft: the run fails, and nothing of its file stays.
func TestPanicLeavesNoDraft(t *testing.T) {
	folder := t.TempDir()
	func() {
		defer func() { _ = recover() }()
		_ = writeWhole(filepath.Join(folder, "file"), func(io.Writer) error { panic("broken") })
	}()
	if names := list(t, folder); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}
