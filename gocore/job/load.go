package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// loadWorkload reads or generates what the description asks for, with its times prepared for the mode of the run.
func loadWorkload(o *strictjson.Object, args engineargs.Args, poll func() error) (*workload.Workload, error) {
	var w *workload.Workload
	var err error
	if o.Text("kind") == kindSynthetic {
		w, err = workload.Synthetic(workload.SyntheticSpec{
			InputTokens:       o.Int("input_tokens"),
			OutputTokens:      o.Int("output_tokens"),
			RequestCount:      o.Int("request_count"),
			ArrivalIntervalMs: o.Float("arrival_interval_ms"),
			TurnsPerSession:   o.Int("turns_per_session"),
			SharedPrefixRatio: o.Float("shared_prefix_ratio"),
			NumPrefixGroups:   o.Int("num_prefix_groups"),
			InterTurnDelayMs:  o.Float("inter_turn_delay_ms"),
			EngineBlockSize:   args.BlockSize,
			Poll:              poll,
		})
	} else {
		w, err = loadTrace(o.List("trace_files")[0], workload.TraceSpec{
			TraceBlockSize:  o.Int("trace_block_size"),
			EngineBlockSize: args.BlockSize,
			Poll:            poll,
		})
	}
	if err != nil {
		return nil, err
	}
	return w, w.Schedule(o.Given("replay_concurrency"), o.Float("arrival_speedup_ratio"))
}

// loadTrace reads a trace file, or standard input for the path "-".
func loadTrace(path string, spec workload.TraceSpec) (*workload.Workload, error) {
	if path == "-" {
		return workload.LoadMooncake(os.Stdin, "standard input", spec)
	}
	name := shownPath(path)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("trace_files: %s: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		var cause *fs.PathError // repeats the path
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("trace_files: cannot open %s: %w", name, err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("trace_files: %s is a directory, want a file", name)
	}
	return workload.LoadMooncake(file, name, spec)
}

// shownPath is a path as messages show it: on one line, and visible even if it is empty.
func shownPath(path string) string {
	if path == "" || strings.ContainsFunc(path, unicode.IsControl) {
		return strconv.Quote(path)
	}
	return path
}
