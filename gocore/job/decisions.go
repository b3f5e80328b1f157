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

	"dynosim/gocore/engine"
	"dynosim/gocore/router"
	"dynosim/gocore/spelling"
	"dynosim/gocore/workload"
)

// decisionRow is one line of a router log.
type decisionRow struct {
	TimeMs      float64        `json:"time_ms"`
	Stage       string         `json:"stage"`
	TraceRow    int32          `json:"trace_row"`
	Attempt     int            `json:"attempt,omitempty"` // of the request, in a run with faults
	QueueWaitMs float64        `json:"queue_wait_ms"`
	Chosen      int            `json:"chosen"`
	ChosenRank  *int           `json:"chosen_dp_rank,omitempty"` // if the router chooses ranks
	Tied        int            `json:"tied"`
	Pinned      bool           `json:"pinned"`
	Candidates  []candidateRow `json:"candidates"`
}

type candidateRow struct {
	Worker        int      `json:"worker"`
	Rank          *int     `json:"dp_rank,omitempty"` // if the router chooses ranks
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
	again  map[int32]attempt // nil in a run without faults
}

// attempt is an attempt of a request that is not the first.
type attempt struct {
	turn   int32
	number int
}

// began notes an attempt.
func (l *decisionLog) began(id, turn int32, number int) { l.again[id] = attempt{turn, number} }

func newDecisionLog(file io.Writer, w *workload.Workload) *decisionLog {
	buffer := bufio.NewWriterSize(file, 1<<16)
	return &decisionLog{w: w, buffer: buffer, encode: json.NewEncoder(buffer)}
}

// add writes a decision of a router, with the rank if it chooses ranks.
func (l *decisionLog) add(d router.Decision, ranked bool) {
	candidates := l.row.Candidates[:0]
	for i := range d.Candidates {
		c := &d.Candidates[i]
		row := candidateRow{c.Worker, nil, c.OverlapBlocks, c.PrefillTokens, c.ActiveBlocks, c.NewBlocks, &c.Cost}
		if ranked {
			row.Rank = &c.Rank
		}
		if math.IsInf(c.Cost, 0) {
			row.Cost = nil
		}
		candidates = append(candidates, row)
	}
	stage := d.Stage
	if stage == "" {
		stage = "aggregated"
	}
	of := attempt{turn: d.ID}
	if l.again != nil {
		of.number = 1
		if later, known := l.again[d.ID]; known {
			of = later
		}
	}
	l.row = decisionRow{
		TimeMs: d.AtMs, Stage: stage, TraceRow: l.w.Turns[of.turn].Row, Attempt: of.number, QueueWaitMs: d.WaitMs,
		Chosen: d.Chosen, Tied: d.Tied, Pinned: d.Pinned, Candidates: candidates,
	}
	if ranked {
		l.row.ChosenRank = &d.ChosenRank
	}
	_ = l.encode.Encode(&l.row) // the buffer keeps the first error
}

func (l *decisionLog) flush() error { return l.buffer.Flush() }

// pinRow is one line of a file of decisions; other keys are ignored, so that rows of a report will do.
type pinRow struct {
	TraceRow         *int64 `json:"trace_row"`
	PrefillWorkerIdx *int64 `json:"prefill_worker_idx"`
	PrefillRank      *int64 `json:"prefill_dp_rank"`
	DecodeWorkerIdx  *int64 `json:"decode_worker_idx"`
	Rank             *int64 `json:"dp_rank"`
}

// pins are the workers that turns must go to in one stage of a deployment, or the ranks of workers if its router
// chooses these.
type pins struct {
	of             map[int32]int
	workers, ranks int    // of the stage, of a worker
	worker, rank   string // keys of a row
}

// newPins returns the pins of a stage. If workers come and go, there may be more of them than it says.
func newPins(stage *router.Options, comeAndGo bool) pins {
	p := pins{of: map[int32]int{}, ranks: max(1, stage.Ranks), worker: "decode_worker_idx", rank: "dp_rank"}
	if stage.Stage == engine.Prefill.String() {
		p.worker, p.rank = "prefill_worker_idx", "prefill_dp_rank"
	}
	if p.workers = stage.Workers / p.ranks; comeAndGo {
		p.workers = math.MaxInt32
	}
	return p
}

// loadDecisions reads which workers the turns must go to, for each stage. A row without one leaves that choice free,
// and is counted in free if it names no worker at all. If workers come and go, there may be more of them than the
// stages say.
func loadDecisions(path string, w *workload.Workload, stages []*router.Options, comeAndGo bool) (all []pins, free int,
	err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("%s: %w", spelling.Path(path), fs.ErrNotExist)
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	turns := make(map[int64]int32, len(w.Turns))
	for i := range w.Turns {
		turns[int64(w.Turns[i].Row)] = int32(i)
	}
	for _, stage := range stages {
		all = append(all, newPins(stage, comeAndGo))
	}
	seen := make(map[int32]bool)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		pinned, err := pinTurn(all, seen, lines.Bytes(), turns)
		if err != nil {
			return nil, 0, fmt.Errorf("%s line %d: %w", spelling.Path(path), number, err)
		}
		if !pinned {
			free++
		}
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", spelling.Path(path), err)
	}
	if free == len(seen) {
		return nil, 0, fmt.Errorf("%s: got no row that names a worker, want trace_row and decode_worker_idx or, of "+
			"two pools, prefill_worker_idx", spelling.Path(path))
	}
	return all, free, nil
}

// pinTurn reads a line that is not blank; pinned tells whether it names a worker.
func pinTurn(all []pins, seen map[int32]bool, line []byte, turns map[int64]int32) (pinned bool, err error) {
	var row pinRow
	if err := jsonv2.Unmarshal(line, &row); err != nil {
		return false, malformed(err)
	}
	if row.TraceRow == nil {
		return false, errors.New("trace_row: missing")
	}
	turn, known := turns[*row.TraceRow]
	if !known {
		return false, fmt.Errorf("trace_row: got %d, want a row of the workload", *row.TraceRow)
	}
	if seen[turn] {
		return false, fmt.Errorf("trace_row: got %d a second time", *row.TraceRow)
	}
	seen[turn] = true
	decode := len(all) - 1
	if decode == 0 && row.PrefillWorkerIdx != nil {
		return false, fmt.Errorf("prefill_worker_idx: got %d, want none: this run has no prefill workers",
			*row.PrefillWorkerIdx)
	}
	first, err := all[0].add(turn, row.PrefillWorkerIdx, row.PrefillRank)
	if err != nil {
		return false, err
	}
	last, err := all[decode].add(turn, row.DecodeWorkerIdx, row.Rank)
	return first || last, err
}

// add pins a turn to a worker, and to a rank of it if the router of the stage chooses ranks. It reports whether the row
// names these.
func (p pins) add(turn int32, worker, rank *int64) (pinned bool, err error) {
	if worker == nil {
		return false, nil
	}
	if *worker < 0 || *worker >= int64(p.workers) {
		return false, fmt.Errorf("%s: got %d, want a worker from 0 to %d", p.worker, *worker, p.workers-1)
	}
	target := int(*worker) * p.ranks
	switch {
	case p.ranks == 1:
	case rank == nil: // as in rows of requests that no rank has computed
		return false, nil
	case *rank < 0 || *rank >= int64(p.ranks):
		return false, fmt.Errorf("%s: got %d, want a rank from 0 to %d", p.rank, *rank, p.ranks-1)
	default:
		target += int(*rank)
	}
	p.of[turn] = target
	return true, nil
}

// malformed says what is wrong with a line that does not decode.
func malformed(err error) error {
	var semantic *jsonv2.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && semantic.JSONPointer == "":
		return errors.New("want a JSON object with trace_row, decode_worker_idx and, of two pools, prefill_worker_idx")
	case errors.As(err, &semantic):
		return fmt.Errorf("%s: want an integer", semantic.JSONPointer.LastToken())
	case errors.As(err, &syntactic):
		return fmt.Errorf("broken JSON: %w", syntactic.Err)
	}
	return err
}
