package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"

	"dynosim/gocore/workload/tracefile"
	"dynosim/gocore/workload/traffic"
)

// Format is a kind of trace. Those after Dynamo are the formats of package traffic, in its order.
type Format uint8

const (
	Mooncake       Format = iota // whole prompts, sessions of turns
	MooncakeDelta                // rows hold what a turn adds to its session
	Agentic                      // requests that wait for others
	AppliedCompute               // whole sessions, one a line
	Dynamo                       // recordings of requests and tools
)

// ownFormats are the formats of this package. Rows of a later one may look like rows of those before, with further
// keys.
var ownFormats = [...]struct {
	name, alias string
	looks       *regexp.Regexp
}{
	{"mooncake", "", regexp.MustCompile(`"hash_ids"`)},
	{"mooncake-delta", "mooncake_delta", nil},
	{"agentic_mooncake", "agentic-mooncake", regexp.MustCompile(`"wait_for"`)},
	{"applied_compute_agentic", "", regexp.MustCompile(`"num_turns"`)},
	{"dynamo", "", regexp.MustCompile(`"dynamo\.(request|agent)\.trace\.`)},
}

// FormatNames lists the names of all formats, that of Mooncake traces first.
func FormatNames() []string {
	var names []string
	for _, own := range ownFormats {
		names = append(names, own.name)
	}
	for _, imported := range traffic.Formats {
		names = append(names, imported.Name)
	}
	return names
}

// FormatSpellings lists all names that ParseFormat accepts, other spellings after the name that they stand for.
func FormatSpellings() []string {
	var names []string
	for _, own := range ownFormats {
		if names = append(names, own.name); own.alias != "" {
			names = append(names, own.alias)
		}
	}
	for _, imported := range traffic.Formats {
		names = append(append(names, imported.Name), imported.Aliases...)
	}
	return names
}

func (f Format) String() string {
	if imported := f.imported(); imported != nil {
		return imported.Name
	}
	return ownFormats[f].name
}

// ParseFormat finds a format by its name or its other spelling.
func ParseFormat(name string) (Format, bool) {
	for i, own := range ownFormats {
		if name == own.name || name == own.alias && name != "" {
			return Format(i), true
		}
	}
	for i, imported := range traffic.Formats {
		if name == imported.Name || slices.Contains(imported.Aliases, name) {
			return Format(len(ownFormats) + i), true
		}
	}
	return 0, false
}

// imported returns the format of package traffic, nil for the others.
func (f Format) imported() *traffic.Format {
	if int(f) < len(ownFormats) {
		return nil
	}
	return &traffic.Formats[int(f)-len(ownFormats)]
}

// Several reports whether a trace may consist of several files.
func (f Format) Several() bool {
	imported := f.imported()
	return f == Dynamo || imported != nil && imported.Several
}

// Draws reports whether a trace may leave something to chance, which is then drawn from the seed.
func (f Format) Draws() bool {
	imported := f.imported()
	return imported != nil && imported.Draws
}

// Shares reports whether prompts can share prefixes by TraceSpec.SharedPrefixRatio: their content is not known.
func (f Format) Shares() bool { return f == AppliedCompute || !f.UsesBlockSize() }

// UsesBlockSize reports whether TraceSpec.TraceBlockSize matters: prompts are given by blocks.
func (f Format) UsesBlockSize() bool {
	imported := f.imported()
	return imported == nil || imported.Content
}

// guess returns the format that a file looks like by its beginning.
func guess(head []byte) (Format, bool) {
	if f, known := ParseFormat(traffic.Guess(head)); known {
		return f, true
	}
	for i, own := range slices.Backward(ownFormats[:]) {
		if own.looks != nil && own.looks.Match(head) {
			return Format(i), true
		}
	}
	return 0, false
}

// headBytes is how much of a file is looked at to tell its format.
const headBytes = 4096

// withHint returns the sources, of which it has looked at the beginning, and a function that adds to an error which
// format the first file looks like, if it is another one. An error of spec.Poll stays as it is.
func withHint(sources []Source, spec *TraceSpec) ([]Source, func(Format, error) error) {
	if len(sources) == 0 {
		return sources, func(_ Format, err error) error { return err }
	}
	buffered := bufio.NewReaderSize(sources[0].Reader, 1<<16)
	head, _ := buffered.Peek(headBytes) // errors come again
	head = plainHead(head)
	interrupted := false
	if poll := spec.Poll; poll != nil {
		spec.Poll = func() error {
			err := poll()
			interrupted = interrupted || err != nil
			return err
		}
	}
	sources = slices.Clone(sources)
	sources[0].Reader = buffered
	return sources, func(format Format, err error) error {
		looks, known := guess(head)
		if interrupted || !known || looks == format || looks == Mooncake && format <= Agentic {
			return err
		}
		return fmt.Errorf("%w (it looks like trace_format %v)", err, looks)
	}
}

// plainHead returns the text at the beginning of a file that may be compressed.
func plainHead(head []byte) []byte {
	plain, err := tracefile.Plain(bytes.NewReader(head))
	if err != nil {
		return nil
	}
	text := make([]byte, headBytes)
	n, _ := io.ReadFull(plain, text) // the compressed text is cut off
	return text[:n]
}
