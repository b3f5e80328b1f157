package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"dynosim/gocore/workload/tracefile"
)

// DefaultTraceBlockSize is the number of tokens per block id in all formats that do not say it themselves.
const DefaultTraceBlockSize = 512

// TraceSpec says how to read a trace.
type TraceSpec struct {
	TraceBlockSize  int // tokens per block id; 0 = DefaultTraceBlockSize, or what the format or the trace says
	EngineBlockSize int // tokens per block of the engine

	// NamePartialBlocks gives the last block of a prompt an id also if it is not full, where the engine's block size
	// divides that of the trace: an engine may compare prompts token by token.
	NamePartialBlocks bool

	// Sessions whose content is not known begin with blocks that all sessions of their group share, see Format.Shares.
	SharedPrefixRatio float64 // of the first prompt's blocks, 0 to 1
	NumPrefixGroups   int     // 0 = nothing is shared

	Seed uint64 // of what a format draws, see Format.Draws

	// Passing keeps traces of requests that do not depend on each other in a form that takes little memory, and makes
	// turns only when they are asked for: see SyntheticSpec.Passing.
	Passing bool

	// Poll is called now and then; an error it returns ends the reading and is passed on.
	Poll func() error
}

// checkShared refuses a ratio that cannot be one.
func (spec *TraceSpec) checkShared() error {
	if !(spec.SharedPrefixRatio >= 0 && spec.SharedPrefixRatio <= 1) {
		return fmt.Errorf("trace_shared_prefix_ratio: got %v, want a number from 0 to 1", spec.SharedPrefixRatio)
	}
	return nil
}

// pollEvery is the number of lines or sessions between two calls of Poll.
const pollEvery = 256

// longLine is the length from which every line is followed by a call of Poll, since reading it takes long and much
// memory.
const longLine = 1 << 16

// Source is a trace file that has been opened. Name is how errors call it.
type Source struct {
	Name   string
	Reader io.Reader
}

// Load reads a trace. Only some formats may consist of several files, see Format.Several.
//
// Lines that are empty are skipped but counted. All rows are checked before anything is returned; errors name file,
// line and field, and the format that the file looks like if that is another one.
func Load(format Format, sources []Source, spec TraceSpec) (*Workload, error) {
	if len(sources) != 1 && !format.Several() {
		return nil, fmt.Errorf("got %d trace files, want exactly one for trace_format %v", len(sources), format)
	}
	sources, hint := withHint(sources, &spec)
	w, err := loadFormat(format, sources, spec)
	if err != nil {
		return nil, hint(format, err)
	}
	return w, nil
}

func loadFormat(format Format, sources []Source, spec TraceSpec) (*Workload, error) {
	if format == Dynamo {
		return loadDynamo(sources, spec)
	}
	if imported := format.imported(); imported != nil {
		return loadTraffic(format, imported, sources, spec)
	}
	if spec.TraceBlockSize == 0 {
		spec.TraceBlockSize = DefaultTraceBlockSize
	}
	source := sources[0]
	w := &Workload{File: source.Name, Format: format}
	var err error
	switch format {
	case Agentic:
		err = loadAgentic(w, source, spec)
	case AppliedCompute:
		err = loadApplied(w, source, spec)
	default:
		err = loadSessions(w, source, spec)
	}
	return w, err
}

// LoadMooncake reads a Mooncake JSONL trace: one request a line, its prompt given as block ids, its output as a length.
// Rows with the same session_id are the turns of one session. name is how errors call the file.
func LoadMooncake(r io.Reader, name string, spec TraceSpec) (*Workload, error) {
	return Load(Mooncake, []Source{{Name: name, Reader: r}}, spec)
}

// readLines hands every line that is not blank to add, with its 1-based number. Errors name file and line.
func readLines(source Source, poll func() error, add func(line int, text []byte) error) error {
	lines, err := tracefile.NewLines(source.Reader)
	if err != nil {
		return fmt.Errorf("%s %w", source.Name, err)
	}
	for number := 1; ; number++ {
		text, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if poll != nil && (number%pollEvery == 0 || len(text) > longLine) {
			if err := poll(); err != nil {
				return err
			}
		}
		switch {
		case err != nil:
		case number > math.MaxInt32:
			err = fmt.Errorf("more lines than %d, the limit", math.MaxInt32)
		case len(bytes.TrimSpace(text)) > 0:
			err = add(number, text)
		}
		if err != nil {
			return lineFault(source.Name, number, err)
		}
	}
}

func lineFault(file string, line int, err error) error {
	return fmt.Errorf("%s line %d: %w", file, line, err)
}

// noRequests returns the error of a trace without rows.
func noRequests(name string) error { return fmt.Errorf("%s: holds no requests", name) }
