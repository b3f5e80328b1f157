package job

import (
	"encoding/json"
	"slices"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/job/tracestats"
	"dynosim/gocore/strictjson"
)

// inspection has the options of a run that say how to read a trace, and the block size of the engine.
func inspection() strictjson.Schema {
	fields := []strictjson.Field{{
		Name: "block_size", Type: strictjson.Integer{Min: 1, Max: 1 << 20}, Default: engineargs.Default().BlockSize,
	}}
	for _, known := range options {
		if slices.Contains([]string{"trace_files", "trace_format", "trace_block_size"}, known.Name) {
			fields = append(fields, known.Field)
		}
	}
	return strictjson.Schema{Fields: fields}
}

// Inspect computes statistics of a trace. config is a JSON object with trace_files, trace_format and trace_block_size as a
// run has them, and block_size, that of the engine. The result is a JSON object: stats holds the numbers, text describes them
// in sentences. Errors have a Kind, as those of Run.
func Inspect(config string, m *Monitor) (result string, err error) {
	o, err := strictjson.Decode(config, inspection())
	if err != nil {
		return "", err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return "", err
	}
	if err := checkTraceFiles(o); err != nil {
		return "", err
	}
	m.bound()
	w, err := loadTrace(parseTrace(o), reading{blockSize: o.Int("block_size")}, m.poll)
	if err != nil {
		return "", err
	}
	stats := tracestats.Inspect(w, o.Int("block_size"))
	text, err := json.Marshal(map[string]any{"stats": stats, "text": stats.Text()})
	return string(text), err
}
