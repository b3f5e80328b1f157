package job

import (
	"errors"
	"fmt"
	"io"

	"dynosim/gocore/workload"
)

// savedTrace says where a workload was saved, and with which options it replays.
type savedTrace struct {
	Path           string `json:"path"`
	TraceFormat    string `json:"trace_format"`
	TraceBlockSize int    `json:"trace_block_size"`
	draft          *draft
}

// abandon removes the files of a run that has failed. Its workload stays, with which it can be tried again, unless the
// run was cancelled or has failed because of a file: then it leaves none.
func (r *run) abandon(failure error) {
	var unwritable writeError
	if r.saved != nil && !errors.Is(failure, ErrCancelled) && !errors.As(failure, &unwritable) {
		_ = r.saved.draft.keep() // the failure of the run is what the user has to know
	}
	r.files.discard()
}

// schedule prepares the times of the workload for the mode of the run, and refuses one that takes too long for its
// series. If asked to, it first saves the workload with its own times, so that the options that change them can be
// given again; the file stays a draft, see writtenFiles.
func (r *run) schedule() (*savedTrace, error) {
	prepare := func() error {
		if err := r.workload.Schedule(r.concurrency > 0, r.speedup); err != nil {
			return err
		}
		if r.lanes > 0 {
			if err := r.workload.TakeLanes(r.lanes); err != nil {
				return fmt.Errorf("agentic_lanes: got %d, %w", r.lanes, err)
			}
		}
		return r.admitSeries()
	}
	path := r.outputs.trace
	if path == "" {
		return nil, prepare()
	}
	var saved workload.Saved
	d, err := draftProduced("save_trace", path, r.monitor.poll, func(file io.Writer) (err error) {
		if saved, err = r.workload.Save(file, r.deployment.args.BlockSize); err != nil {
			return err
		}
		return prepare()
	})
	if err := r.files.add(d, err); err != nil {
		return nil, err
	}
	return &savedTrace{Path: path, TraceFormat: saved.Format.String(), TraceBlockSize: saved.TraceBlockSize, draft: d},
		nil
}
