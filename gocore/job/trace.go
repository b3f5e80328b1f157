package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"sync"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// Trace is a trace that was read once for several runs, which may use it at the same time. Later changes of
// its files do not change it.
type Trace struct {
	traceSpec
	hashes   []string // SHA-256 of the files, in hexadecimal
	requests int
	longest  int // prompt, in tokens
	// arrivalRPS is requests per second between the first and the last session's start, 0 if the trace has no such
	// span.
	arrivalRPS float64

	mu     sync.Mutex
	parsed map[reading]*workload.Workload
}

// reading says in what form an engine needs the prompts of a trace.
type reading struct {
	blockSize   int
	namePartial bool   // workload.TraceSpec.NamePartialBlocks
	seed        uint64 // of what the trace leaves to chance, 0 if that is nothing
	passing     bool   // workload.TraceSpec.Passing; never of a trace for several runs
}

// readingFor returns what a run with this seed wants for engines with these arguments.
func (t traceSpec) readingFor(args engineargs.Args, seed uint64) reading {
	as := reading{blockSize: args.BlockSize, namePartial: args.ComparesTokens()}
	if t.format.Draws() {
		as.seed = seed
	}
	return as
}

// traceOptions are the options of a run that say how to read a trace.
var traceOptions = []string{
	"trace_files", "trace_format", "trace_block_size", "trace_shared_prefix_ratio", "trace_num_prefix_groups",
}

// traceSchema returns that of LoadTrace.
func traceSchema() strictjson.Schema {
	fields := []strictjson.Field{
		{Name: "block_size", Type: strictjson.Integer{Min: 1, Max: 1 << 20}, Default: engineargs.Default().BlockSize},
		{Name: "sha256", Type: strictjson.List{}},
	}
	for _, known := range options {
		if slices.Contains(traceOptions, known.Name) {
			fields = append(fields, known.Field)
		}
	}
	return strictjson.Schema{Fields: fields}
}

// LoadTrace reads a trace for several runs. config is a JSON object with the options of a run that say how to read a
// trace; block_size, that of the engines that will most likely use it; and sha256, a list with the hashes that its
// files must have. Errors have a Kind, as those of Run.
func LoadTrace(config string, m *Monitor) (*Trace, error) {
	o, err := strictjson.Decode(config, traceSchema())
	if err != nil {
		return nil, err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return nil, err
	}
	if err := checkTraceFiles(o); err != nil {
		return nil, err
	}
	t := &Trace{traceSpec: parseTrace(o), parsed: map[reading]*workload.Workload{}}
	t.sharedPrefixRatio = o.Float("trace_shared_prefix_ratio")
	t.numPrefixGroups = o.Int("trace_num_prefix_groups")
	if o.Given("sha256") {
		t.hashes = o.List("sha256")
		if len(t.hashes) != len(t.files) {
			return nil, fmt.Errorf("sha256: got %d hashes, want one for each of %d files", len(t.hashes), len(t.files))
		}
	}
	for _, path := range t.files {
		if path == "-" {
			return nil, fmt.Errorf("trace_files: got standard input, want a file, which can be read again")
		}
	}
	m.bound()
	w, err := t.workload(reading{blockSize: o.Int("block_size")}, m.poll)
	if err != nil {
		return nil, err
	}
	t.measure(w)
	return t, nil
}

// measure notes what is known of a trace before it is replayed.
func (t *Trace) measure(w *workload.Workload) {
	t.requests = len(w.Turns)
	for i := range w.Turns {
		t.longest = max(t.longest, w.Turns[i].InputTokens)
	}
	first, last := math.Inf(1), math.Inf(-1)
	for _, session := range w.Sessions {
		if session.Timed {
			first, last = min(first, session.StartMs), max(last, session.StartMs)
		}
	}
	if span := last - first; span > 0 && !math.IsInf(span, 0) {
		t.arrivalRPS = float64(t.requests) / span * 1000
	}
}

// JSON says what was loaded: {"sha256": ["..."], "requests": 12}.
func (t *Trace) JSON() string {
	text, err := json.Marshal(map[string]any{"sha256": t.hashes, "requests": t.requests})
	if err != nil {
		panic("job: a trace does not marshal: " + err.Error())
	}
	return string(text)
}

// workload returns the trace as a workload for engines that need this reading. The caller may schedule it. The first
// run of each reading reads the files, which must not have changed.
func (t *Trace) workload(as reading, poll func() error) (*workload.Workload, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, known := t.parsed[as]
	if !known {
		var err error
		if w, err = t.parse(as, poll); err != nil {
			return nil, err
		}
		t.parsed[as] = w
	}
	return w.Copy(), nil
}

// parse reads the files. The hashes are those of the bytes that were read.
func (t *Trace) parse(as reading, poll func() error) (*workload.Workload, error) {
	sources, release, err := openSources("trace_files", t.files)
	defer release()
	if err != nil {
		return nil, err
	}
	sums := make([]hash.Hash, len(sources))
	for i := range sources {
		sums[i] = sha256.New()
		sources[i].Reader = io.TeeReader(sources[i].Reader, sums[i])
	}
	w, err := t.traceSpec.parse(sources, as, poll)
	if err != nil {
		return nil, err
	}
	hashes := make([]string, len(sources))
	// the hash covers all bytes of the file, also those after the end of compressed data
	for i, source := range sources {
		if _, err := io.Copy(io.Discard, source.Reader); err != nil {
			return nil, fmt.Errorf("trace_files: %s: %w", source.Name, err)
		}
		hashes[i] = hex.EncodeToString(sums[i].Sum(nil))
		if t.hashes != nil && hashes[i] != t.hashes[i] {
			return nil, fmt.Errorf("trace_files: %s has changed since it was loaded: its SHA-256 begins with %.12s, "+
				"want %.12s",
				source.Name, hashes[i], t.hashes[i])
		}
	}
	if t.hashes == nil { // the first reading, before any run has the trace
		t.hashes = hashes
	}
	return w, nil
}

// hash returns the SHA-256 of an input file of a run: that of a loaded trace, or of the file as it is now.
func (m *Monitor) hash(file inputFile) (string, error) {
	if m.Trace != nil && file.Argument == "trace_files" {
		if i := slices.Index(m.Trace.files, file.Path); i >= 0 {
			return m.Trace.hashes[i], nil
		}
	}
	return hashFile(file.Path, m.poll)
}
