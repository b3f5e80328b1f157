package job

import (
	"encoding/json"
	"slices"
	"strconv"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/job/tracestats"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// inspection returns the options of a run that say how to read a trace, and the block size of the engine.
func inspection() strictjson.Schema {
	fields := []strictjson.Field{{
		Name: "block_size", Type: strictjson.Integer{Min: 1, Max: 1 << 20}, Default: engineargs.Default().BlockSize,
	}, {
		Name: "reuse_points", Type: strictjson.Integer{Max: 10000}, Default: 0,
	}, {
		Name: "reuse_sizes", Type: strictjson.List{},
	}}
	for _, known := range options {
		if slices.Contains([]string{"trace_files", "trace_format", "trace_block_size"}, known.Name) {
			fields = append(fields, known.Field)
		}
	}
	return strictjson.Schema{Fields: fields}
}

// Inspect computes statistics of a trace. config is a JSON object with trace_files, trace_format and trace_block_size
// as a run has them, and block_size, that of the engine. The result is a JSON object: stats holds the numbers, text
// describes them in sentences. With reuse_points, reuse holds the prompt tokens that caches find, for that number of
// sizes and for those of reuse_sizes, in blocks. Errors have a Kind, as those of Run.
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
	found := map[string]any{"stats": stats, "text": stats.Text()}
	if points := o.Int("reuse_points"); points > 0 {
		if found["reuse"], err = reuseOf(w, o, points); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(found)
	return string(text), err
}

// reuse holds, for some sizes of a cache, a pair: its blocks, and the prompt tokens of a trace that it finds.
type reuse struct {
	InputTokens int64      `json:"input_tokens"`
	Blocks      int        `json:"blocks"`
	Knee        [2]int64   `json:"knee"`
	Most        [2]int64   `json:"most"`
	Enough      [2]int64   `json:"enough"`
	Asked       [][2]int64 `json:"asked"`
	Points      [][2]int64 `json:"points"`
}

func reuseOf(w *workload.Workload, o *strictjson.Object, points int) (*reuse, error) {
	r := tracestats.NewReuse(w, o.Int("block_size"))
	at := func(blocks int) [2]int64 { return [2]int64{int64(blocks), r.Found(blocks)} }
	found := &reuse{InputTokens: r.InputTokens, Blocks: r.Blocks, Knee: at(r.Knee()), Most: at(r.Most()),
		Enough: at(r.Enough()), Asked: [][2]int64{}}
	for _, size := range o.List("reuse_sizes") {
		blocks, err := strconv.Atoi(size)
		if err != nil || blocks < 0 {
			return nil, &strictjson.FieldError{Field: "reuse_sizes", Got: strconv.Quote(size),
				Want: "integers of at least 0"}
		}
		found.Asked = append(found.Asked, at(blocks))
	}
	for i := range points + 1 {
		found.Points = append(found.Points, at(r.Enough()*i/points))
	}
	return found, nil
}
