package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/spelling"
	"dynosim/gocore/workload"
)

// loadWorkload reads or generates the workload for engines with these arguments.
func loadWorkload(s *Spec, args engineargs.Args, m *Monitor) (*workload.Workload, error) {
	switch {
	case s.synthetic:
		return generate(s.generated, args.BlockSize, m.poll)
	case m.Trace != nil:
		return m.Trace.workload(m.Trace.readingFor(args, s.seed), m.poll)
	}
	as := s.trace.readingFor(args, s.seed)
	as.passing = s.passes()
	return loadTrace(s.trace, as, m.poll)
}

// loadTrace reads trace files; the path "-" stands for standard input.
func loadTrace(t traceSpec, as reading, poll func() error) (*workload.Workload, error) {
	sources, release, err := openSources("trace_files", t.files)
	defer release()
	if err != nil {
		return nil, err
	}
	return t.parse(sources, as, poll)
}

// parse reads the opened files of a trace.
func (t traceSpec) parse(sources []workload.Source, as reading, poll func() error) (*workload.Workload, error) {
	return workload.Load(t.format, sources, workload.TraceSpec{
		TraceBlockSize: t.blockSize, EngineBlockSize: as.blockSize, NamePartialBlocks: as.namePartial,
		SharedPrefixRatio: t.sharedPrefixRatio, NumPrefixGroups: t.numPrefixGroups, Seed: as.seed, Passing: as.passing,
		Poll: poll,
	})
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
		sources = append(sources, workload.Source{Name: spelling.Path(path), Reader: file})
	}
	return sources, release, nil
}

// openFile opens a file that the option of this name asks for.
func openFile(option, path string) (*os.File, error) {
	name := spelling.Path(path)
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
