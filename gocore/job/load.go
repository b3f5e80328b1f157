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

// loadWorkload reads or generates what the description asks for. spec describes a generated workload.
func loadWorkload(o *strictjson.Object, spec workload.SyntheticSpec, args engineargs.Args, m *Monitor) (*workload.Workload, error) {
	switch {
	case o.Text("kind") == kindSynthetic:
		return generate(spec, args.BlockSize, m.poll)
	case m.Trace != nil:
		return m.Trace.workload(readingFor(args), m.poll)
	}
	return loadTrace(o.List("trace_files"), traceFormat(o), workload.TraceSpec{
		TraceBlockSize:    traceBlockSize(o),
		EngineBlockSize:   args.BlockSize,
		NamePartialBlocks: args.ComparesTokens(),
		SharedPrefixRatio: o.Float("trace_shared_prefix_ratio"),
		NumPrefixGroups:   o.Int("trace_num_prefix_groups"),
		Poll:              m.poll,
	})
}

// traceFormat is the format that was asked for. It is one of those known.
func traceFormat(o *strictjson.Object) workload.Format {
	format, _ := workload.ParseFormat(o.Text("trace_format"))
	return format
}

// traceBlockSize is 0 if the trace may say it itself.
func traceBlockSize(o *strictjson.Object) int {
	if !o.Given("trace_block_size") {
		return 0
	}
	return o.Int("trace_block_size")
}

// loadTrace reads trace files; the path "-" stands for standard input.
func loadTrace(paths []string, format workload.Format, spec workload.TraceSpec) (*workload.Workload, error) {
	sources, release, err := openSources("trace_files", paths)
	defer release()
	if err != nil {
		return nil, err
	}
	return workload.Load(format, sources, spec)
}

// openSources opens the files of an option; release closes them, also after an error.
func openSources(option string, paths []string) (sources []workload.Source, release func(), err error) {
	var opened []*os.File
	release = func() {
		for _, file := range opened {
			file.Close()
		}
	}
	for _, path := range paths {
		if path == "-" {
			sources = append(sources, workload.Source{Name: "standard input", Reader: os.Stdin})
			continue
		}
		file, err := openFile(option, path)
		if err != nil {
			return nil, release, err
		}
		opened = append(opened, file)
		sources = append(sources, workload.Source{Name: shownPath(path), Reader: file})
	}
	return sources, release, nil
}

// openFile opens a file that the option of this name asks for.
func openFile(option, path string) (*os.File, error) {
	name := shownPath(path)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %s: %w", option, name, fs.ErrNotExist)
	}
	if err != nil {
		var cause *fs.PathError // repeats the path
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("%s: cannot open %s: %w", option, name, err)
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, fmt.Errorf("%s: %s is a directory, want a file", option, name)
	}
	return file, nil
}

// shownPath is a path as messages show it: on one line, and visible even if it is empty.
func shownPath(path string) string {
	if path == "" || strings.ContainsFunc(path, unicode.IsControl) {
		return strconv.Quote(path)
	}
	return path
}
