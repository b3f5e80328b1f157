package job

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/go-json-experiment/json/jsontext"

	jsonv2 "github.com/go-json-experiment/json"

	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

// decisionRow is one line of a router log.
type decisionRow struct {
	TimeMs      float64        `json:"time_ms"`
	Stage       string         `json:"stage"`
	TraceRow    int32          `json:"trace_row"`
	QueueWaitMs float64        `json:"queue_wait_ms"`
	Chosen      int            `json:"chosen"`
	Tied        int            `json:"tied"`
	Pinned      bool           `json:"pinned"`
	Candidates  []candidateRow `json:"candidates"`
}

type candidateRow struct {
	Worker        int      `json:"worker"`
	OverlapBlocks int      `json:"overlap_blocks"`
	PrefillTokens int64    `json:"prefill_tokens"`
	ActiveBlocks  int64    `json:"active_blocks"`
	NewBlocks     int      `json:"new_blocks"`
	Cost          *float64 `json:"cost"` // null if it is infinite
}

// decisionLog writes one line for each decision of a router. An error of the file shows when it is flushed.
type decisionLog struct {
	w      *workload.Workload
	buffer *bufio.Writer
	encode *json.Encoder
	row    decisionRow
}

func newDecisionLog(file io.Writer, w *workload.Workload) *decisionLog {
	buffer := bufio.NewWriterSize(file, 1<<16)
	return &decisionLog{w: w, buffer: buffer, encode: json.NewEncoder(buffer)}
}

func (l *decisionLog) add(d router.Decision) {
	candidates := l.row.Candidates[:0]
	for i := range d.Candidates {
		c := &d.Candidates[i]
		row := candidateRow{c.Worker, c.OverlapBlocks, c.PrefillTokens, c.ActiveBlocks, c.NewBlocks, &c.Cost}
		if math.IsInf(c.Cost, 0) {
			row.Cost = nil
		}
		candidates = append(candidates, row)
	}
	stage := d.Stage
	if stage == "" {
		stage = "aggregated"
	}
	l.row = decisionRow{
		TimeMs: d.AtMs, Stage: stage, TraceRow: l.w.Turns[d.ID].Row, QueueWaitMs: d.WaitMs,
		Chosen: d.Chosen, Tied: d.Tied, Pinned: d.Pinned, Candidates: candidates,
	}
	_ = l.encode.Encode(&l.row) // the buffer keeps the first error
}

func (l *decisionLog) flush() error { return l.buffer.Flush() }

// pinRow is one line of a file of decisions; other keys are ignored, so that rows of a report will do.
type pinRow struct {
	TraceRow         *int64 `json:"trace_row"`
	PrefillWorkerIdx *int64 `json:"prefill_worker_idx"`
	DecodeWorkerIdx  *int64 `json:"decode_worker_idx"`
}

// loadDecisions reads which worker each turn must go to; rows without one leave the choice free.
func loadDecisions(path string, w *workload.Workload, workers int) (map[int32]int, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", shownPath(path), fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	turns := make(map[int64]int32, len(w.Turns))
	for i := range w.Turns {
		turns[int64(w.Turns[i].Row)] = int32(i)
	}
	pins := make(map[int32]int)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		if err := pinTurn(pins, lines.Bytes(), turns, workers); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", shownPath(path), number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", shownPath(path), err)
	}
	return pins, nil
}

func pinTurn(pins map[int32]int, line []byte, turns map[int64]int32, workers int) error {
	if len(line) == 0 {
		return nil
	}
	var row pinRow
	if err := jsonv2.Unmarshal(line, &row); err != nil {
		return fmt.Errorf("want an object with integers trace_row and decode_worker_idx: %w", cause(err))
	}
	if row.TraceRow == nil {
		return errors.New("trace_row: missing")
	}
	turn, known := turns[*row.TraceRow]
	if !known {
		return fmt.Errorf("trace_row: got %d, want a row of the workload", *row.TraceRow)
	}
	if row.PrefillWorkerIdx != nil {
		return fmt.Errorf("prefill_worker_idx: got %d, want none: nobody prefills for others in this run", *row.PrefillWorkerIdx)
	}
	if row.DecodeWorkerIdx == nil {
		return nil
	}
	worker := *row.DecodeWorkerIdx
	if worker < 0 || worker >= int64(workers) {
		return fmt.Errorf("decode_worker_idx: got %d, want a worker from 0 to %d", worker, workers-1)
	}
	if _, twice := pins[turn]; twice {
		return fmt.Errorf("trace_row: got %d a second time", *row.TraceRow)
	}
	pins[turn] = int(worker)
	return nil
}

// cause is what is wrong with a line, without the library's view of it.
func cause(err error) error {
	var semantic *jsonv2.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		return fmt.Errorf("%s is no %s", semantic.JSONPointer, semantic.GoType)
	case errors.As(err, &syntactic):
		return syntactic.Err
	}
	return err
}
