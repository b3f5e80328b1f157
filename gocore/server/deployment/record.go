package deployment

import (
	"bufio"
	"io"
	"log/slog"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/guard"
	"dynosim/gocore/server/cluster"
)

// Recorder writes what comes in as a trace that a replay reads: a row for each call, in the order of their arrivals.
// Blocks have numbers of their own: the blocks of a prompt are hash_ids, and every token of an answer is the number of
// its block, so that a replay finds in its caches what was found here, blocks of answers included.
//
// The goroutine of the deployment makes the rows, another one writes them: files may be slow.
type Recorder struct {
	blockSize int
	log       *slog.Logger
	rows      chan []byte
	done      chan struct{}
	numbers   map[cluster.Key]uint32
	next      uint32
	pending   []*row // in the order of arrival; the first one is not over
	of        map[*Call]*row
}

// Label is what a row says of a call besides numbers.
type Label struct{ ID, Model, Session string }

// row is a call that was recorded.
type row struct {
	label          Label
	arrivedMs      float64
	priority       int64
	prompt, output int
	blocks         []uint32 // of prompt and answer, as far as they are full
	over           bool
	emitted        int
	firstMs        float64
	reused         int
	outcome        string
}

// rowsAhead is how many rows may wait for the file before the deployment waits, too.
const rowsAhead = 4096

// NewRecorder writes rows with blocks of the given length in tokens to a file, which Close closes.
func NewRecorder(to io.WriteCloser, blockSize int, log *slog.Logger) *Recorder {
	r := &Recorder{
		blockSize: blockSize, log: log, rows: make(chan []byte, rowsAhead), done: make(chan struct{}),
		numbers: map[cluster.Key]uint32{}, of: map[*Call]*row{},
	}
	go guard.Func(func() { r.write(to) })()
	return r
}

// write writes rows until there are no more. What has been written is in the file when nothing waits.
func (r *Recorder) write(to io.WriteCloser) {
	defer close(r.done)
	out := bufio.NewWriterSize(to, 1<<16)
	var failure error
	for text := range r.rows {
		if _, err := out.Write(text); err != nil && failure == nil {
			failure = err
		}
		if len(r.rows) == 0 {
			if err := out.Flush(); err != nil && failure == nil {
				failure = err
			}
			if failure != nil {
				r.log.Error("the recording is incomplete", "cause", failure)
				break
			}
		}
	}
	for range r.rows { // so that no sender waits
	}
	if err := to.Close(); err != nil && failure == nil {
		r.log.Error("the recording is incomplete", "cause", err)
	}
}

// Close writes what is left. Calls that are not over have the tokens that they have got.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	for _, p := range r.pending {
		p.over = true
	}
	r.flush()
	close(r.rows)
	<-r.done
}

// number returns the number of a block, which is the same wherever the block comes.
func (r *Recorder) number(key cluster.Key) uint32 {
	n, known := r.numbers[key]
	if !known {
		n = r.fresh()
		r.numbers[key] = n
	}
	return n
}

func (r *Recorder) fresh() uint32 {
	r.next++
	return r.next
}

// arrived records a call that arrives. The cluster has not seen its request.
func (r *Recorder) arrived(c *Call, atMs float64) {
	if r == nil {
		return
	}
	q := &c.request
	p := &row{label: c.Label, arrivedMs: atMs, priority: q.Priority, prompt: q.PromptTokens, output: q.OutputTokens}
	for _, key := range q.Keys {
		p.blocks = append(p.blocks, r.number(key))
	}
	for len(p.blocks)*r.blockSize < q.PromptTokens+q.OutputTokens { // the end of the sequence, which fills no block
		p.blocks = append(p.blocks, r.fresh())
	}
	r.pending = append(r.pending, p)
	r.of[c] = p
}

// ended records that a call is over.
func (r *Recorder) ended(c *Call) {
	if r == nil || r.of[c] == nil {
		return
	}
	p := r.of[c]
	delete(r.of, c)
	p.over, p.emitted, p.firstMs, p.reused = true, c.Released(), c.firstMs, c.Reused()
	switch {
	case p.emitted >= p.output:
		p.outcome = "completed"
	case c.Failure() != nil:
		p.outcome = "failed"
	default:
		p.outcome = "cancelled"
	}
	r.flush()
}

// flush hands on the rows before which no call is left that is not over.
func (r *Recorder) flush() {
	n := 0
	for n < len(r.pending) && r.pending[n].over {
		r.rows <- r.pending[n].text(r.blockSize)
		r.pending[n] = nil
		n++
	}
	r.pending = r.pending[n:]
}

// text returns the row as JSON. A call that was given up has as many tokens as it had got.
func (p *row) text(blockSize int) []byte {
	b := append([]byte(`{"timestamp":`), strconv.FormatFloat(p.arrivedMs, 'f', -1, 64)...)
	member := func(name, value string) {
		if value != "" {
			b, _ = jsontext.AppendQuote(append(b, `,"`+name+`":`...), value)
		}
	}
	integer := func(name string, value int) { b = strconv.AppendInt(append(b, `,"`+name+`":`...), int64(value), 10) }
	member("session_id", p.label.Session)
	output := p.output
	if p.outcome == "cancelled" {
		output = max(1, p.emitted)
	}
	integer("input_length", p.prompt)
	integer("output_length", output)
	b = append(b, `,"hash_ids":[`...)
	for i := range (p.prompt + blockSize - 1) / blockSize {
		b = append(strconv.AppendUint(b, uint64(p.blocks[i]), 10), ',')
	}
	b = append(b[:len(b)-1], `],"output_token_ids":[`...)
	for i := range output {
		b = append(strconv.AppendUint(b, uint64(p.blocks[(p.prompt+i)/blockSize]), 10), ',')
	}
	b = append(b[:len(b)-1], ']')
	if p.priority != 0 {
		integer("priority", int(p.priority))
	}
	member("answer_id", p.label.ID)
	member("model", p.label.Model)
	member("outcome", p.outcome)
	integer("cached_tokens", p.reused)
	if p.emitted > 0 {
		b = append(b, `,"ttft_ms":`...)
		b = strconv.AppendFloat(b, p.firstMs-p.arrivedMs, 'f', -1, 64)
	}
	return append(b, "}\n"...)
}
